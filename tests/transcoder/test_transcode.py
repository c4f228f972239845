"""One request: a file in, the result out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pipelines.errors import Truncated
from tests.transcoder.fixtures_api import BODY, Api, problem, serving_api
from tests.transcoder.fixtures_auth import keyed_api, make_key, store_of
from transcoder.auth.scopes import Scope

PATH = "/v1/transcode/holiday.mov?preset=h264-480p"


async def only_job(api: Api) -> dict[str, object]:
    (job,) = (await api.http.get("/v1/jobs")).json()["items"]
    return dict(job)


async def test_file_comes_out_under_the_name_that_went_in(api: Api) -> None:
    response = await api.http.put(PATH, content=b"media")
    assert (response.status_code, response.content) == (200, BODY)
    assert response.headers["content-type"] == "video/mp4"
    assert 'filename="holiday.mp4"' in response.headers["content-disposition"]
    job = (await api.http.get(response.headers["location"])).json()
    assert (job["status"], job["preset"], job["metadata"]) == ("completed", "h264-480p", {"file": "holiday.mov"})
    assert response.headers["etag"] == f'"{job["outputs"][0]["files"][0]["sha256"]}"'


@pytest.mark.slow
async def test_input_is_not_kept_once_the_result_is_there(api: Api) -> None:
    await api.http.put(PATH, content=b"media")
    assert api.stored() == []


@pytest.mark.slow
async def test_failure_is_the_jobs_own(api: Api) -> None:
    api.executor.error = Truncated("half of it is missing")
    response = await api.http.put(PATH, content=b"media")
    body = problem(response, 422, "truncated")
    assert body["facts"]["job"] == (await only_job(api))["id"]
    # it may be retried, so its input stays
    assert len(api.stored()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("prefer", ["respond-async", "wait=0, respond-async", "respond-async;foo, wait=1"])
async def test_client_that_does_not_wait_is_sent_to_the_job(api: Api, prefer: str) -> None:
    api.executor.gate.clear()
    response = await api.http.put(PATH, content=b"media", headers={"Prefer": prefer})
    assert response.status_code == 303
    assert response.headers["preference-applied"] == "respond-async"
    job = await only_job(api)
    assert response.headers["location"] == f"/v1/jobs/{job['id']}"
    api.executor.gate.set()
    assert (await api.ended(str(job["id"])))["status"] == "completed"


@pytest.mark.slow
async def test_result_that_comes_in_time_is_sent_also_to_the_impatient(api: Api) -> None:
    response = await api.http.put(PATH, content=b"media", headers={"Prefer": "respond-async, wait=60"})
    assert (response.status_code, response.content) == (200, BODY)


@pytest.mark.slow
async def test_client_that_leaves_takes_its_job_along(api: Api) -> None:
    api.executor.gate.clear()
    _, writer = await api.connect()
    writer.write(f"PUT {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nmedia".encode())
    await api.executor.running.wait()
    job_id = str((await only_job(api))["id"])
    writer.close()
    assert (await api.ended(job_id))["status"] == "cancelled"
    async with asyncio.timeout(10):
        while api.stored():
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_client_that_leaves_half_way_leaves_nothing(api: Api) -> None:
    _, writer = await api.connect()
    writer.write(f"PUT {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nme".encode())
    await writer.drain()
    writer.close()
    async with asyncio.timeout(10):
        while api.stored():
            await asyncio.sleep(0.02)
    assert (await api.http.get("/v1/jobs")).json()["items"] == []


@pytest.mark.slow
@pytest.mark.parametrize(("query", "code"), [
    ("", "invalid_request"), ("?preset=none", "unknown_preset"), ("?preset=web-mp4&queue=Ü", "invalid_request"),
    ("?preset=web-mp4&queue=nowhere", "unknown_queue"),
])  # fmt: skip
async def test_what_is_refused_keeps_no_input(api: Api, query: str, code: str) -> None:
    response = await api.http.put(f"/v1/transcode/a.mov{query}", content=b"media")
    assert response.status_code == 422
    assert response.json()["code"] in (code, "queue_not_found")
    assert api.stored() == []


async def test_several_files_are_left_with_the_job(tmp_path: Path) -> None:
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "two.toml").write_text('[[outputs]]\nname = "a"\ntype = "mp4"\n[[outputs]]\nname = "b"\ntype = "mp4"\n')
    async with serving_api(tmp_path / "data", presets_dir=folder) as api:
        response = await api.http.put("/v1/transcode/a.mov?preset=two", content=b"media")
        assert (response.status_code, response.headers["location"]) == (303, f"/v1/jobs/{(await only_job(api))['id']}")


@pytest.mark.slow
async def test_key_that_may_not_read_gets_no_result(tmp_path: Path) -> None:
    async with keyed_api(tmp_path / "data") as (api, _):
        token = await make_key(store_of(api), "default", Scope.SUBMIT)
        response = await api.http.put(PATH, content=b"media", headers={"X-Api-Key": token})
        problem(response, 403, "forbidden")
