"""Identical work is done once: results are taken, jobs that come meanwhile wait. Runs of children are counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import PipelineError
from tests.transcoder.bucket_peer import Bucket
from tests.transcoder.stubs import CONTENT, StubExecutor, ended, give_upload, job_for, running_service
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service


@asynccontextmanager
async def reusing(folder: Path, executor: StubExecutor, **changes: Any) -> AsyncGenerator[Service, None]:
    async with running_service(folder, executor, slots=4, **{"reuse": True} | changes) as service:
        yield service


async def done(service: Service, content: bytes = b"media", *, tenant: str = "default", **spec: Any) -> Job:
    job, _ = await service.submit(job_for(await give_upload(service, content, tenant), **spec), tenant=tenant)
    return await ended(service, job.id, tenant)


def content_of(service: Service, job: Job) -> bytes:
    path = service.storage.depot.output_path(job.id, job.published_attempt, "output.mp4")
    return bytes(path.read_bytes())


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not await condition():
            await asyncio.sleep(0.01)


async def until_it_waits(service: Service, job_id: str) -> None:
    """For another job's result: its attempt has given the slot back."""

    async def waits() -> bool:
        job = await service.get(job_id)
        return job.status is JobStatus.QUEUED and bool(job.attempts)

    await until(waits)


@pytest.mark.slow
async def test_a_job_that_does_the_same_takes_the_result_and_says_whose(tmp_path: Path) -> None:
    async with reusing(tmp_path, executor := StubExecutor()) as service:
        first = await done(service, metadata={"who": 1})
        second = await done(service, metadata={"who": 2}, priority=5)
        assert executor.runs == 1
        assert (first.reused_from, second.reused_from) == (None, first.id)
        assert second.status is JobStatus.COMPLETED
        assert second.outputs == first.outputs
        assert second.plan == (await service.get(first.id)).plan
        assert second.attempts[-1].reason.endswith(f"job {first.id} did the same: its result was taken")
        assert content_of(service, second) == CONTENT


@pytest.mark.slow
@pytest.mark.parametrize(
    "other",
    [
        {"content": b"other media"},
        {"outputs": [{"type": "mkv"}]},
        {"outputs": [{"type": "mp4", "video": {"height": 480}}]},
        {"device": {"policy": "software"}},
        {"tenant": "other"},
        {"reuse": False},
    ],
    ids=str,
)
async def test_what_is_not_the_same_is_done(tmp_path: Path, other: dict[str, Any]) -> None:
    async with reusing(tmp_path, executor := StubExecutor()) as service:
        await done(service)
        job = await done(service, **other)
        assert (job.status, job.reused_from, executor.runs) == (JobStatus.COMPLETED, None, 2)


@pytest.mark.slow
async def test_another_clip_is_other_work(tmp_path: Path) -> None:
    async with reusing(tmp_path, executor := StubExecutor()) as service:
        for end in (1, 2, 2):
            upload = await give_upload(service)
            job, _ = await service.submit(
                job_for(upload).model_copy(
                    update={
                        "input": job_for(upload, input={"upload": upload.id, "clip": {"start": 0, "end": end}}).input
                    }
                )
            )
            assert (await ended(service, job.id)).status is JobStatus.COMPLETED
        assert executor.runs == 2


async def test_another_engine_is_other_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with reusing(tmp_path, executor := StubExecutor()) as service:
        await done(service)
        monkeypatch.setattr("transcoder.reuse.key.engine_version", lambda: "the next one")
        await done(service)
        assert executor.runs == 2


async def test_nothing_is_taken_where_that_is_switched_off(tmp_path: Path) -> None:
    async with reusing(tmp_path, executor := StubExecutor(), reuse=False) as service:
        await done(service)
        await done(service)
        assert executor.runs == 2


@pytest.mark.slow
async def test_a_job_that_failed_gives_nothing(tmp_path: Path) -> None:
    async with reusing(tmp_path, executor := StubExecutor(failures=[PipelineError("no")])) as service:
        assert (await done(service)).status is JobStatus.FAILED
        second = await done(service)
        assert (second.status, second.reused_from, executor.runs) == (JobStatus.COMPLETED, None, 2)


@pytest.mark.slow
async def test_a_result_stays_when_the_job_that_made_it_is_deleted(tmp_path: Path) -> None:
    async with reusing(tmp_path, executor := StubExecutor()) as service:
        first = await done(service)
        second = await done(service)
        await service.delete(first.id)
        assert content_of(service, second) == CONTENT
        third = await done(service)
        assert (third.reused_from, executor.runs) == (second.id, 1)
        await service.delete(second.id)
        await service.delete(third.id)
        assert (await done(service)).reused_from is None
        assert executor.runs == 2


@pytest.mark.slow
async def test_a_result_whose_files_are_gone_is_made_anew(tmp_path: Path) -> None:
    async with reusing(tmp_path, executor := StubExecutor()) as service:
        first = await done(service)
        await service.storage.discard_job_outputs(first.id)
        second = await done(service)
        assert (second.status, second.reused_from, executor.runs) == (JobStatus.COMPLETED, None, 2)
        assert content_of(service, second) == CONTENT
        assert (await done(service)).reused_from == second.id


@pytest.mark.slow
async def test_a_result_is_copied_where_links_can_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "no links here")

    async with reusing(tmp_path, executor := StubExecutor()) as service:
        await done(service)
        monkeypatch.setattr("transcoder.depot.folder.os.link", refuse)
        assert content_of(service, await done(service)) == CONTENT
        assert executor.runs == 1


@pytest.mark.slow
async def test_jobs_that_come_meanwhile_wait_without_a_slot_and_take_the_result(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    async with reusing(tmp_path, executor) as service:
        first, _ = await service.submit(job_for(await give_upload(service)))
        await executor.entered.wait()
        others = [(await service.submit(job_for(await give_upload(service))))[0] for _ in range(6)]

        async def all_wait() -> bool:
            shown = [await service.get(job.id) for job in others]
            return all(job.status is JobStatus.QUEUED and job.attempts for job in shown)

        async def one_slot_is_busy() -> bool:
            # a slot is free a moment after the attempt that held it is recorded as over
            return [device.busy for device in service.devices()] == [1]

        await until(all_wait)
        await until(one_slot_is_busy)
        different, _ = await service.submit(job_for(await give_upload(service, b"other"), reuse=False))

        async def the_other_runs() -> bool:
            return executor.runs == 2

        await until(the_other_runs)
        assert executor.gate is not None
        executor.gate.set()
        assert (await ended(service, different.id)).status is JobStatus.COMPLETED
        for job in others:
            waited = await ended(service, job.id)
            assert (waited.status, waited.reused_from is not None) == (JobStatus.COMPLETED, True)
            assert content_of(service, waited) == CONTENT
        assert (await ended(service, first.id)).reused_from is None
        assert executor.runs == 2


@pytest.mark.slow
async def test_when_the_one_that_works_fails_the_next_one_works(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event(), failures=[PipelineError("no")])
    async with reusing(tmp_path, executor) as service:
        first, _ = await service.submit(job_for(await give_upload(service)))
        await executor.entered.wait()
        second, _ = await service.submit(job_for(await give_upload(service)))
        await until_it_waits(service, second.id)
        assert executor.gate is not None
        executor.gate.set()
        assert (await ended(service, first.id)).status is JobStatus.FAILED
        took_over = await ended(service, second.id)
        assert (took_over.status, took_over.reused_from, executor.runs) == (JobStatus.COMPLETED, None, 2)


@pytest.mark.slow
async def test_when_the_one_that_works_is_cancelled_the_next_one_works(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    async with reusing(tmp_path, executor) as service:
        first, _ = await service.submit(job_for(await give_upload(service)))
        await executor.entered.wait()
        second, _ = await service.submit(job_for(await give_upload(service)))
        await until_it_waits(service, second.id)
        assert (await service.cancel(first.id)).status is JobStatus.CANCELLED
        assert executor.gate is not None
        executor.gate.set()
        took_over = await ended(service, second.id)
        assert (took_over.status, took_over.reused_from, executor.runs) == (JobStatus.COMPLETED, None, 2)


@pytest.mark.slow
async def test_a_job_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    async with reusing(tmp_path, executor) as service:
        first, _ = await service.submit(job_for(await give_upload(service)))
        await executor.entered.wait()
        second, _ = await service.submit(job_for(await give_upload(service)))
        await until_it_waits(service, second.id)
        assert (await service.cancel(second.id)).status is JobStatus.CANCELLED
        assert executor.gate is not None
        executor.gate.set()
        assert (await ended(service, first.id)).status is JobStatus.COMPLETED
        assert (await service.get(second.id)).status is JobStatus.CANCELLED
        assert executor.runs == 1


@pytest.mark.slow
async def test_a_job_that_waited_when_the_service_died_goes_on(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    async with reusing(tmp_path, executor) as service:
        await service.submit(job_for(await give_upload(service)))
        await executor.entered.wait()
        second, _ = await service.submit(job_for(await give_upload(service)))
        await until_it_waits(service, second.id)
    async with reusing(tmp_path, again := StubExecutor()) as service:
        assert (await ended(service, second.id)).status is JobStatus.COMPLETED
        assert again.runs == 1


@pytest.mark.slow
async def test_a_file_in_a_media_root_is_known_until_it_changes(tmp_path: Path) -> None:
    (root := tmp_path / "media").mkdir()
    (file := root / "clip.mp4").write_bytes(b"media")
    async with reusing(tmp_path, executor := StubExecutor(), media_roots=(root,)) as service:

        async def run() -> Job:
            spec = job_for(await give_upload(service), input={"path": str(file)})
            return await ended(service, (await service.submit(spec))[0].id)

        first = await run()
        assert (await run()).reused_from == first.id
        file.write_bytes(b"medio")
        assert (await run()).reused_from is None
        assert executor.runs == 2


@pytest.mark.slow
async def test_a_result_in_a_bucket_is_copied_there(tmp_path: Path, bucket: Bucket) -> None:
    async with reusing(tmp_path, executor := StubExecutor(), **bucket.settings()) as service:
        first = await done(service)
        second = await done(service)
        assert (second.reused_from, executor.runs) == (first.id, 1)
        await service.delete(first.id)
        assert bucket.objects()[f"outputs/{second.id}/attempt-1/output.mp4"] == CONTENT


@pytest.mark.slow
async def test_nodes_do_identical_work_once(tmp_path: Path, cluster_url: str) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    async with reusing(tmp_path, executor, database_url=cluster_url, node="one") as service:
        jobs = [(await service.submit(job_for(await give_upload(service))))[0] for _ in range(5)]
        await executor.entered.wait()

        async def others_wait() -> bool:
            shown = [await service.get(job.id) for job in jobs]
            return sum(job.status is JobStatus.QUEUED and bool(job.attempts) for job in shown) == 4

        await until(others_wait)
        assert executor.gate is not None
        executor.gate.set()
        finished = [await ended(service, job.id, seconds=30) for job in jobs]
        assert {job.status for job in finished} == {JobStatus.COMPLETED}
        assert sum(job.reused_from is None for job in finished) == 1
        assert executor.runs == 1
