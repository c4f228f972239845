"""A job's small picture: what it shows, that it is made once, who may see it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.live import LiveServer, live_server
from tests.media import make_audio, make_video
from tests.signals import plain_picture
from tests.stills import picture
from tests.transcoder.fixtures_api import Api, problem


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with live_server(TRANSCODER_SOFTWARE_SLOTS="1") as running:
        yield running


@pytest.fixture(scope="module")
def grey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Black at first, then a grey with a lighter block in its middle."""
    lumas = [16] * 8 + [120] * 22
    return make_video(
        tmp_path_factory.mktemp("media") / "in.mp4",
        size=(640, 200), rate=10, seconds=3, gop=5, audio=(),
        frames=(plain_picture((640, 200), luma) for luma in lumas),
    )  # fmt: skip


def run(server: LiveServer, clip: Path, *outputs: dict[str, Any]) -> tuple[str, str]:
    """A completed job, and its upload."""
    upload = json.loads(server.curl("-T", clip, "/v1/uploads/").out)["id"]
    found = server.ended({"input": {"upload": upload}, "outputs": outputs})
    assert found["status"] == "completed", found["error"]
    return found["id"], upload


def fetch(server: LiveServer, job: str, target: Path) -> str:
    """Status and content type."""
    return server.curl("-o", target, "-w", "%{http_code} %{content_type}", f"/v1/jobs/{job}/thumbnail.jpg").out


@pytest.mark.slow
def test_thumbnail_shows_the_film_and_not_its_black_beginning(server: LiveServer, grey: Path, tmp_path: Path) -> None:
    job, _ = run(server, grey, {"type": "mp4", "name": "small", "video": {"speed": "ultrafast"}})
    assert fetch(server, job, tmp_path / "t.jpg") == "200 image/jpeg"
    shown = picture(tmp_path / "t.jpg")
    assert shown.shape == (100, 320, 3)
    assert shown.mean() == pytest.approx((120 - 16) * 255 / 219, abs=4)
    assert fetch(server, job, tmp_path / "again.jpg") == "200 image/jpeg"
    assert (tmp_path / "again.jpg").read_bytes() == (tmp_path / "t.jpg").read_bytes()


@pytest.mark.parametrize("segment_type", ["fmp4", "ts"])
def test_ladder_shows_one_of_its_segments(server: LiveServer, grey: Path, tmp_path: Path, segment_type: str) -> None:
    ladder = {"type": "hls", "name": "l", "segment_type": segment_type, "segment_seconds": 1, "iframes": False,
              "video": [{"height": 100, "speed": "ultrafast"}]}  # fmt: skip
    job, upload = run(server, grey, ladder)
    server.curl("-X", "DELETE", f"/v1/uploads/{upload}")
    assert fetch(server, job, tmp_path / "t.jpg") == "200 image/jpeg"
    assert picture(tmp_path / "t.jpg").mean() == pytest.approx(121, abs=5)


@pytest.mark.slow
def test_sound_has_its_cover_and_else_nothing(server: LiveServer, tmp_path: Path) -> None:
    covered = make_audio(tmp_path / "a.mp3", seconds=1, cover=True)
    job, _ = run(server, covered, {"type": "audio", "format": "mp3", "audio": {"codec": "mp3"}})
    assert fetch(server, job, tmp_path / "t.jpg") == "200 image/jpeg"
    assert picture(tmp_path / "t.jpg").shape == (64, 64, 3)
    bare = make_audio(tmp_path / "b.mp3", seconds=1)
    job, _ = run(server, bare, {"type": "audio", "format": "mp3", "audio": {"codec": "mp3"}})
    for _ in range(2):
        answer = httpx2.get(f"{server.address}/v1/jobs/{job}/thumbnail.jpg")
        assert (answer.status_code, answer.json()["code"]) == (404, "thumbnail_not_found")


@pytest.mark.slow
async def test_job_that_has_not_completed_has_none(api: Api) -> None:
    api.executor.gate.clear()
    job = await api.submit()
    await api.executor.running.wait()
    problem(await api.http.get(f"/v1/jobs/{job['id']}/thumbnail.jpg"), 404, "thumbnail_not_found")
    problem(await api.http.get("/v1/jobs/none/thumbnail.jpg"), 404, "job_not_found")
    api.executor.gate.set()
    await api.ended(job["id"])
