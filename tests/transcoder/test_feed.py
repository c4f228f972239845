"""News of all jobs in one stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.transcoder.fixtures_api import Api
from tests.transcoder.fixtures_auth import Caller, keyed_api, make_key, store_of
from transcoder.events import EventBus
from transcoder.feed import MAX_CHANGED, Feed


async def own(job_id: str) -> bool:
    return not job_id.startswith("other")


async def told(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, Any]]:
    event = ""
    async for line in lines:
        name, _, text = line.partition(": ")
        if name == "event":
            event = text
        elif name == "data":
            yield event, json.loads(text)


async def test_progress_is_told_once_for_all_that_came_meanwhile() -> None:
    bus = EventBus()
    batches = Feed(own, gather_seconds=0.01).batches(bus)
    assert not await anext(batches)
    for share in (0.1, 0.2, 0.3):
        bus.publish("a", "progress", {"fraction": share})
    bus.publish("other", "progress", {"fraction": 1})
    bus.publish("a", "log", {"text": "a line"})
    assert (await anext(batches)).progress == {"a": {"fraction": 0.3}}


async def test_ended_job_has_no_progress_and_no_plan() -> None:
    bus = EventBus()
    batches = Feed(own, gather_seconds=0.01).batches(bus)
    await anext(batches)
    bus.publish("a", "progress", {"fraction": 0.5})
    bus.publish("a", "status", {"id": "a", "status": "completed", "plan": {"device": "software"}})
    batch = await anext(batches)
    assert batch.progress == {}
    assert batch.jobs == {"a": {"id": "a", "status": "completed", "plan": None}}


async def test_more_changes_than_fit_are_said_to_be_missed() -> None:
    bus = EventBus()
    batches = Feed(own, gather_seconds=0.01).batches(bus)
    await anext(batches)
    for number in range(MAX_CHANGED + 5):
        bus.publish(f"job-{number}", "status", {"id": f"job-{number}"})
    batch = await anext(batches)
    assert len(batch.jobs) == MAX_CHANGED
    assert batch.missed


async def test_closed_bus_ends_the_feed_and_a_left_feed_is_forgotten() -> None:
    bus = EventBus()
    batches = Feed(own, gather_seconds=0.01).batches(bus)
    await anext(batches)
    assert bus.wanted("any")
    bus.close()
    assert [batch async for batch in batches if batch] == []
    assert not bus.wanted("any")


async def test_stream_tells_what_happens_to_a_job_from_its_start_to_its_end(api: Api) -> None:
    api.executor.gate.clear()
    statuses = []
    async with api.http.stream("GET", "/v1/events") as response, asyncio.timeout(20):
        events = told(response.aiter_lines())
        assert await anext(events) == ("open", {})
        job = await api.submit()
        async for _, data in events:
            statuses += [each["status"] for each in data["jobs"] if each["id"] == job["id"]]
            if statuses[-1:] == ["running"]:
                api.executor.gate.set()
            if statuses[-1:] == ["completed"]:
                break
    assert statuses[-1] == "completed"


@pytest.mark.slow
async def test_other_tenants_jobs_are_not_told(tmp_path: Any) -> None:
    async with keyed_api(tmp_path / "data") as (api, owner):
        other = Caller(api, await make_key(store_of(api), "other"))
        headers = {"X-Api-Key": other.token}
        async with api.http.stream("GET", "/v1/events", headers=headers) as response, asyncio.timeout(20):
            events = told(response.aiter_lines())
            await anext(events)
            await owner.finished_job()
            mine = await other.finished_job()
            async for _, data in events:
                ids = {each["id"] for each in data["jobs"]} | set(data["progress"])
                assert ids <= {mine}
                if mine in ids:
                    break
