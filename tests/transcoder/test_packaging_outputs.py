"""A ladder through the service: all its files are published, listed with their types, and served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from tests.acceptance.live import LiveServer, live_server
from tests.hls_rules import check_multivariant
from tests.media import Subtitles, make_video

TYPES = {
    ".m3u8": "application/vnd.apple.mpegurl",
    ".mpd": "application/dash+xml",
    ".m4s": "video/iso.segment",
    ".mp4": "video/mp4",
    ".vtt": "text/vtt; charset=utf-8",
}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with live_server(TRANSCODER_SOFTWARE_SLOTS="1") as running:
        yield running


@pytest.fixture(scope="module")
def job(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("media")
    clip = make_video(folder / "in.mkv", size=(128, 72), seconds=3, subtitles=(Subtitles(),))
    upload = json.loads(server.curl("-T", clip, "/v1/uploads/").out)["id"]
    ladder = {"type": "cmaf", "name": "show", "segment_seconds": 1, "video": [{"height": 72, "speed": "ultrafast"}]}
    file = {"type": "mp4", "name": "file", "video": {"speed": "ultrafast"}}
    found = server.ended({"input": {"upload": upload}, "outputs": [ladder, file]})
    assert found["status"] == "completed", found["error"]
    return found


@pytest.mark.slow
def test_each_output_lists_its_own_files_and_the_ladder_what_players_open_first(job: dict[str, Any]) -> None:
    ladder, file = job["outputs"]
    assert (ladder["name"], ladder["type"], ladder["files"][0]["path"]) == ("show", "cmaf", "show/index.m3u8")
    assert [each["path"] for each in file["files"]] == ["file.mp4"]
    paths = {each["path"] for each in ladder["files"]}
    assert {"show/manifest.mpd", "show/72p/init.mp4", "show/72p/00003.m4s", "show/subs/subtitles.vtt"} <= paths


def test_every_file_is_served_whole_with_its_type(server: LiveServer, job: dict[str, Any], tmp_path: Path) -> None:
    for listed in job["outputs"][0]["files"]:
        target = tmp_path / listed["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        done = server.curl("-o", target, "-w", "%{content_type}", f"/v1/jobs/{job['id']}/outputs/{listed['path']}")
        assert done.out == TYPES[target.suffix] == listed["content_type"]
        assert target.stat().st_size == listed["size"]
    check_multivariant(tmp_path / "show" / "index.m3u8")


def test_a_range_of_a_segment_is_served(server: LiveServer, job: dict[str, Any], tmp_path: Path) -> None:
    path = urljoin(f"/v1/jobs/{job['id']}/outputs/show/72p/index.m3u8", "00001.m4s")
    done = server.curl("-r", "4-7", "-o", tmp_path / "part", "-w", "%{http_code}", path)
    assert (done.out, (tmp_path / "part").read_bytes()) == ("206", b"moof")


@pytest.mark.slow
def test_download_keeps_the_folders(server: LiveServer, job: dict[str, Any], tmp_path: Path) -> None:
    server.jobs("download", job["id"], tmp_path).succeeded()
    check_multivariant(tmp_path / "show" / "index.m3u8")
