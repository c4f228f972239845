"""Limits, pauses, devices and deadlines of queues; costs, reserved slots and the wait for hardware."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from tests.transcoder.queue_sim import CPU, GPU, add, job_in, make_queues
from tests.transcoder.stubs import StubExecutor, ended, give_upload, job_for, running_service
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.errors import Conflict, DeadlineImpossible, QueueFull, UnknownQueue
from transcoder.jobs import JobStatus
from transcoder.queueing.admission import Claim, FreeSlots, Rules, claim, next_available
from transcoder.queueing.costs import cost_of
from transcoder.queueing.queues import QueueSettings, QueueStore
from transcoder.store import JobStore


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database, None]:
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'transcoder.db'}")
    await database.migrate()
    yield database
    await database.close()


async def claimed(
    database: Database, *free: FreeSlots, rules: Rules | None = None, later_seconds: float = 0.0
) -> tuple[Claim, ...]:
    async with database.write() as connection:
        return await claim(connection, free, utc_now() + timedelta(seconds=later_seconds), rules or Rules())


@pytest.mark.parametrize("seed", range(5))
async def test_limits_of_queues_and_tenants_hold_and_leave_no_slot_empty(database: Database, seed: int) -> None:
    random = Random(seed)
    limits = {name: random.choice([None, 0, 1, 2, 5]) for name in "abc"}
    per_tenant = random.choice([None, 1, 2, 4])
    await make_queues(database, **{name: QueueSettings(max_running=limit) for name, limit in limits.items()})
    new = [job_in(random.choice("abc"), tenant=random.choice("xyz")) for _ in range(40)]
    await add(database, *new)
    slots = random.randint(1, 12)
    started = await claimed(database, FreeSlots(CPU, slots), rules=Rules(tenant_running=per_tenant))
    queues = Counter(each.spec["queue"] for each in started)
    tenants = Counter(each.tenant for each in started)
    assert all(limits[name] is None or count <= (limits[name] or 0) for name, count in queues.items())
    assert per_tenant is None or max(tenants.values(), default=0) <= per_tenant
    if len(started) < slots:
        begun = {each.job_id for each in started}
        for job in new:
            limit, name = limits[job.spec.queue], job.spec.queue
            queue_full = limit is not None and queues[name] >= limit
            tenant_full = per_tenant is not None and tenants[job.tenant] >= per_tenant
            assert job.id in begun or queue_full or tenant_full


async def test_a_paused_queue_starts_nothing_and_others_go_on(database: Database) -> None:
    await make_queues(database, a=QueueSettings(paused=True))
    await add(database, job_in("a"), job_in())
    assert [each.spec["queue"] for each in await claimed(database, FreeSlots(CPU, 4))] == ["default"]
    await make_queues(database, a=QueueSettings())
    assert [each.spec["queue"] for each in await claimed(database, FreeSlots(CPU, 4))] == ["a"]


async def test_a_queue_uses_only_its_devices(database: Database) -> None:
    await make_queues(database, a=QueueSettings(devices=("gpu0",)), b=QueueSettings(devices=("software",)))
    await add(database, *(job_in(name) for name in "ab" for _ in range(4)))
    started = await claimed(database, FreeSlots(GPU, 2), FreeSlots(CPU, 3))
    placed = Counter((each.spec["queue"], each.device.id) for each in started)
    assert placed == {("a", "gpu0"): 2, ("b", "software"): 3}


async def test_inside_a_queue_priority_comes_first_then_the_deadline_then_age(database: Database) -> None:
    soon, later = utc_now() + timedelta(hours=1), utc_now() + timedelta(hours=2)
    wanted = [
        job_in(priority=5, ready_by=later),
        job_in(ready_by=soon),
        job_in(ready_by=later),
        job_in(),
        job_in(),
        job_in(priority=-1, ready_by=soon),
    ]
    await add(database, *(wanted[number] for number in (3, 2, 5, 1, 4, 0)))
    order = []
    while started := await claimed(database, FreeSlots(CPU, 1)):
        order += [each.job_id for each in started]
    assert order == [job.id for job in wanted]


async def test_jobs_that_name_no_priority_have_their_queues(database: Database) -> None:
    await make_queues(database, a=QueueSettings(default_priority=7))
    ids = await add(database, job_in("a"), job_in("a", priority=0), job_in("a", priority=9))
    jobs = [await JobStore(database).get(job_id, "default") for job_id in ids]
    assert [job.priority for job in jobs] == [7, 0, 9]
    assert [job.spec.priority for job in jobs] == [7, 0, 9]


async def test_hardware_is_waited_for_and_then_software_does_it(database: Database) -> None:
    rules = Rules(wait_for_hardware=True)
    job = job_in()
    await JobStore(database).add([type(job)(**{**vars(job), "wait_seconds": 20.0})])
    assert await claimed(database, FreeSlots(CPU, 2), rules=rules, later_seconds=10) == ()
    async with database.read() as connection:
        due = await next_available(connection, utc_now(), hops=True)
    assert due == job.created_at + timedelta(seconds=20)
    (started,) = await claimed(database, FreeSlots(CPU, 2), rules=rules, later_seconds=21)
    (attempt,) = (await JobStore(database).get(started.job_id, "default")).attempts
    assert (attempt.device, "20 s" in attempt.reason) == ("software", True)


async def test_free_hardware_is_taken_before_software(database: Database) -> None:
    await add(database, *(job_in() for _ in range(3)))
    started = await claimed(database, FreeSlots(GPU, 2), FreeSlots(CPU, 2), rules=Rules(wait_for_hardware=True))
    assert [each.device.id for each in started] == ["gpu0", "gpu0", "software"]


async def test_costly_jobs_hold_several_slots_and_are_not_overtaken_for_ever(database: Database) -> None:
    big, small = job_in(cost=3), job_in()
    await add(database, big, small)
    # two of four are free: the big one waits, and what comes after it does not take its room away
    assert await claimed(database, FreeSlots(CPU, 2, slots=4)) == ()
    assert [each.held for each in await claimed(database, FreeSlots(CPU, 4, slots=4))] == [3, 1]


async def test_a_job_that_costs_more_than_a_device_has_takes_all_of_it(database: Database) -> None:
    await add(database, job_in(cost=9), job_in())
    (started,) = await claimed(database, FreeSlots(CPU, 4, slots=4))
    assert started.held == 4


@pytest.mark.slow
async def test_slots_for_live_streams_are_left_free(database: Database) -> None:
    await add(database, *(job_in() for _ in range(5)))
    assert len(await claimed(database, FreeSlots(CPU, 4, for_files=3))) == 3
    assert await claimed(database, FreeSlots(CPU, 1, for_files=0)) == ()


@pytest.mark.parametrize(
    ("video", "slots"),
    [
        ({"height": 480}, 1),
        ({"height": 1080}, 1),
        ({"height": 1080, "frame_rate": 60}, 2),
        ({"height": 2160, "codec": "hevc"}, 8),
        ({"height": 2160, "codec": "av1", "frame_rate": 60}, 24),
        ("copy", 1),
        (None, 1),
    ],
)
def test_cost_follows_size_rate_and_codec(video: object, slots: int) -> None:
    spec = job_in(outputs=[{"type": "mp4", "video": video}]).spec
    assert cost_of(spec, "work") == slots
    assert cost_of(spec, "count") == 1


@pytest.mark.slow
async def test_reserved_slots_hold_in_the_service(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    assert executor.gate is not None
    async with running_service(tmp_path, executor, slots=3, reserve_live=1) as service:
        upload = await give_upload(service)
        ids = [(await service.submit(job_for(upload)))[0].id for _ in range(4)]
        while executor.running < 2:
            await asyncio.sleep(0.01)
        executor.gate.set()
        assert {(await ended(service, job_id)).status for job_id in ids} == {JobStatus.COMPLETED}
    assert executor.most_running == 2


async def test_a_full_an_unknown_queue_and_a_deadline_that_is_over_refuse_a_job(tmp_path: Path) -> None:
    async with running_service(tmp_path, slots=0) as service:
        upload = await give_upload(service)
        await service.put_queue("small", QueueSettings(max_queued=2))
        results = await asyncio.gather(
            *(service.submit(job_for(upload, queue="small")) for _ in range(6)), return_exceptions=True
        )
        assert Counter(type(each) for each in results) == {tuple: 2, QueueFull: 4}
        with pytest.raises(UnknownQueue) as unknown:
            await service.submit(job_for(upload, queue="none"))
        assert (unknown.value.code, unknown.value.http_status) == ("queue_not_found", 422)
        with pytest.raises(DeadlineImpossible):
            await service.submit(job_for(upload, ready_by=utc_now() - timedelta(seconds=1)))


async def test_a_queue_with_jobs_and_the_default_one_are_not_deleted(database: Database) -> None:
    queues = QueueStore(database)
    await make_queues(database, a=QueueSettings())
    await add(database, job_in("a"))
    with pytest.raises(Conflict):
        await queues.delete("a")
    with pytest.raises(Conflict):
        await queues.delete("default")
    await claimed(database, FreeSlots(CPU, 1))
    with pytest.raises(Conflict):
        await queues.delete("a")
    assert {queue.name: (queue.queued, queue.running) for queue in await queues.all()} == {
        "a": (0, 1),
        "default": (0, 0),
    }


@pytest.mark.slow
async def test_many_queues_are_looked_at_in_parts(database: Database) -> None:
    await make_queues(database, **{f"q{number}": QueueSettings() for number in range(60)})
    await add(database, *(job_in(f"q{number}") for number in range(60)))
    assert len(await claimed(database, FreeSlots(GPU, 30), FreeSlots(CPU, 40))) == 60
