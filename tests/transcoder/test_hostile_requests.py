"""What a request may not ask for: refused before anything runs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.transcoder.fixtures_api import Api, problem, serving_api

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quiet_api(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Api, None]:
    async with serving_api(tmp_path_factory.mktemp("api") / "data") as running:
        yield running


def video(**fields: Any) -> list[dict[str, Any]]:
    return [{"type": "mp4", "video": {"codec": "h264", **fields}}]


FORMATS = ("lavfi", "tty", "concat", "image2", "sdp", "hls", "data", "dshow", "x11grab")
REQUESTS: dict[str, dict[str, Any]] = {
    **{f"format {name}": {"input": {"path": "a", "format": name}} for name in FORMATS},
    "protocols": {"input": {"path": "a", "protocol_whitelist": "file"}},
    "input options": {"input": {"path": "a", "options": {"safe": "0"}}},
    "x264 file": {"outputs": video(options={"x264-params": "stats=/tmp/x"})},
    "x264 parameters": {"outputs": video(x264_params="dump-yuv=/tmp/x")},
    "x265 file": {"outputs": video(codec="hevc", **{"x265-params": "csv=/tmp/x"})},
    "speed as options": {"outputs": video(speed="fast:stats=/tmp/x")},
    "codec by encoder": {"outputs": video(codec="libx264")},
    "filter": {"outputs": video(filter="movie=/etc/passwd")},
    "filters": {"outputs": video(filters=["lut3d=/etc/passwd"])},
    "sendcmd": {"outputs": video(vf="sendcmd=f=/etc/passwd")},
    "metadata file": {"outputs": video(vf="metadata=print:file=/tmp/x")},
    "height as a filter": {"outputs": video(height="240,movie=/etc/passwd")},
    "size without end": {"outputs": video(height=10**9)},
    "name upwards": {"outputs": [{"type": "mp4", "name": "../x"}]},
    "name absolute": {"outputs": [{"type": "mp4", "name": "/tmp/x"}]},
    "name with a protocol": {"outputs": [{"type": "mp4", "name": "tee:a|b"}]},
    "name with a pattern": {"outputs": [{"type": "mp4", "name": "a%03d"}]},
    "name with NUL": {"outputs": [{"type": "mp4", "name": "a\0b"}]},
    "name of an option": {"outputs": [{"type": "mp4", "name": "-y"}]},
    "name without end": {"outputs": [{"type": "mp4", "name": "a" * 300}]},
    "type tee": {"outputs": [{"type": "tee"}]},
    "muxer": {"outputs": [{"type": "mp4", "muxer": "tee"}]},
    "movflags": {"outputs": [{"type": "mp4", "movflags": "use_metadata_tags"}]},
    "preset as a path": {"preset": "../../etc/passwd", "outputs": None},
    "no outputs": {"outputs": []},
    "outputs of one name": {"outputs": [{"type": "mp4", "name": "a"}, {"type": "mp4", "name": "a"}]},
    "half a character in metadata": {"metadata": {"a": "\ud800"}},
    "half a character as a name in metadata": {"metadata": {"\ud800": "a"}},
    "infinite clip": {"input": {"path": "a", "clip": {"start": 1e308, "end": 1e309}}},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REQUESTS)
async def test_request_is_refused_and_nothing_runs(quiet_api: Api, name: str) -> None:
    upload = (await quiet_api.upload())["id"]
    asked: dict[str, Any] = {"input": {"upload": upload}, "outputs": [{"type": "mp4"}], **REQUESTS[name]}
    asked = {field: value for field, value in asked.items() if value is not None}
    response = await quiet_api.http.post("/v1/jobs", content=_json(asked), headers={"content-type": "application/json"})

    assert response.status_code in (400, 422), response.text
    assert response.headers["content-type"] == "application/problem+json"
    # the service may measure itself meanwhile
    assert [task.op for task in quiet_api.executor.tasks if task.op != "check"] == []
    assert (await quiet_api.http.get("/healthz")).status_code == 200


def _json(value: Any) -> str:
    """1e309 as Python writes it is no JSON."""
    return json.dumps(value).replace("Infinity", "1e309")


async def test_job_that_follows_the_refusals_is_done(quiet_api: Api) -> None:
    problem(
        await quiet_api.http.post("/v1/jobs", json={"input": {"path": "a", "format": "tty"}}), 422, "invalid_request"
    )
    job = await quiet_api.ended((await quiet_api.submit())["id"])

    assert job["status"] == "completed"
    assert [Path(file["path"]).name for output in job["outputs"] for file in output["files"]] == ["output.mp4"]
    quiet_api.executor.tasks.clear()
