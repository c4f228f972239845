"""What image, compose.yaml and dashboard name exists, and one list of packages serves the image and the tests."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from transcoder.telemetry import Telemetry

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
LISTS = sorted((ROOT / "docker" / "packages").glob("*.txt"))


def packages(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_list_of_packages_is_sorted_and_names_each_once(path: Path) -> None:
    assert packages(path) == sorted(set(packages(path)))
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", name) for name in packages(path))


def test_no_package_is_in_two_lists() -> None:
    named = [name for path in LISTS for name in packages(path)]
    assert len(named) == len(set(named))


def test_image_installs_its_lists_and_nothing_else() -> None:
    installed = re.findall(r"apt-get install -y --no-install-recommends (\S.*?)(?= \\|\n)", DOCKERFILE)
    assert installed == [
        "$(grep -hv '^#' /tmp/packages/run.txt)",
        "$(grep -hv '^#' /build/build.txt)",
    ]


def test_test_root_is_made_of_the_same_lists_and_debian() -> None:
    script = (ROOT / "docker" / "test-root").read_text(encoding="utf-8")
    assert "docker/packages/*.txt" in script
    assert "s/^ARG DEBIAN=//p" in script
    assert re.search(r"^ARG DEBIAN=\w+$", DOCKERFILE, re.MULTILINE)


def test_image_copies_files_that_exist_and_that_the_build_may_see() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
            assert f"!{source.partition('/')[0]}" in ignored, source


def test_image_does_not_run_as_root() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert "\nUSER transcoder\n" in final
    assert final.index("USER ") < final.index("ENTRYPOINT ")


@pytest.mark.parametrize("name", ["build-pyav", "test-root"])
def test_script_is_a_shell_script_that_can_be_run(name: str) -> None:
    script = ROOT / "docker" / name
    assert script.stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", script], check=True, timeout=10)


def test_pyav_of_the_image_is_one_that_the_project_takes() -> None:
    script = (ROOT / "docker" / "build-pyav").read_text(encoding="utf-8")
    found = re.search(r"^version=(\d+)\.(\d+)\.\d+$", script, re.MULTILINE)
    assert found
    major, minor = map(int, found.groups())
    assert f'"av>={major}.{minor},<{major + 1}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def mounted_files(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from mounted_files(item)
    elif isinstance(value, list):
        for item in value:
            yield from mounted_files(item)
    elif isinstance(value, str) and value.startswith("./"):
        yield value.partition(":")[0]


def test_compose_mounts_files_that_exist() -> None:
    mounted = set(mounted_files(COMPOSE["services"]))
    assert len(mounted) >= 3
    assert [path for path in mounted if not (ROOT / path).exists()] == []


def test_compose_uses_the_volumes_and_secrets_that_it_declares() -> None:
    named = {
        volume.partition(":")[0]
        for service in COMPOSE["services"].values()
        for volume in service.get("volumes", [])
        if not volume.startswith((".", "/"))
    }
    secrets = {secret for service in COMPOSE["services"].values() for secret in service.get("secrets", [])}
    assert named == set(COMPOSE["volumes"])
    assert secrets == set(COMPOSE["secrets"])


def test_compose_publishes_on_loopback_only() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_profiles_add_to_the_service_and_never_replace_it() -> None:
    profiles = {name: set(service.get("profiles", [])) for name, service in COMPOSE["services"].items()}
    assert profiles.pop("transcoder") == set()
    assert set().union(*profiles.values()) == {"cluster", "observability"}


def test_dashboard_and_scrape_configuration_name_what_there_is() -> None:
    exposed = Telemetry().exposition((), {}).decode()
    families = set(re.findall(r"^# TYPE (\S+) ", exposed, re.MULTILINE))
    dashboard = (ROOT / "docker/grafana/dashboards/transcoder.json").read_text(encoding="utf-8")
    for panel in json.loads(dashboard)["panels"]:
        for target in panel["targets"]:
            named = set(re.findall(r"transcoder_\w+", target["expr"]))
            assert named, panel["title"]
            assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in named} <= families, panel["title"]
    scrape = yaml.safe_load((ROOT / "docker/prometheus.yml").read_text(encoding="utf-8"))
    (job,) = scrape["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["transcoder:8080"]}]
    secret = os.path.basename(job["authorization"]["credentials_file"])
    assert secret in COMPOSE["services"]["prometheus"]["secrets"]
