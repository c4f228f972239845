"""Jobs that join several inputs, through the service: in its sandbox, with its uploads and its errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.live import LiveServer, live_server
from tests.measure import decode_video
from tests.media import make_video
from tests.transcoder.fixtures_api import SPEC, Api, problem

OUTPUT = {"type": "mp4", "video": {"height": 48, "speed": "ultrafast"}}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with live_server(TRANSCODER_SOFTWARE_SLOTS="1") as running:
        yield running


def uploaded(server: LiveServer, folder: Path, name: str, **about: Any) -> str:
    clip = make_video(folder / name, seconds=1, **about)
    found: str = json.loads(server.curl("-T", clip, "/v1/uploads/").out)["id"]
    return found


@pytest.mark.slow
def test_uploads_become_one_file(server: LiveServer, tmp_path: Path) -> None:
    uploads = [
        uploaded(server, tmp_path, "a.mp4", size=(96, 64)),
        uploaded(server, tmp_path, "b.mkv", size=(64, 96), rate=50, audio=()),
    ]
    inputs = [{"upload": uploads[0]}, {"upload": uploads[1], "clip": {"end": 0.5}}, {"upload": uploads[0]}]
    spec = {"inputs": inputs, "outputs": [OUTPUT], "input_chapters": True}
    planned = json.loads(server.curl("--json", json.dumps(spec), "/v1/plan").out)
    assert [round(part["duration_seconds"], 1) for part in planned["parts"]] == [1.0, 0.5, 1.0]
    job = server.ended(spec)
    assert job["status"] == "completed", job["error"]
    target = tmp_path / "joined.mp4"
    server.curl("-o", target, f"/v1/jobs/{job['id']}/outputs/output.mp4")
    assert len(decode_video(target).frames) == pytest.approx(62, abs=2)


def test_a_bad_input_is_named(server: LiveServer, tmp_path: Path) -> None:
    good = uploaded(server, tmp_path, "a.mp4", size=(96, 64))
    (tmp_path / "b.txt").write_text("no media " * 100)
    bad = json.loads(server.curl("-T", tmp_path / "b.txt", "/v1/uploads/").out)["id"]
    job = server.ended({"inputs": [{"upload": good}, {"upload": bad}], "outputs": [OUTPUT]})
    assert job["status"] == "failed"
    assert (job["error"]["code"], job["error"]["message"][:8]) == ("bad_input", "input 2:")


@pytest.mark.slow
async def test_every_upload_of_a_waiting_job_is_kept(api: Api) -> None:
    api.executor.gate.clear()
    first, second = [await api.upload(name=name) for name in ("a.mov", "b.mov")]
    inputs = [{"upload": first["id"]}, {"upload": second["id"]}]
    job = await api.http.post("/v1/jobs", json={"inputs": inputs, **SPEC})
    assert job.status_code == 201
    for upload in (first, second):
        problem(await api.http.delete(f"/v1/uploads/{upload['id']}"), 409, "conflict")
    api.executor.gate.set()
    await api.ended(job.json()["id"])
    assert (await api.http.delete(f"/v1/uploads/{second['id']}")).status_code == 204


@pytest.mark.slow
async def test_an_upload_that_is_not_there_is_refused_wherever_it_stands(api: Api) -> None:
    there = (await api.upload())["id"]
    inputs = [{"upload": there}, {"upload": "01" * 13}]
    problem(await api.http.post("/v1/jobs", json={"inputs": inputs, **SPEC}), 422, "upload_not_found")


@pytest.mark.slow
async def test_input_and_inputs_do_not_go_together(api: Api) -> None:
    there = {"upload": (await api.upload())["id"]}
    body = {"input": {"path": "other"}, "inputs": [there, there], **SPEC}
    problem(await api.http.post("/v1/jobs", json=body), 422, "invalid_request")
