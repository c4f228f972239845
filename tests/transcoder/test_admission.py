"""What starts next, and where it may."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Literal

import pytest
from sqlalchemy import text, update

from pipelines.devices import Device
from pipelines.spec import DevicePolicy, FileJob
from transcoder.attempts.retry import MAX_BACKOFF_SECONDS
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.errors import NoDevice
from transcoder.ids import new_id
from transcoder.jobs import JobStatus
from transcoder.queueing.admission import Claim, FreeSlots, claim, next_available, requirement
from transcoder.store import JobStore, NewJob
from transcoder.tables import tasks

CPU = Device(id="software", kind="software", name="CPU", slots=2)
GPU = Device(id="gpu0", kind="vaapi", name="GPU", slots=2)
OTHER_GPU = Device(id="gpu1", kind="qsv", name="GPU", slots=2)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database, None]:
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'transcoder.db'}")
    await database.migrate()
    yield database
    await database.close()


async def queue(database: Database, *jobs: tuple[int, str]) -> list[str]:
    """Jobs of (priority, requirement), each a second younger than the one before."""
    start = utc_now() - timedelta(hours=1)
    new = [
        NewJob(
            new_id(),
            "default",
            FileJob.model_validate({"input": {"path": "/a.mp4"}, "outputs": [{"type": "mp4"}], "priority": priority}),
            None,
            wanted,
            start + timedelta(seconds=number),
        )
        for number, (priority, wanted) in enumerate(jobs)
    ]
    await JobStore(database).add(new)
    return [job.id for job in new]


async def claimed(database: Database, *free: FreeSlots, now: datetime | None = None) -> tuple[Claim, ...]:
    async with database.write() as connection:
        return await claim(connection, free, now or utc_now())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
async def test_higher_priority_starts_first_then_the_older(database: Database, seed: int) -> None:
    random = Random(seed)
    jobs = [(random.randint(-2, 2), random.choice(["any", "software"])) for _ in range(random.randint(1, 40))]
    ids = await queue(database, *jobs)
    started: list[str] = []
    while batch := await claimed(database, FreeSlots(CPU, random.randint(1, 5))):
        started += [each.job_id for each in batch]
    assert started == [ids[n] for n in sorted(range(len(jobs)), key=lambda n: (-jobs[n][0], n))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
async def test_no_device_gets_more_than_is_free_nor_what_it_can_not_do(database: Database, seed: int) -> None:
    random = Random(seed)
    able = {
        "software": {"any", "software", "device:software"},
        "gpu0": {"any", "hardware", "device:gpu0"},
        "gpu1": {"any", "hardware", "device:gpu1"},
    }
    kinds = sorted({wanted for kind in able.values() for wanted in kind})
    jobs = [(random.randint(0, 3), random.choice(kinds)) for _ in range(random.randint(0, 30))]
    ids = await queue(database, *jobs)
    free = [FreeSlots(device, random.randint(0, 4)) for device in (GPU, OTHER_GPU, CPU)]
    claims = await claimed(database, *free)
    for slots in free:
        assert sum(each.device.id == slots.device.id for each in claims) <= slots.count
    for each in claims:
        assert jobs[ids.index(each.job_id)][1] in able[each.device.id]
    # nothing waits that a slot is left for
    left = {slots.device.id: slots.count - sum(c.device.id == slots.device.id for c in claims) for slots in free}
    waiting = [jobs[n][1] for n, job_id in enumerate(ids) if job_id not in {each.job_id for each in claims}]
    for device_id, count in left.items():
        assert count == 0 or not able[device_id] & set(waiting)


async def test_a_claim_is_an_attempt_that_counts(database: Database) -> None:
    (job_id,) = await queue(database, (0, "any"))
    (first,) = await claimed(database, FreeSlots(CPU, 3))
    assert (first.job_id, first.attempt, first.device) == (job_id, 1, CPU)
    job = await JobStore(database).get(job_id, "default")
    assert job.status is JobStatus.RUNNING
    assert [(each.number, each.device, each.status) for each in job.attempts] == [(1, "software", "running")]
    assert await claimed(database, FreeSlots(CPU, 3)) == ()


async def test_a_backoff_is_waited_out(database: Database) -> None:
    await queue(database, (0, "any"))
    now = utc_now()
    due = now + timedelta(seconds=30)
    async with database.write() as connection:
        await connection.execute(update(tasks).values(available_at=due))
    assert await claimed(database, FreeSlots(CPU, 1), now=now) == ()
    async with database.read() as connection:
        assert await next_available(connection, now) == due
    assert len(await claimed(database, FreeSlots(CPU, 1), now=due)) == 1


async def test_a_clock_that_was_set_back_holds_up_nothing(database: Database) -> None:
    await queue(database, (0, "any"))
    async with database.write() as connection:
        await connection.execute(
            update(tasks).values(available_at=utc_now() + timedelta(days=1, seconds=MAX_BACKOFF_SECONDS))
        )
    assert len(await claimed(database, FreeSlots(CPU, 1))) == 1


async def test_a_stream_that_begins_tomorrow_waits(database: Database) -> None:
    await queue(database, (0, "any"))
    tomorrow = utc_now() + timedelta(days=1)
    async with database.write() as connection:
        await connection.execute(update(tasks).values(available_at=tomorrow, kind="stream"))
    assert await claimed(database, FreeSlots(CPU, 1)) == ()
    assert len(await claimed(database, FreeSlots(CPU, 1), now=tomorrow)) == 1


@pytest.mark.parametrize(
    ("policy", "device_id", "expected"),
    [
        ("auto", None, "any"),
        ("software", None, "software"),
        ("hardware", None, "hardware"),
        ("auto", "gpu1", "device:gpu1"),
        ("hardware", "gpu0", "device:gpu0"),
        ("software", "software", "device:software"),
    ],
)
def test_requirement_is_what_the_policy_asks_for(
    policy: Literal["auto", "hardware", "software"], device_id: str | None, expected: str
) -> None:
    assert requirement(DevicePolicy(policy=policy, id=device_id), [GPU, OTHER_GPU, CPU]) == expected


@pytest.mark.parametrize(
    ("policy", "device_id"), [("hardware", None), ("auto", "gpu9"), ("software", "gpu0"), ("hardware", "software")]
)
def test_a_policy_that_no_device_satisfies_is_refused(
    policy: Literal["auto", "hardware", "software"], device_id: str | None
) -> None:
    with pytest.raises(NoDevice) as refused:
        requirement(DevicePolicy(policy=policy, id=device_id), [CPU])
    assert "software (software)" in refused.value.message


async def test_the_pick_walks_its_index(database: Database) -> None:
    statements: list[str] = []
    async with database.write() as connection:
        raw = await connection.get_raw_connection()
        await raw.driver_connection.set_trace_callback(statements.append)  # type: ignore[union-attr]
        await claim(connection, [FreeSlots(CPU, 4)], utc_now())
        await raw.driver_connection.set_trace_callback(None)  # type: ignore[union-attr]
        (pick,) = [each for each in statements if "UNION ALL" in each]
        plan = [row.detail for row in (await connection.execute(text(f"EXPLAIN QUERY PLAN {pick}"))).all()]
    assert sum("tasks_pick" in step for step in plan) == 3, plan
    assert not any("TEMP B-TREE" in step for step in plan), plan
