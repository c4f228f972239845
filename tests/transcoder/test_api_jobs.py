"""Jobs over HTTP: submitting as JSON and as a form, listing, changing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.transcoder.fixtures_api import SPEC, Api, problem


@pytest.mark.slow
async def test_job_runs_and_tells_where_its_files_are(api: Api) -> None:
    upload = await api.upload()
    response = await api.http.post("/v1/jobs", json={"input": {"upload": upload["id"]}, **SPEC})
    assert response.status_code == 201
    job = response.json()
    assert response.headers["location"] == f"/v1/jobs/{job['id']}"
    assert (job["status"], job["queue"], job["metadata"]) == ("queued", "default", {"title": "ü"})
    done = await api.ended(job["id"])
    assert done["status"] == "completed"
    assert done["outputs"][0]["files"][0]["path"] == "output.mp4"
    assert done["outputs"][0]["files"][0]["content_type"] == "video/mp4"


async def test_curl_without_a_json_content_type_is_understood(api: Api) -> None:
    body = json.dumps({"input": {"upload": (await api.upload())["id"]}, **SPEC})
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert (await api.http.post("/v1/jobs", content=body, headers=headers)).status_code == 201


@pytest.mark.slow
async def test_idempotency_key_gives_the_same_job_and_refuses_another_body(api: Api) -> None:
    spec = {"input": {"upload": (await api.upload())["id"]}, **SPEC}
    key = {"Idempotency-Key": "order-1"}
    first = await api.http.post("/v1/jobs", json=spec, headers=key)
    reordered = json.dumps(dict(reversed(spec.items())), indent=2)
    again = await api.http.post("/v1/jobs", content=reordered, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert again.headers["location"] == first.headers["location"]
    other = await api.http.post("/v1/jobs", json={**spec, "priority": 1}, headers=key)
    problem(other, 422, "idempotency_conflict")
    assert len((await api.http.get("/v1/jobs")).json()["items"]) == 1


@pytest.mark.slow
async def test_many_requests_with_one_key_make_one_job(api: Api) -> None:
    spec = {"input": {"upload": (await api.upload())["id"]}, **SPEC}
    calls = [api.http.post("/v1/jobs", json=spec, headers={"Idempotency-Key": "k"}) for _ in range(10)]
    answers = await asyncio.gather(*calls)
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]


@pytest.mark.slow
async def test_list_is_paged_newest_first_and_filtered(api: Api) -> None:
    api.executor.gate.clear()
    for queue in ("a", "b"):
        await api.make_queue(queue)
    made = [(await api.submit(queue=queue))["id"] for queue in ("a", "b", "a", "a")]
    first = (await api.http.get("/v1/jobs", params={"limit": 3})).json()
    rest = (await api.http.get("/v1/jobs", params={"limit": 3, "cursor": first["next"]})).json()
    assert [job["id"] for job in first["items"] + rest["items"]] == made[::-1]
    assert rest["next"] is None
    of_a = (await api.http.get("/v1/jobs", params={"queue": "a"})).json()["items"]
    assert [job["id"] for job in of_a] == [made[3], made[2], made[0]]
    assert (await api.http.get("/v1/jobs", params={"status": "failed"})).json() == {"items": [], "next": None}


@pytest.mark.slow
async def test_priority_changes_only_while_queued(api: Api) -> None:
    api.executor.gate.clear()
    running, waiting = await api.submit(), await api.submit()
    await api.executor.running.wait()
    changed = await api.http.patch(f"/v1/jobs/{waiting['id']}", json={"priority": 7})
    assert changed.json()["priority"] == 7
    problem(await api.http.patch(f"/v1/jobs/{running['id']}", json={"priority": 7}), 409, "conflict")
    body = problem(await api.http.patch(f"/v1/jobs/{waiting['id']}", json={"prio": 7}), 422, "invalid_request")
    assert {fault["pointer"] for fault in body["errors"]} == {"/prio", "/priority"}


@pytest.mark.slow
async def test_running_job_can_be_cancelled_then_retried_then_deleted(api: Api) -> None:
    api.executor.gate.clear()
    job = await api.submit()
    await api.executor.running.wait()
    path = f"/v1/jobs/{job['id']}"
    problem(await api.http.delete(path), 409, "conflict")
    problem(await api.http.post(f"{path}/stop"), 409, "conflict")
    problem(await api.http.post(f"{path}/retry"), 409, "conflict")
    assert (await api.http.post(f"{path}/cancel")).json()["status"] == "cancelled"
    api.executor.gate.set()
    assert (await api.http.post(f"{path}/retry")).json()["status"] in ("queued", "running")
    assert (await api.ended(job["id"]))["status"] == "completed"
    problem(await api.http.post(f"{path}/cancel"), 409, "conflict")
    assert (await api.http.delete(path)).status_code == 204
    problem(await api.http.get(path), 404, "job_not_found")


@pytest.mark.slow
async def test_form_makes_an_upload_and_a_job_in_one_call(api: Api) -> None:
    await api.make_queue("q")
    response = await api.http.post(
        "/v1/jobs",
        files={"file": ("../ü\r\n.mov", b"media")},
        data={"preset": "web-mp4", "priority": "3", "queue": "q"},
    )
    assert response.status_code == 201, response.text
    job = response.json()
    assert (job["priority"], job["queue"], job["preset"]) == (3, "q", "web-mp4")
    upload = (await api.http.get(f"/v1/uploads/{job['spec']['input']['upload']}")).json()
    assert (upload["size"], upload["name"][:4]) == (5, "../ü")
    assert "\r" not in upload["name"]


@pytest.mark.slow
async def test_form_takes_a_spec_whose_input_is_only_a_clip(api: Api) -> None:
    spec = {**SPEC, "input": {"clip": {"start": 1, "end": 2}}}
    response = await api.http.post("/v1/jobs", files={"file": ("a.mov", b"media")}, data={"spec": json.dumps(spec)})
    assert response.json()["spec"]["input"]["clip"] == {"start": 1.0, "end": 2.0}


@pytest.mark.slow
async def test_form_without_a_file_names_its_input_in_the_spec(api: Api) -> None:
    spec = {**SPEC, "input": {"upload": (await api.upload())["id"]}}
    response = await api.http.post("/v1/jobs", files={"spec": (None, json.dumps(spec))})
    assert response.status_code == 201


@pytest.mark.slow
async def test_idempotent_form_is_the_same_when_its_file_and_fields_are(api: Api) -> None:
    async def send(content: bytes) -> Any:
        return await api.http.post(
            "/v1/jobs",
            files={"file": ("a.mov", content)},
            data={"preset": "web-mp4"},
            headers={"Idempotency-Key": "form-1"},
        )

    first, again, other = await send(b"media"), await send(b"media"), await send(b"other")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    problem(other, 422, "idempotency_conflict")
    assert api.stored() == [first.json()["spec"]["input"]["upload"]]
