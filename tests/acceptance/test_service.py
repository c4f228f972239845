"""The service as its users meet it: a real process, real curl, the real command line."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.live import LiveServer, finish, live_server, transcoder
from tests.measure import decode_video

FAST = {"type": "mp4", "video": {"height": 180, "speed": "ultrafast"}}
SLOW = {"type": "mp4", "video": {"codec": "hevc", "speed": "veryslow"}}


def spec(upload: str, output: dict[str, object]) -> str:
    return json.dumps({"input": {"upload": upload}, "outputs": [output]})


def upload(server: LiveServer, file: Path) -> str:
    return str(server.curl("-T", file, f"/v1/uploads/{file.name}").json()["id"])


@pytest.mark.slow
def test_upload_job_events_download(server: LiveServer, clip: Path, tmp_path: Path) -> None:
    stored = server.curl("-T", clip, "/v1/uploads/").json()
    assert stored["size"] == clip.stat().st_size
    job = server.curl("--json", spec(stored["id"], FAST), "/v1/jobs").json()
    events = server.curl("-N", f"/v1/jobs/{job['id']}/events").out
    assert re.search(r"^event: status\r?$", events, re.MULTILINE)
    done = server.curl(f"/v1/jobs/{job['id']}").json()
    assert done["status"] == "completed"
    (file,) = done["outputs"][0]["files"]
    target = tmp_path / "out.mp4"
    server.curl("-o", target, f"/v1/jobs/{job['id']}/outputs/{file['path']}")
    assert target.stat().st_size == file["size"]
    frames = decode_video(target).frames
    assert len(frames) == 50
    assert (frames[0].width, frames[0].height) == (320, 180)


@pytest.mark.slow
def test_a_service_that_can_not_start_says_why_in_a_line(server: LiveServer) -> None:
    second = transcoder("serve", "--port", "0", env={"TRANSCODER_DATA_DIR": str(server.data)})
    assert second.code == 1
    assert second.err == f"error [already_running]: another service runs on the data folder {server.data}\n"


def test_form_is_one_request(server: LiveServer, clip: Path, tmp_path: Path) -> None:
    job = server.curl("-F", "preset=audio-opus", "-F", f"file=@{clip}", "/v1/jobs").json()
    server.curl("-N", f"/v1/jobs/{job['id']}/events")
    server.jobs("download", job["id"], tmp_path).succeeded()
    (file,) = tmp_path.iterdir()
    assert file.suffix == ".opus"


@pytest.mark.slow
def test_job_is_submitted_watched_and_fetched_by_command(server: LiveServer, clip: Path, tmp_path: Path) -> None:
    done = server.jobs("submit", clip, "--preset", "h264-480p", "--download", tmp_path / "out", "--json").succeeded()
    job = done.json()
    assert job["status"] == "completed"
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["output.mp4"]
    assert job["id"] in server.jobs("list").succeeded().out
    assert "output.mp4" in server.jobs("show", job["id"]).succeeded().out
    assert server.jobs("log", job["id"]).code == 0


def test_preset_of_ones_own_is_sent_along(server: LiveServer, clip: Path, tmp_path: Path) -> None:
    preset = tmp_path / "mine.toml"
    preset.write_text('[[outputs]]\ntype = "mkv"\nname = "mine"\n[outputs.video]\nheight = 90\nspeed = "ultrafast"\n')
    server.jobs("submit", clip, "--preset", preset, "--download", tmp_path / "out").succeeded()
    assert decode_video(tmp_path / "out" / "mine.mkv").frames[0].height == 90


@pytest.mark.slow
def test_job_file_is_sent_as_it_stands(server: LiveServer, clip: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"input": {"path": "/x"}, "outputs": [FAST | {"audio": None}], "metadata": {"mine": 1}}))
    done = server.jobs("submit", clip, "--spec", job, "--wait", "--json").succeeded().json()
    assert done["metadata"] == {"mine": 1}
    assert done["spec"]["outputs"][0]["audio"] is None
    assert done["spec"]["outputs"][0]["video"]["height"] == 180


@pytest.mark.slow
def test_broken_input_fails_with_its_code(server: LiveServer, tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"<html>not a video</html>" * 100)
    done = server.jobs("submit", broken, "--preset", "web-mp4", "--wait")
    assert done.code == 3
    assert "error [bad_input]:" in done.err


@pytest.mark.slow
def test_unknown_preset_is_refused_at_once(server: LiveServer, clip: Path) -> None:
    done = server.jobs("submit", clip, "--preset", "web-mp5")
    assert done.code == 2
    assert "error [unknown_preset]:" in done.err
    assert "web-mp4" in done.err


@pytest.mark.slow
def test_unknown_job_is_not_found(server: LiveServer) -> None:
    done = server.jobs("show", "nothing")
    assert done.code == 4
    assert "error [job_not_found]:" in done.err


@pytest.mark.slow
def test_running_job_is_cancelled(server: LiveServer, long_clip: Path) -> None:
    job = server.curl("--json", spec(upload(server, long_clip), SLOW), "/v1/jobs").json()["id"]
    wait_for(server, job, '"running"')
    server.jobs("cancel", job).succeeded()
    server.curl("-N", f"/v1/jobs/{job}/events")
    assert server.curl(f"/v1/jobs/{job}").json()["status"] == "cancelled"
    assert server.jobs("delete", job).code == 0
    assert server.jobs("show", job).code == 4


def test_bad_request_names_the_field(server: LiveServer) -> None:
    done = finish(
        [
            "curl",
            "-s",
            "--json",
            '{"input": {"upload": "x"}, "preset": "web-mp4", "nope": 1}',
            f"{server.address}/v1/jobs",
        ]
    )
    problem = done.json()
    assert problem["status"] == 422
    assert "nope" in json.dumps(problem)


@pytest.mark.slow
def test_no_server_is_said_plainly() -> None:
    done = transcoder("jobs", "list", "--server", "http://127.0.0.1:9")
    assert done.code == 4
    assert "error [server_unreachable]:" in done.err
    assert "transcoder serve" in done.err


def wait_for(server: LiveServer, job: str, text: str) -> None:
    """Reads the job's events until one holds `text`."""
    with subprocess.Popen(
        ["curl", "-sN", "--max-time", "60", f"{server.address}/v1/jobs/{job}/events"],
        stdout=subprocess.PIPE,
        text=True,
    ) as curl:
        assert curl.stdout is not None
        try:
            assert any(text in line for line in curl.stdout), f"no event with {text}"
        finally:
            curl.kill()


@pytest.mark.slow
def test_killed_service_runs_its_job_again(long_clip: Path, tmp_path: Path) -> None:
    medium = {"type": "mp4", "video": {"height": 360, "speed": "medium"}}
    with live_server(TRANSCODER_SOFTWARE_SLOTS="1") as server:
        job = server.curl("--json", spec(upload(server, long_clip), medium), "/v1/jobs").json()["id"]
        wait_for(server, job, '"running"')
        server.kill()
        server.start()
        server.curl("-N", f"/v1/jobs/{job}/events")
        done = server.curl(f"/v1/jobs/{job}").json()
        assert done["status"] == "completed"
        assert [attempt["status"] for attempt in done["attempts"]] == ["lost", "completed"]
        server.jobs("download", job, tmp_path).succeeded()
        assert len(decode_video(tmp_path / "output.mp4").frames) == 600
        assert server.stop() == 0


@pytest.mark.slow
def test_stop_is_graceful_and_the_job_goes_on_after_it(long_clip: Path) -> None:
    with live_server(TRANSCODER_SOFTWARE_SLOTS="1", TRANSCODER_SHUTDOWN_SECONDS="0") as server:
        job = server.curl("--json", spec(upload(server, long_clip), SLOW), "/v1/jobs").json()["id"]
        wait_for(server, job, '"running"')
        assert server.stop() == 0
        server.start()
        wait_for(server, job, '"running"')
        server.jobs("cancel", job).succeeded()
        assert server.stop() == 0
