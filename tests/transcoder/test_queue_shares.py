"""Queues get slot-seconds by their weights, lend what they don't use, and get it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from random import Random

import pytest

from tests.transcoder.queue_sim import CPU, Simulation, add, job_in, make_queues
from tests.transcoder.stubs import StubExecutor, give_upload, job_for, running_service
from transcoder.children.watch import ChildTask
from transcoder.database import Database
from transcoder.jobs import JobStatus
from transcoder.queueing.queues import QueueSettings


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database, None]:
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'transcoder.db'}")
    await database.migrate()
    yield database
    await database.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_slot_seconds_are_shared_by_weight_however_long_tasks_take(database: Database, seed: int) -> None:
    random = Random(seed)
    weights = {name: float(random.randint(1, 6)) for name in "abc"}
    seconds = {name: random.choice([1.0, 3.0, 10.0, 30.0]) for name in weights}
    slots = random.randint(1, 6)
    await make_queues(database, **{name: QueueSettings(weight=weight) for name, weight in weights.items()})
    await add(database, *(job_in(name) for name in weights for _ in range(150)))
    simulation = Simulation(database, seconds, CPU.model_copy(update={"slots": slots}))
    while sum(simulation.started.values()) < 150:
        await simulation.step()
    total, weight = sum(simulation.used.values()), sum(weights.values())
    for name, mine in weights.items():
        assert simulation.used[name] / total == pytest.approx(mine / weight, abs=0.05), (weights, seconds, slots)


@pytest.mark.slow
async def test_an_idle_queue_lends_its_share_and_gets_it_back_as_slots_free(database: Database) -> None:
    await make_queues(database, busy=QueueSettings(weight=1), late=QueueSettings(weight=3))
    await add(database, *(job_in("busy") for _ in range(200)))
    simulation = Simulation(database, {"busy": 2.0, "late": 2.0})
    await simulation.steps(60)
    assert simulation.started["busy"] >= 60
    assert simulation.now.timestamp() > 0
    await add(database, *(job_in("late") for _ in range(200)))
    before = simulation.started.copy()
    # what runs goes on; each slot that becomes free is given by weight, and nothing is made up for
    await simulation.steps(80)
    since = simulation.started - before
    assert since["late"] / since.total() == pytest.approx(0.75, abs=0.05)


@pytest.mark.slow
async def test_a_queue_that_used_lent_slots_is_not_punished_for_it(database: Database) -> None:
    await make_queues(database, first=QueueSettings(), second=QueueSettings())
    await add(database, *(job_in("first") for _ in range(100)))
    simulation = Simulation(database, {"first": 1.0, "second": 1.0})
    while await simulation.step():
        pass
    await add(database, *(job_in("second") for _ in range(100)))
    await simulation.steps(20)
    await add(database, *(job_in("first") for _ in range(100)))
    before = simulation.started.copy()
    await simulation.steps(60)
    since = simulation.started - before
    assert since["first"] / since.total() == pytest.approx(0.5, abs=0.07)


@pytest.mark.slow
async def test_a_pause_earns_no_credit(database: Database) -> None:
    await make_queues(database, a=QueueSettings(paused=True), b=QueueSettings())
    await add(database, *(job_in(name) for name in "ab" for _ in range(200)))
    simulation = Simulation(database, {"a": 1.0, "b": 1.0})
    await simulation.steps(50)
    assert simulation.started["a"] == 0
    await make_queues(database, a=QueueSettings())
    before = simulation.started.copy()
    await simulation.steps(60)
    since = simulation.started - before
    assert since["a"] / since.total() == pytest.approx(0.5, abs=0.07)


@pytest.mark.slow
async def test_a_thousand_small_jobs_are_shared_within_five_percent(tmp_path: Path) -> None:
    weights = {"gold": 5.0, "silver": 3.0, "bronze": 2.0}
    order: list[str] = []

    class Sleeping(StubExecutor):
        async def _wait(self, cancel: asyncio.Event) -> None:
            await asyncio.sleep(0.01)

    def note(task: ChildTask) -> None:
        order.append(task.payload["spec"]["queue"])

    async with running_service(tmp_path, Sleeping(on_run=note), slots=0, fsync=lambda fd: None) as service:
        for name, weight in weights.items():
            await service.put_queue(name, QueueSettings(weight=weight))
        upload = await give_upload(service)
        for name, weight in weights.items():
            # so many that none runs dry before a thousand have started
            for _ in range(int(weight * 2.2)):
                await asyncio.gather(*(service.submit(job_for(upload, queue=name)) for _ in range(50)))
        await service.update_device("software", slots=4, draining=None)
        async with asyncio.timeout(600):
            while len(order) < 1000:
                await asyncio.sleep(0.02)
        await service.update_device("software", slots=0, draining=None)
        running = await service.list(status=JobStatus.RUNNING)
        assert len(running.items) <= 4
    for name, weight in weights.items():
        assert order[:1000].count(name) / 1000 == pytest.approx(weight / 10, rel=0.05)
