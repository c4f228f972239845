"""The same promises on PostgreSQL: tables, slots, cancelling, shares."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import text

from tests.transcoder.stubs import StubExecutor, ended, give_upload, job_for, running_service
from transcoder.children.watch import ChildTask
from transcoder.database import Database
from transcoder.jobs import JobStatus
from transcoder.queueing.queues import QueueSettings


async def test_migrations_make_the_same_tables_and_run_again_without_harm(cluster_url: str) -> None:
    first, second = Database(cluster_url), Database(cluster_url)
    await asyncio.gather(first.migrate(), second.migrate())
    async with first.read() as connection:
        names = await connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
        assert {"jobs", "tasks", "attempts", "queues", "queue_shares", "nodes", "node_devices"} <= set(names.scalars())
    await first.close()
    await second.close()


@pytest.mark.slow
async def test_a_job_runs_and_its_result_is_there(tmp_path: Path, cluster_url: str) -> None:
    async with running_service(tmp_path, database_url=cluster_url, node="one") as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        done = await ended(service, job.id)
        assert (done.status, [each.device for each in done.attempts]) == (JobStatus.COMPLETED, ["software@one"])
        assert service.storage.depot.output_path(job.id, 1, "output.mp4").exists()
        (node,) = await service.nodes.all() if service.nodes else ()
        assert (node.name, node.state, node.devices) == ("one", "online", ("software@one",))


@pytest.mark.slow
async def test_slots_hold_while_fifty_submit_and_slots_change(tmp_path: Path, cluster_url: str) -> None:
    random = Random(2)
    executor = StubExecutor()
    allowed = [3]
    over: list[int] = []

    def check(task: ChildTask) -> None:
        if executor.running > max(allowed[-2:]):
            over.append(executor.running)

    executor.on_run = check
    async with running_service(tmp_path, executor, slots=3, database_url=cluster_url, node="one") as service:
        upload = await give_upload(service)

        async def submit() -> str:
            return (await service.submit(job_for(upload, priority=random.randint(-5, 5))))[0].id

        async def change() -> None:
            for slots in (1, 4, 0, 2, 5, 3):
                allowed.append(slots)
                await service.update_device("software@one", slots=slots, draining=None)
                await asyncio.sleep(0.05)

        *ids, _ = await asyncio.gather(*(submit() for _ in range(50)), change())
        jobs = [await ended(service, job_id, seconds=60) for job_id in ids if job_id]
    assert Counter(job.status for job in jobs) == {JobStatus.COMPLETED: 50}
    assert over == []
    assert executor.runs == 50


@pytest.mark.slow
async def test_two_nodes_share_the_work_and_see_each_other(tmp_path: Path, cluster_url: str) -> None:
    executors = {name: StubExecutor(gate=asyncio.Event()) for name in ("one", "two")}
    async with (
        running_service(tmp_path, executors["one"], slots=2, database_url=cluster_url, node="one") as one,
        running_service(tmp_path, executors["two"], slots=2, database_url=cluster_url, node="two") as two,
    ):
        upload = await give_upload(one)
        ids = [(await one.submit(job_for(upload)))[0].id for _ in range(8)]
        async with asyncio.timeout(20):
            while any(executor.running < 2 for executor in executors.values()):
                await asyncio.sleep(0.02)
        assert {state.id: state.busy for state in two.devices()}.keys() == {"software@one", "software@two"}
        assert one.nodes is not None
        assert [(node.name, node.running) for node in await one.nodes.all()] == [("one", 2), ("two", 2)]
        for executor in executors.values():
            assert executor.gate is not None
            executor.gate.set()
        jobs = [await done(two, job_id) for job_id in ids]
    assert {job.status for job in jobs} == {JobStatus.COMPLETED}
    assert all(executor.most_running == 2 for executor in executors.values())
    assert sum(executor.runs for executor in executors.values()) == 8


@pytest.mark.slow
async def test_a_job_is_cancelled_from_another_node_within_a_second(tmp_path: Path, cluster_url: str) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    async with (
        running_service(tmp_path, executor, database_url=cluster_url, node="one"),
        running_service(tmp_path, slots=0, database_url=cluster_url, node="two") as two,
    ):
        job, _ = await two.submit(job_for(await give_upload(two)))
        await asyncio.wait_for(executor.entered.wait(), 20)
        async with asyncio.timeout(5):
            cancelled = await two.cancel(job.id)
    assert cancelled.status is JobStatus.CANCELLED


@pytest.mark.slow
async def test_a_node_that_drains_takes_nothing_new(tmp_path: Path, cluster_url: str) -> None:
    executor = StubExecutor()
    async with running_service(tmp_path, executor, database_url=cluster_url, node="one") as service:
        assert service.nodes is not None
        assert (await service.nodes.set_draining("one", True)).state == "draining"
        job, _ = await service.submit(job_for(await give_upload(service)))
        await asyncio.sleep(1.5)
        assert executor.runs == 0
        await service.nodes.set_draining("one", False)
        assert (await ended(service, job.id)).status is JobStatus.COMPLETED


@pytest.mark.slow
async def test_a_node_that_stops_hands_back_what_it_runs(tmp_path: Path, cluster_url: str) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    async with running_service(tmp_path, slots=0, database_url=cluster_url, node="two") as two:
        async with running_service(tmp_path, executor, database_url=cluster_url, node="one"):
            job, _ = await two.submit(job_for(await give_upload(two)))
            await asyncio.wait_for(executor.entered.wait(), 20)
        waiting = await two.get(job.id)
        assert (waiting.status, [each.status for each in waiting.attempts]) == (JobStatus.QUEUED, ["lost"])
        await two.update_device("software@two", slots=1, draining=None)
        assert (await ended(two, job.id)).status is JobStatus.COMPLETED


@pytest.mark.slow
async def test_queues_limit_and_pause_here_as_well(tmp_path: Path, cluster_url: str) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    assert executor.gate is not None
    async with running_service(tmp_path, executor, slots=4, database_url=cluster_url, node="one") as service:
        await service.put_queue("small", QueueSettings(max_running=1))
        await service.put_queue("night", QueueSettings(paused=True))
        upload = await give_upload(service)
        ids = [(await service.submit(job_for(upload, queue=name)))[0].id for name in ("small", "small", "night")]
        await asyncio.wait_for(executor.entered.wait(), 20)
        await asyncio.sleep(1.2)
        assert executor.running == 1
        executor.gate.set()
        await service.put_queue("night", QueueSettings())
        assert {(await ended(service, job_id)).status for job_id in ids} == {JobStatus.COMPLETED}


async def done(service: object, job_id: str) -> object:
    """The job, as soon as it has ended on whatever node."""
    async with asyncio.timeout(30):
        while True:
            job = await service.get(job_id)  # type: ignore[attr-defined]
            if job.status.ended:
                return job
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("query", ["SELECT 1"])
async def test_a_write_waits_for_the_one_before(cluster_url: str, query: str) -> None:
    database, order = Database(cluster_url), list[str]()

    async def write(name: str) -> None:
        async with database.write() as connection:
            order.append(f"{name} begins")
            await connection.execute(text(query))
            await asyncio.sleep(0.05)
            order.append(f"{name} ends")

    await asyncio.gather(*(write(name) for name in "abc"))
    await database.close()
    assert [line.split()[1] for line in order] == ["begins", "ends"] * 3
