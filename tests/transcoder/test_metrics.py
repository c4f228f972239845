"""What dashboards and alerts ask for is what the service tells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from pipelines.spec import FileJob
from tests.transcoder.fixtures_api import Api
from transcoder.clock import utc_now
from transcoder.gpus.load import Load
from transcoder.jobs import Attempt, ErrorInfo, Job, JobStatus
from transcoder.telemetry import Telemetry

DOCKER = Path(__file__).parent.parent.parent / "docker"
FROM_PROMETHEUS = {"up": {"job", "instance"}}
NAME = re.compile(r"\b(transcoder_\w+|up)\b")
SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")
OWN = {"le", "instance", "job"}


def expressions() -> Iterator[tuple[str, str]]:
    dashboard = json.loads((DOCKER / "grafana" / "dashboards" / "transcoder.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for group in yaml.safe_load((DOCKER / "alerts.yml").read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def failed_on_a_gpu() -> Job:
    now = utc_now()
    spec = FileJob.model_validate({"input": {"upload": "x"}, "preset": "web-mp4"})
    lost = ErrorInfo(code="device_lost", message="gone")
    tries = (
        Attempt(number=1, device="pci-0000:03:00.0", status="failed", started_at=now, error=lost),
        Attempt(number=2, device="software", status="completed", started_at=now),
    )
    times = {"created_at": now, "started_at": now, "finished_at": now + timedelta(seconds=3)}
    return Job(
        id="x", kind="file", status=JobStatus.COMPLETED, queue="default", priority=0, attempts=tries, spec=spec, **times
    )


@pytest.fixture
async def told(api: Api) -> dict[str, set[str]]:
    """Names of series of a live service, with their labels; what needs a GPU is told by its telemetry alone."""
    await api.ended((await api.submit())["id"])
    api.executor.gate.clear()
    api.executor.running.clear()
    await api.submit()
    await api.executor.running.wait()
    api.app.state.telemetry.job_finished(failed_on_a_gpu())
    text = (await api.http.get("/metrics")).text + gpu_series()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def gpu_series() -> str:
    class Gpu:
        id, slots, busy, state = "pci-0000:03:00.0", 2, 1, "ready"
        load = Load(engines={"video": 0.5}, memory_bytes=1)

    text = Telemetry().exposition([Gpu()], {}).decode()
    return "".join(line + "\n" for line in text.splitlines() if "transcoder_device_" in line)


@pytest.mark.slow
async def test_every_expression_names_series_and_labels_that_exist(told: dict[str, set[str]]) -> None:
    known = told | FROM_PROMETHEUS
    for title, expression in expressions():
        names = set(NAME.findall(expression))
        assert names, title
        assert names <= known.keys(), (title, names - known.keys())
        labels = set().union(*(known[name] for name in names)) | OWN
        for grouping in GROUPING.findall(expression):
            assert {label.strip() for label in grouping.split(",")} <= labels, title
        for name, selector in SELECTOR.findall(expression):
            assert {part.split("=")[0].strip("!~ ") for part in selector.split(",")} <= known[name], title


@pytest.mark.slow
async def test_names_follow_the_convention(told: dict[str, set[str]]) -> None:
    units = ("_total", "_seconds", "_bytes", "_ratio", "_info", "_bucket", "_count", "_sum", "_created")
    counted = {
        "transcoder_jobs_active",
        "transcoder_slots",
        "transcoder_slot_busy",
        "transcoder_device_ready",
        "transcoder_streams",
    }
    for name in told:
        if name.startswith("transcoder_"):
            assert name.endswith(units) or name in counted, name


@pytest.mark.slow
async def test_step_down_is_counted_with_its_reason(told: dict[str, set[str]], api: Api) -> None:
    text = (await api.http.get("/metrics")).text
    line = 'transcoder_fallback_total{from="pci-0000:03:00.0",reason="device_lost",to="software"} 1.0'
    assert line in text.splitlines()


def test_alerts_say_what_to_look_at() -> None:
    rules: list[dict[str, Any]] = yaml.safe_load((DOCKER / "alerts.yml").read_text(encoding="utf-8"))["groups"][0][
        "rules"
    ]
    for rule in rules:
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_prometheus_of_the_compose_file_reads_the_alerts() -> None:
    assert yaml.safe_load((DOCKER / "prometheus.yml").read_text())["rule_files"] == ["alerts.yml"]
    assert "./docker/alerts.yml:/etc/prometheus/alerts.yml:ro" in (DOCKER.parent / "compose.yaml").read_text()
