"""Resumable uploads by the client that browsers use, across deaths of the client and of the service."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.live import LiveServer, live_server

PACKAGE = "tus-js-client@4.3.1"
SIZE = 24 << 20

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the client and its script."""
    folder = tmp_path_factory.mktemp("client")
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node or npm is not installed")
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE]
    try:
        done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm does not reach its registry in time")
    if done.returncode != 0:
        pytest.skip(f"npm can't install {PACKAGE}: {done.stderr.strip()[-300:]}")
    shutil.copy(Path(__file__).parent / "tus_client.mjs", folder)
    return folder


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with live_server(TRANSCODER_SOFTWARE_SLOTS="1") as running:
        yield running


@pytest.fixture
def media(tmp_path: Path) -> Path:
    path = tmp_path / "clip.mov"
    path.write_bytes(random.Random(1).randbytes(SIZE))
    return path


def start(client: Path, server: LiveServer, media: Path, stop_after: int = 0) -> subprocess.Popen[str]:
    words = ["node", "tus_client.mjs", f"{server.address}/v1/tus", str(media), str(stop_after)]
    return subprocess.Popen(words, cwd=client, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> str:
    """The id of what was uploaded."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    return out.strip().rpartition("/")[2]


def check(server: LiveServer, upload_id: str, media: Path) -> None:
    upload = server.curl(f"/v1/uploads/{upload_id}").json()
    assert (upload["name"], upload["size"]) == ("über.mov", SIZE)
    assert upload["sha256"] == hashlib.sha256(media.read_bytes()).hexdigest()
    assert list((server.data / "partial").iterdir()) == []
    # what is no media is still a job's input, and the next job is as good as any
    probe = subprocess.run(
        ["curl", "-sS", "--json", json.dumps({"upload": upload_id}), f"{server.address}/v1/probe"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert json.loads(probe.stdout)["code"] == "bad_input"


def test_client_uploads_and_the_service_has_every_byte(client: Path, server: LiveServer, media: Path) -> None:
    check(server, finished(start(client, server, media)), media)


def test_client_that_dies_goes_on_where_it_was(client: Path, server: LiveServer, media: Path) -> None:
    first = start(client, server, media, stop_after=SIZE // 3)
    out, _ = first.communicate(timeout=120)
    assert first.returncode == 9
    accepted = int(out.strip().rpartition(" ")[2])
    assert SIZE // 3 <= accepted < SIZE
    second = start(client, server, media)
    out, err = second.communicate(timeout=120)
    assert second.returncode == 0, out + err
    counts = [int(line.split()[1]) for line in out.splitlines() if line.startswith("accepted")]
    assert min(counts) > accepted
    check(server, out.strip().rpartition("/")[2], media)


def test_service_that_is_killed_goes_on_where_it_was(client: Path, server: LiveServer, media: Path) -> None:
    process = start(client, server, media)
    assert process.stdout is not None
    accepted = 0
    for line in process.stdout:
        if line.startswith("accepted"):
            accepted = int(line.split()[1])
        if accepted >= SIZE // 3:
            break
    server.kill()
    server.start()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    counts = [int(line.split()[1]) for line in out.splitlines() if line.startswith("accepted")]
    assert min(counts) >= accepted
    check(server, out.strip().rpartition("/")[2], media)
