"""Events reach those who listen, and slow readers harm nobody."""

from __future__ import annotations

import asyncio

from transcoder.events import Event, EventBus


async def read_all(events: object) -> list[Event]:
    return [event async for event in events]  # type: ignore[attr-defined]


async def test_events_go_to_readers_of_their_job_only() -> None:
    bus = EventBus()
    async with bus.subscribe("a") as mine, bus.subscribe("b") as other:
        bus.publish("a", "status", {"status": "running"})
        bus.publish("b", "log", {"text": "x"})
        bus.close()
        assert [event.kind for event in await read_all(mine)] == ["status"]
        assert [event.data for event in await read_all(other)] == [{"text": "x"}]


async def test_ids_rise() -> None:
    bus = EventBus()
    async with bus.subscribe("a") as events:
        for number in range(5):
            bus.publish("a", "progress", {"frames": number})
        bus.close()
        ids = [event.id for event in await read_all(events)]
    assert ids == sorted(set(ids))


async def test_a_slow_reader_loses_progress_but_no_status() -> None:
    bus = EventBus(capacity=8)
    async with bus.subscribe("a") as events:
        for number in range(100):
            bus.publish("a", "progress", {"frames": number})
            if number % 20 == 0:
                bus.publish("a", "status", {"number": number})
        bus.close()
        seen = await read_all(events)
    assert len(seen) <= 8
    assert [event.data["number"] for event in seen if event.kind == "status"] == [0, 20, 40, 60, 80]
    assert seen[-1].data == {"frames": 99}


async def test_a_reader_that_would_miss_a_status_is_let_go() -> None:
    bus = EventBus(capacity=3)
    async with bus.subscribe("a") as events:
        for number in range(5):
            bus.publish("a", "status", {"number": number})
        seen = await read_all(events)
    assert [event.data["number"] for event in seen] == [0, 1, 2]


async def test_closing_wakes_who_waits() -> None:
    bus = EventBus()
    async with bus.subscribe("a") as events:
        waiting = asyncio.create_task(read_all(events))
        await asyncio.sleep(0)
        bus.close()
        assert await asyncio.wait_for(waiting, 1) == []
    async with bus.subscribe("a") as late:
        assert await asyncio.wait_for(read_all(late), 1) == []


async def test_nothing_is_kept_for_jobs_without_readers() -> None:
    bus = EventBus()
    async with bus.subscribe("a"):
        assert bus.wanted("a")
    assert not bus.wanted("a")
    bus.publish("a", "status", {})
    assert not bus.wanted("a")
