"""Queues over HTTP."""

from __future__ import annotations

import pytest

from tests.transcoder.fixtures_api import Api, problem


@pytest.mark.slow
async def test_a_queue_is_made_read_changed_and_deleted(api: Api) -> None:
    made = await api.http.put("/v1/queues/night", json={"weight": 2, "max_running": 1})
    assert made.status_code == 201
    queue = made.json()
    assert (queue["name"], queue["weight"], queue["max_running"], queue["paused"]) == ("night", 2.0, 1, False)
    changed = await api.http.put("/v1/queues/night", json={"paused": True})
    assert (changed.status_code, changed.json()["weight"], changed.json()["paused"]) == (200, 1.0, True)
    assert (await api.http.get("/v1/queues/night")).json() == changed.json()
    await api.submit(queue="night")
    listed = (await api.http.get("/v1/queues")).json()["items"]
    assert [(queue["name"], queue["queued"], queue["running"]) for queue in listed] == [
        ("default", 0, 0),
        ("night", 1, 0),
    ]
    problem(await api.http.delete("/v1/queues/night"), 409, "conflict")
    await api.http.put("/v1/queues/day", json={})
    assert (await api.http.delete("/v1/queues/day")).status_code == 204
    problem(await api.http.get("/v1/queues/day"), 404, "queue_not_found")
    problem(await api.http.delete("/v1/queues/default"), 409, "conflict")


@pytest.mark.slow
async def test_what_is_no_queue_is_refused(api: Api) -> None:
    problem(await api.http.put("/v1/queues/Night", json={}), 422, "invalid_request")
    problem(await api.http.put("/v1/queues/night", json={"weight": 0}), 422, "invalid_request")
    problem(await api.http.put("/v1/queues/night", json={"speed": 1}), 422, "invalid_request")
    upload = (await api.upload())["id"]
    body = {"input": {"upload": upload}, "preset": "web-mp4", "queue": "nowhere"}
    problem(await api.http.post("/v1/jobs", json=body), 422, "queue_not_found")


@pytest.mark.slow
async def test_a_pause_ends_and_what_waited_runs(api: Api) -> None:
    await api.make_queue("night", paused=True)
    job = await api.submit(queue="night")
    assert (await api.http.get(f"/v1/jobs/{job['id']}")).json()["status"] == "queued"
    await api.http.put("/v1/queues/night", json={})
    assert (await api.ended(job["id"]))["status"] == "completed"
