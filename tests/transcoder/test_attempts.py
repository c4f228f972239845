"""Attempts from claim to settlement: retries, publishing, cancelling in each phase, fencing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from pipelines.errors import BadInput, Crashed, DeviceLost
from tests.transcoder.slow_server import slow_server
from tests.transcoder.stubs import CONTENT, PLAN, StubExecutor, ended, give_upload, job_for, running_service
from transcoder.attempts import attempts, settlement
from transcoder.attempts.retry import RetryPolicy
from transcoder.attempts.settlement import Completed, Ticket
from transcoder.clock import utc_now
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service


def traces(service: Service, job_id: str) -> list[str]:
    """What the job has on the disk, besides its log."""
    root = service.storage.data_dir
    places = [*root.glob("work/*"), *root.glob(f"outputs/{job_id}*")]
    return [str(path.relative_to(root)) for path in places]


async def run_job(service: Service, **changes: object) -> Job:
    job, _ = await service.submit(job_for(await give_upload(service), **changes))
    return await ended(service, job.id)


async def test_completed_job_has_its_outputs_plan_and_one_attempt(tmp_path: Path) -> None:
    executor = StubExecutor()
    async with running_service(tmp_path, executor) as service:
        job = await run_job(service, timeout_seconds=77)
        assert (job.status, job.progress, job.plan, job.error) == (JobStatus.COMPLETED, 1.0, PLAN, None)
        assert [(each.number, each.status) for each in job.attempts] == [(1, "completed")]
        (output,) = job.outputs
        (file,) = output.files
        assert (output.name, file.path, file.size, file.content_type) == ("output", "output.mp4", 8, "video/mp4")
        assert service.storage.depot.output_path(job.id, 1, file.path).read_bytes() == CONTENT
        assert traces(service, job.id) == [f"outputs/{job.id}"]
    (task,) = executor.tasks
    assert task.op == "run"
    assert task.payload["name"] == "clip.mp4"
    assert task.payload["spec"] == job.spec.model_dump(mode="json")
    assert 70 < task.deadline_seconds <= 77
    assert task.log_path == service.storage.log_path(job.id)


async def test_bad_input_fails_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    executor = StubExecutor(failures=[BadInput("no media", stage="open", looks_like="HTML")])
    async with running_service(tmp_path, executor) as service:
        job = await run_job(service)
        assert job.status is JobStatus.FAILED
        assert job.error is not None
        assert (job.error.code, job.error.stage, job.error.device) == ("bad_input", "open", "software")
        assert job.error.facts == {"looks_like": "HTML"}
        assert traces(service, job.id) == []
    assert executor.runs == 1


@pytest.mark.slow
async def test_device_fault_is_tried_again(tmp_path: Path) -> None:
    executor = StubExecutor(failures=[DeviceLost("gone"), DeviceLost("gone")])
    async with running_service(tmp_path, executor) as service:
        job = await run_job(service)
    assert job.status is JobStatus.COMPLETED
    assert [(each.number, each.status) for each in job.attempts] == [(1, "failed"), (2, "failed"), (3, "completed")]
    assert [each.error.code for each in job.attempts if each.error] == ["device_lost", "device_lost"]


@pytest.mark.slow
async def test_a_job_that_kills_its_process_ends_as_poisoned_after_three(tmp_path: Path) -> None:
    executor = StubExecutor(failures=[Crashed("SIGSEGV")] * 9)
    async with running_service(tmp_path, executor, max_attempts=9) as service:
        job = await run_job(service)
        other = await run_job(service) if not executor.failures.clear() else None
    assert job.error is not None
    assert (job.status, job.error.code, len(job.attempts)) == (JobStatus.FAILED, "poisoned", 3)
    assert other is not None
    assert other.status is JobStatus.COMPLETED


@pytest.mark.slow
async def test_a_bug_inside_fails_the_job_and_frees_its_slot(tmp_path: Path) -> None:
    def bug(task: object) -> None:
        raise ZeroDivisionError("oops")

    executor = StubExecutor(on_run=bug)
    async with running_service(tmp_path, executor, slots=1) as service:
        job = await run_job(service)
        assert job.error is not None
        assert (job.status, job.error.code) == (JobStatus.FAILED, "internal")
        executor.on_run = lambda task: None
        assert (await run_job(service)).status is JobStatus.COMPLETED


@pytest.mark.slow
async def test_retry_by_hand_gives_a_fresh_budget_and_keeps_the_history(tmp_path: Path) -> None:
    executor = StubExecutor(failures=[DeviceLost("gone")] * 4)
    async with running_service(tmp_path, executor) as service:
        failed = await run_job(service)
        assert failed.status is JobStatus.FAILED
        again = await service.retry(failed.id)
        assert (again.status, again.error, again.finished_at) == (JobStatus.QUEUED, None, None)
        job = await ended(service, failed.id)
    assert job.status is JobStatus.COMPLETED
    assert [each.status for each in job.attempts] == ["failed", "failed", "failed", "failed", "completed"]


@dataclass
class FailingFsync:
    """Fails at the given calls, counted from 1 since it was armed."""

    failing: set[int] = field(default_factory=set)
    calls: int = 0
    on_call: Callable[[], None] = lambda: None

    def __call__(self, descriptor: int) -> None:
        self.calls += 1
        self.on_call()
        if self.calls in self.failing:
            raise OSError(5, "Input/output error")
        os.fsync(descriptor)


@pytest.mark.slow
@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_fsync_error_at_the_nth_call_never_says_completed(tmp_path: Path, nth: int) -> None:
    fsync = FailingFsync()
    async with running_service(tmp_path, fsync=fsync, max_attempts=1) as service:
        upload = await give_upload(service)
        fsync.calls, fsync.failing = 0, {nth}
        job, _ = await service.submit(job_for(upload))
        job = await ended(service, job.id)
        assert job.error is not None
        assert (job.status, job.error.code, job.error.stage) == (JobStatus.FAILED, "output_failed", "publish")
        assert job.outputs == ()
        assert traces(service, job.id) == []


@pytest.mark.slow
async def test_an_attempt_after_an_fsync_error_writes_everything_anew(tmp_path: Path) -> None:
    fsync = FailingFsync()
    executor = StubExecutor()
    async with running_service(tmp_path, executor, fsync=fsync) as service:
        upload = await give_upload(service)
        fsync.calls, fsync.failing = 0, {1}
        job, _ = await service.submit(job_for(upload))
        job = await ended(service, job.id)
    assert (job.status, executor.runs) == (JobStatus.COMPLETED, 2)


async def cancel_quickly(service: Service, job_id: str) -> Job:
    """Cancels, and checks that nothing is left a second later at the latest."""
    began = time.monotonic()
    job = await service.cancel(job_id)
    assert time.monotonic() - began < 1.0
    assert job.status is JobStatus.CANCELLED
    assert traces(service, job_id) == []
    assert all(device.busy == 0 for device in service.devices())
    return job


@pytest.mark.slow
async def test_queued_job_is_cancelled_at_once_and_never_runs(tmp_path: Path) -> None:
    executor = StubExecutor()
    async with running_service(tmp_path, executor, slots=0) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        cancelled = await cancel_quickly(service, job.id)
        assert cancelled.finished_at is not None
        assert (await service.cancel(job.id)).status is JobStatus.CANCELLED
        await service.update_device("software", slots=1, draining=None)
        assert (await run_job(service)).status is JobStatus.COMPLETED
    assert executor.runs == 1


@pytest.mark.slow
async def test_job_is_cancelled_while_it_downloads(tmp_path: Path) -> None:
    async with (
        slow_server(hang=True) as server,
        running_service(tmp_path, allowed_networks="127.0.0.0/8") as service,
    ):
        spec = job_for(await give_upload(service), input={"url": server.url})
        job, _ = await service.submit(spec)
        await server.asked.wait()
        running = await service.get(job.id)
        assert (running.status, running.progress) == (JobStatus.RUNNING, 0.0)
        await cancel_quickly(service, job.id)
        await asyncio.wait_for(server.gone.wait(), 1)


@pytest.mark.slow
async def test_job_is_cancelled_while_it_runs(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    async with running_service(tmp_path, executor) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        await executor.entered.wait()
        cancelled = await cancel_quickly(service, job.id)
    assert [(each.status, each.error.code) for each in cancelled.attempts if each.error] == [("cancelled", "cancelled")]


@pytest.mark.slow
async def test_job_is_cancelled_while_it_is_published(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    publishing = asyncio.Event()
    fsync = FailingFsync()
    async with running_service(tmp_path, fsync=fsync) as service:
        upload = await give_upload(service)

        def slow_disk() -> None:
            loop.call_soon_threadsafe(publishing.set)
            # a disk that needs its time, but not for ever
            time.sleep(0.3)

        fsync.on_call = slow_disk
        job, _ = await service.submit(job_for(upload))
        await publishing.wait()
        await cancel_quickly(service, job.id)


@pytest.mark.slow
async def test_a_wish_to_cancel_wins_over_a_retry(tmp_path: Path) -> None:
    executor = StubExecutor(failures=[DeviceLost("gone")])
    async with running_service(tmp_path, executor) as service:
        wishes: list[asyncio.Task[object]] = []

        def wish(task: object) -> None:
            wishes.append(asyncio.create_task(service.store.request_cancel(job.id, "default", utc_now())))

        executor.on_run = wish
        executor.gate = asyncio.Event()
        job, _ = await service.submit(job_for(await give_upload(service)))
        await executor.entered.wait()
        await wishes[0]
        executor.gate.set()
        assert (await ended(service, job.id)).status is JobStatus.CANCELLED
    assert executor.runs == 1


@pytest.mark.slow
async def test_a_job_completes_once_and_a_stale_attempt_changes_nothing(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        job = await run_job(service)
        stale = Ticket(job.id, f"{job.id}-0", 1)
        async with service.database.write() as connection:
            late = await settlement.settle(connection, stale, Completed((), ()), RetryPolicy(3, 1.0), utc_now())
        assert late is None
        assert await service.get(job.id) == job


@pytest.mark.slow
async def test_stopping_the_service_queues_what_runs_and_the_next_one_completes_it(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    async with running_service(tmp_path, executor) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        await executor.entered.wait()
    async with running_service(tmp_path) as service:
        done = await ended(service, job.id)
    assert done.status is JobStatus.COMPLETED
    assert [(each.status, each.error and each.error.code) for each in done.attempts] == [
        ("lost", "shutdown"),
        ("completed", None),
    ]


@pytest.mark.slow
async def test_stopping_waits_for_what_ends_in_time(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    assert executor.gate is not None
    async with running_service(tmp_path, executor, shutdown_seconds=20) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        await executor.entered.wait()
        asyncio.get_running_loop().call_later(0.2, executor.gate.set)
        began = time.monotonic()
    assert time.monotonic() - began < 10
    async with running_service(tmp_path, slots=0) as service:
        assert (await service.get(job.id)).status is JobStatus.COMPLETED


@pytest.mark.slow
async def test_download_is_the_input_and_its_failure_the_jobs(tmp_path: Path) -> None:
    seen: list[bytes] = []
    executor = StubExecutor(on_run=lambda task: seen.append(Path(task.payload["path"]).read_bytes()))
    async with running_service(tmp_path, executor, allowed_networks="127.0.0.0/8", max_attempts=1) as service:
        async with slow_server(b"the file", hang=False) as server:
            job, _ = await service.submit(job_for(await give_upload(service), input={"url": server.url}))
            assert (await ended(service, job.id)).status is JobStatus.COMPLETED
        assert seen == [b"the file"]
        again, _ = await service.submit(job_for(await give_upload(service), input={"url": server.url}))
        failed = await ended(service, again.id)
    assert failed.error is not None
    assert (failed.error.code, failed.error.stage, failed.error.retryable) == ("fetch_failed", "fetch", True)


async def test_a_download_that_takes_the_whole_deadline_times_out(tmp_path: Path) -> None:
    async with (
        slow_server(hang=True) as server,
        running_service(tmp_path, allowed_networks="127.0.0.0/8") as service,
    ):
        spec = job_for(await give_upload(service), input={"url": server.url}, timeout_seconds=0.3)
        job, _ = await service.submit(spec)
        failed = await ended(service, job.id)
        assert failed.error is not None
        assert failed.error.code == "timeout"
        assert traces(service, job.id) == []


@pytest.mark.slow
async def test_log_tells_each_attempt(tmp_path: Path) -> None:
    executor = StubExecutor(failures=[DeviceLost("gone\x1b[31m\nfor good")])
    async with running_service(tmp_path, executor) as service:
        job = await run_job(service)
        lines = [line.partition(" ")[2] for line in service.storage.log_path(job.id).read_text().splitlines()]
    assert lines == [
        "attempt 1 starts on software",
        "attempt 1 failed [device_lost]: gone[31mfor good",
        "attempt 2 starts on software",
        "attempt 2 completed",
    ]


@pytest.mark.slow
async def test_an_end_that_the_database_can_not_take_yet_is_settled_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, failures = settlement.settle, [OperationalError("UPDATE", {}, Exception("disk full"))] * 2

    async def unlucky(*given: Any, **more: Any) -> JobStatus | None:
        if failures:
            raise failures.pop()
        return await settle(*given, **more)

    monkeypatch.setattr(settlement, "settle", unlucky)
    monkeypatch.setattr(attempts, "SETTLE_PAUSE_SECONDS", (0.05,))
    executor = StubExecutor()
    async with running_service(tmp_path, executor) as service:
        job = await run_job(service)
    assert (job.status, executor.runs, failures) == (JobStatus.COMPLETED, 1, [])
