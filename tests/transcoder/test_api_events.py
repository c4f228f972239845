"""Server-sent events: what is told, in which order, and that nothing stays when the reader goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from pipelines.errors import BadInput
from tests.transcoder.fixtures_api import Api

Told = tuple[str, Any]


async def told(response: httpx2.Response) -> AsyncIterator[Told]:
    async for event in httpx2.EventSource(response):
        yield event.event, json.loads(event.data)


async def follow(api: Api, job_id: str, **headers: str) -> list[Told]:
    async with api.http.stream("GET", f"/v1/jobs/{job_id}/events", headers=headers) as response:
        return [event async for event in told(response)]


@pytest.mark.slow
async def test_events_start_with_the_job_and_end_with_its_end(api: Api) -> None:
    api.executor.gate.clear()
    job = await api.submit()
    await api.executor.running.wait()
    async with api.http.stream("GET", f"/v1/jobs/{job['id']}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        events = told(response)
        first, second = await anext(events), await anext(events)
        assert (first[0], first[1]["id"], first[1]["status"]) == ("status", job["id"], "running")
        assert second[0] == "progress"
        api.executor.gate.set()
        rest = [event async for event in events]
    kinds = [kind for kind, _ in rest]
    assert {"progress", "log"} <= set(kinds)
    assert next(data for kind, data in rest if kind == "progress")["fraction"] == 0.5
    assert rest[-1][0] == "status"
    assert rest[-1][1]["status"] == "completed"
    assert rest[-1][1]["outputs"][0]["files"][0]["path"] == "output.mp4"


@pytest.mark.slow
async def test_events_have_ids_and_one_line_of_json_each(api: Api) -> None:
    job = await api.submit()
    await api.ended(job["id"])
    text = (await api.http.get(f"/v1/jobs/{job['id']}/events")).text
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    for block in blocks:
        assert [line.partition(": ")[0] for line in block] == ["id", "event", "data"]


@pytest.mark.slow
async def test_job_that_ended_is_told_at_once_and_whole(api: Api) -> None:
    api.executor.error = BadInput("not media")
    job = await api.submit()
    await api.ended(job["id"])
    events = await follow(api, job["id"])
    assert [kind for kind, _ in events] == ["status", "progress"]
    assert events[0][1]["error"]["code"] == "bad_input"


@pytest.mark.slow
@pytest.mark.parametrize("last", ["0", "99999999999", "nonsense"])
async def test_reader_that_reconnects_starts_with_the_job_as_it_is(api: Api, last: str) -> None:
    job = await api.submit()
    await api.ended(job["id"])
    events = await follow(api, job["id"], **{"Last-Event-ID": last})
    assert events[0][1]["status"] == "completed"


@pytest.mark.slow
async def test_cancelled_job_ends_its_streams(api: Api) -> None:
    api.executor.gate.clear()
    job = await api.submit()
    await api.executor.running.wait()
    following = [asyncio.create_task(follow(api, job["id"])) for _ in range(5)]
    await _readers(api, job["id"], 5)
    await api.http.post(f"/v1/jobs/{job['id']}/cancel")
    for events in await asyncio.wait_for(asyncio.gather(*following), 10):
        assert events[-1][1]["status"] == "cancelled"


@pytest.mark.slow
async def test_reader_that_goes_away_is_forgotten(api: Api) -> None:
    api.executor.gate.clear()
    job = await api.submit()
    for _ in range(3):
        async with api.http.stream("GET", f"/v1/jobs/{job['id']}/events") as response:
            await anext(told(response))
            assert api.service.events.wanted(job["id"])
    await _readers(api, job["id"], 0)
    assert not api.service.events.wanted(job["id"])


@pytest.mark.slow
async def test_reader_without_news_gets_keep_alives(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transcoder.api.events.KEEP_ALIVE_SECONDS", 0.05)
    api.executor.gate.clear()
    job = await api.submit()
    async with api.http.stream("GET", f"/v1/jobs/{job['id']}/events") as response, asyncio.timeout(10):
        async for line in response.aiter_lines():
            if line.startswith(":"):
                return
    pytest.fail("no comment came")


async def _readers(api: Api, job_id: str, number: int) -> None:
    """Waits until so many read the job's events."""
    async with asyncio.timeout(10):
        while len(api.service.events._readers.get(job_id, ())) != number:
            await asyncio.sleep(0.01)
