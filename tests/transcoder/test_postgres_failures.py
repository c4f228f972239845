"""Nodes that die, sleep and come back; a database that goes away. Each job ends once, and shows only whole results.

TEST_OUTAGE_SECONDS says for how long; 5 otherwise. 45 is longer than the lease, and than a worker of the queue library
bears.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

import pytest
from sqlalchemy.exc import SQLAlchemyError

from tests.transcoder.node_processes import node_process
from tests.transcoder.postgres import missing, running_postgres
from tests.transcoder.stubs import CONTENT, StubExecutor, give_upload, job_for, running_service
from transcoder.cluster.leases import Leases
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service

LEASE_SECONDS = 3.0
OUTAGE_SECONDS = float(os.environ.get("TEST_OUTAGE_SECONDS", "5"))

pytestmark = pytest.mark.slow


async def finished(service: Service, job_id: str, seconds: float = 60.0) -> Job:
    async with asyncio.timeout(seconds):
        while not (job := await service.get(job_id)).status.ended:
            await asyncio.sleep(0.05)
        return job


def outcomes(job: Job) -> list[tuple[str, str]]:
    return [(attempt.device, attempt.status) for attempt in job.attempts]


def published(service: Service, job: Job) -> list[str]:
    folder = service.storage.depot.output_folder(job.id, 1).parent
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


async def test_what_a_killed_worker_ran_is_taken_up_elsewhere_within_the_lease(
    tmp_path: Path, cluster_url: str
) -> None:
    async with running_service(
        tmp_path, slots=0, database_url=cluster_url, node="watcher", lease_seconds=LEASE_SECONDS
    ) as service:
        with node_process(tmp_path, cluster_url, "one", lease_seconds=LEASE_SECONDS, seconds=30) as one:
            job, _ = await service.submit(job_for(await give_upload(service)))
            await asyncio.to_thread(one.until, one.children)
            with node_process(tmp_path, cluster_url, "two", lease_seconds=LEASE_SECONDS, seconds=0.1) as two:
                one.kill()
                killed = time.monotonic()
                await asyncio.to_thread(two.until, two.children)
                taken_up = time.monotonic() - killed
                done = await finished(service, job.id)
            for pid in one.children():
                os.kill(pid, signal.SIGKILL)
        assert outcomes(done) == [("software@one", "lost"), ("software@two", "completed")]
        assert published(service, done) == ["attempt-2/output.mp4"]
        # a look every two seconds at most, and a machine that may be busy
        assert taken_up < LEASE_SECONDS + 5, taken_up


async def test_a_worker_that_slept_through_its_lease_publishes_nothing(tmp_path: Path, cluster_url: str) -> None:
    async with running_service(
        tmp_path, slots=0, database_url=cluster_url, node="watcher", lease_seconds=LEASE_SECONDS
    ) as service:
        with node_process(tmp_path, cluster_url, "one", lease_seconds=LEASE_SECONDS, seconds=1) as one:
            job, _ = await service.submit(job_for(await give_upload(service)))
            await asyncio.to_thread(one.until, one.children)
            one.signal(signal.SIGSTOP)
            with node_process(tmp_path, cluster_url, "two", lease_seconds=LEASE_SECONDS, seconds=0.1):
                done = await finished(service, job.id)
                one.signal(signal.SIGCONT)
                # it works again, for others
                following, _ = await service.submit(job_for(await give_upload(service)))
                await finished(service, following.id)
                await asyncio.sleep(2)
        assert outcomes(done) == [("software@one", "lost"), ("software@two", "completed")]
        again = await service.get(job.id)
        assert outcomes(again) == outcomes(done)
        assert published(service, again) == ["attempt-2/output.mp4"]


async def test_a_result_that_comes_too_late_is_refused(
    tmp_path: Path, cluster_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, beat = Leases.look, Leases.beat

    async def looks(leases: Leases, task_ids: Collection[str]) -> dict[str, tuple[int, bool]]:
        """The node `one` does not notice that its task was taken away."""
        return dict.fromkeys(task_ids, (1, False)) if leases.node == "one" else await look(leases, task_ids)

    async def beats(leases: Leases, held: tuple[str, int]) -> bool:
        return True if leases.node == "one" else await beat(leases, held)

    monkeypatch.setattr(Leases, "look", looks)
    monkeypatch.setattr(Leases, "beat", beats)
    slow, quick = StubExecutor(gate=asyncio.Event()), StubExecutor()
    assert slow.gate is not None
    many = {"database_url": cluster_url, "lease_seconds": 1.0}
    async with running_service(tmp_path, slow, slots=1, node="one", **many) as one:
        job, _ = await one.submit(job_for(await give_upload(one)))
        await asyncio.wait_for(slow.entered.wait(), 20)
        assert one.nodes is not None
        await one.nodes.set_draining("one", True)
        async with running_service(tmp_path, quick, slots=1, node="two", **many) as two:
            done = await finished(two, job.id)
            assert outcomes(done) == [("software@one", "lost"), ("software@two", "completed")]
            assert published(two, done) == ["attempt-2/output.mp4"]
            slow.gate.set()
            async with asyncio.timeout(20):
                while slow.running:
                    await asyncio.sleep(0.05)
            await asyncio.sleep(1)
            late = await two.get(job.id)
            assert outcomes(late) == outcomes(done)
            assert published(two, late) == ["attempt-2/output.mp4"]


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
async def test_nodes_outlive_a_restart_of_the_database(tmp_path: Path) -> None:
    with running_postgres() as server:
        url = server.new_database()
        executor = StubExecutor(gate=asyncio.Event())
        assert executor.gate is not None
        async with running_service(
            tmp_path, executor, slots=1, database_url=url, node="one", lease_seconds=30.0
        ) as service:
            upload = await give_upload(service)
            running, _ = await service.submit(job_for(upload))
            waiting, _ = await service.submit(job_for(upload))
            await asyncio.wait_for(executor.entered.wait(), 20)
            await asyncio.to_thread(server.stop)
            # it ends while the database is away
            executor.gate.set()
            await asyncio.sleep(OUTAGE_SECONDS)
            assert not (await service.healthy()).database
            await asyncio.to_thread(server.start)
            for job in (running, waiting):
                done = await _patiently(service, job.id)
                assert (done.status, [each.status for each in done.attempts]) == (JobStatus.COMPLETED, ["completed"])
                path = service.storage.depot.output_path(job.id, 1, "output.mp4")
                assert path.read_bytes() == CONTENT
            assert (await service.healthy()).ready
            after, _ = await service.submit(job_for(upload))
            assert (await _patiently(service, after.id)).status is JobStatus.COMPLETED


async def _patiently(service: Service, job_id: str) -> Job:
    async with asyncio.timeout(60):
        while True:
            try:
                job = await service.get(job_id)
            except SQLAlchemyError:
                await asyncio.sleep(0.2)
                continue
            if job.status.ended:
                return job
            await asyncio.sleep(0.05)
