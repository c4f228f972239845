"""The service as the terminal shows it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.acceptance.live import LiveServer, command, finish, transcoder


@pytest.mark.slow
def test_one_look_has_devices_queues_and_jobs(server: LiveServer, clip: Path) -> None:
    server.jobs("submit", clip, "--preset", "remux-mp4", "--wait").succeeded()
    looked = transcoder("top", "--json", env={"TRANSCODER_SERVER": server.address}).succeeded().json()
    assert [device["id"] for device in looked["devices"]] == ["software"]
    assert looked["queues"][0]["name"] == "default"
    assert (looked["running"], looked["waiting"]) == ([], [])
    text = transcoder("top", "--once", env={"TRANSCODER_SERVER": server.address}).succeeded().out
    assert "0/1" in text
    assert "□" in text
    assert "default" in text


@pytest.mark.slow
def test_running_job_is_watched_to_its_end(server: LiveServer, clip: Path) -> None:
    job_id = server.jobs("submit", clip, "--preset", "h264-480p").succeeded().out.strip()
    watched = server.jobs("watch", job_id, "--json").succeeded()
    assert watched.json()["status"] == "completed"
    assert watched.json()["metadata"] == {"file": clip.name}
    assert clip.name in server.jobs("list").succeeded().out


@pytest.mark.slow
def test_watched_job_that_is_cancelled_is_not_a_success(server: LiveServer, long_clip: Path) -> None:
    job_id = server.jobs("submit", long_clip, "--preset", "mkv-archive-hevc").succeeded().out.strip()
    assert server.jobs("cancel", job_id, "--json").succeeded().json()["id"] == job_id
    assert server.jobs("watch", job_id).code != 0


@pytest.mark.slow
def test_shell_completes_presets() -> None:
    env = {
        "_TRANSCODER_COMPLETE": "complete_bash",
        "COMP_WORDS": "transcoder run a b --preset h264-",
        "COMP_CWORD": "5",
    }
    done = finish(command(), env=os.environ | env)
    assert {"h264-480p", "h264-720p", "h264-1080p"} <= set(done.out.split())
