"""Slots are never exceeded, and a free one is used at once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from tests.transcoder.stubs import StubExecutor, ended, give_upload, job_for, running_service
from transcoder.children.watch import ChildTask
from transcoder.engine import local
from transcoder.errors import DeviceNotFound
from transcoder.jobs import JobStatus
from transcoder.queueing.admission import Claim
from transcoder.tables import jobs


@pytest.mark.slow
async def test_slots_hold_while_fifty_submit_and_slots_change(tmp_path: Path) -> None:
    random = Random(1)
    executor = StubExecutor()
    allowed = [3]
    over: list[int] = []

    def check(task: ChildTask) -> None:
        # a cut stops nothing that runs, so only starts are held against the number of the moment
        if executor.running > max(allowed[-2:]):
            over.append(executor.running)

    executor.on_run = check
    async with running_service(tmp_path, executor, slots=3) as service:
        upload = await give_upload(service)

        async def submit() -> list[str]:
            return [(await service.submit(job_for(upload, priority=random.randint(-5, 5))))[0].id]

        async def change() -> None:
            for slots in (1, 4, 0, 2, 5, 3):
                before = service.devices()[0]
                assert before.slots == allowed[-1]
                allowed.append(slots)
                await service.update_device("software", slots=slots, draining=None)
                await asyncio.sleep(0.05)

        *submitted, _ = await asyncio.gather(*(submit() for _ in range(50)), change())
        ids = [job_id for some in submitted if some for job_id in some]
        jobs = [await ended(service, job_id, seconds=60) for job_id in ids]
    assert len(jobs) == 50
    assert {job.status for job in jobs} == {JobStatus.COMPLETED}
    assert over == []
    assert executor.runs == 50


@pytest.mark.slow
async def test_a_job_starts_within_200_ms_when_a_slot_is_free(tmp_path: Path) -> None:
    executor = StubExecutor()
    waits = []
    async with running_service(tmp_path, executor) as service:
        upload = await give_upload(service)
        for _ in range(10):
            executor.entered.clear()
            began = time.monotonic()
            job, _ = await service.submit(job_for(upload))
            await asyncio.wait_for(executor.entered.wait(), 5)
            waits.append(time.monotonic() - began)
            await ended(service, job.id)
    assert sorted(waits)[len(waits) // 2] < 0.2, waits


@pytest.mark.slow
async def test_draining_starts_nothing_and_lets_run_what_runs(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    assert executor.gate is not None
    async with running_service(tmp_path, executor, slots=1) as service:
        upload = await give_upload(service)
        first, _ = await service.submit(job_for(upload))
        await executor.entered.wait()
        state = await service.update_device("software", slots=None, draining=True)
        assert (state.state, state.busy, state.slots) == ("draining", 1, 1)
        second, _ = await service.submit(job_for(upload))
        executor.gate.set()
        assert (await ended(service, first.id)).status is JobStatus.COMPLETED
        assert (await service.get(second.id)).status is JobStatus.QUEUED
        assert service.devices()[0].busy == 0
        await service.update_device("software", slots=None, draining=False)
        assert (await ended(service, second.id)).status is JobStatus.COMPLETED


@pytest.mark.slow
async def test_fewer_slots_stop_nothing_and_more_start_at_once(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    assert executor.gate is not None
    async with running_service(tmp_path, executor, slots=2) as service:
        upload = await give_upload(service)
        ids = [(await service.submit(job_for(upload)))[0].id for _ in range(5)]
        await until(lambda: executor.running == 2)
        await service.update_device("software", slots=1, draining=None)
        assert executor.running == 2
        await service.update_device("software", slots=4, draining=None)
        await until(lambda: executor.running == 4)
        executor.gate.set()
        assert {(await ended(service, job_id)).status for job_id in ids} == {JobStatus.COMPLETED}
        assert executor.most_running == 4


async def test_unknown_device_is_not_found(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        with pytest.raises(DeviceNotFound):
            await service.update_device("gpu9", slots=1, draining=None)


@pytest.mark.slow
async def test_a_raised_priority_overtakes(tmp_path: Path) -> None:
    executor = StubExecutor()
    async with running_service(tmp_path, executor, slots=0) as service:
        upload = await give_upload(service)
        ids = [(await service.submit(job_for(upload)))[0].id for _ in range(4)]
        assert (await service.set_priority(ids[2], 10)).priority == 10
        await service.update_device("software", slots=1, draining=None)
        for job_id in ids:
            await ended(service, job_id)
        order = [task.payload["folder"].split("/")[-3] for task in executor.tasks]
    assert order == [ids[2], ids[0], ids[1], ids[3]]


@pytest.mark.slow
async def test_a_spec_that_can_not_be_read_fails_its_job_and_holds_up_no_other(tmp_path: Path) -> None:
    async with running_service(tmp_path, slots=0) as service:
        upload = await give_upload(service)
        broken, good = [(await service.submit(job_for(upload)))[0].id for _ in range(2)]
        readable = (await service.get(broken)).spec.model_dump(mode="json")
        async with service.database.write() as connection:
            await connection.execute(update(jobs).where(jobs.c.id == broken).values(spec={**readable, "kind": "vr"}))
        await service.update_device("software", slots=1, draining=None)
        assert (await ended(service, good)).status is JobStatus.COMPLETED


async def test_the_dispatcher_outlives_a_database_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim, failures = local.claim, [OperationalError("BEGIN", {}, Exception("disk I/O error"))]

    async def unlucky(*given: Any) -> tuple[Claim, ...]:
        if failures:
            raise failures.pop()
        return await claim(*given)

    async with running_service(tmp_path) as service:
        upload = await give_upload(service)
        monkeypatch.setattr(local, "claim", unlucky)
        monkeypatch.setattr(local, "DATABASE_PAUSE_SECONDS", 0.05)
        job, _ = await service.submit(job_for(upload))
        assert (await ended(service, job.id)).status is JobStatus.COMPLETED
        assert (await service.healthy()).engine
    assert failures == []


async def until(condition: object, seconds: float = 10.0) -> None:
    """Lets others run until `condition` holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.01)
