"""Jobs whose uploads and outputs are in a bucket; children are stubbed, the store is a real server."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines.errors import PipelineError
from tests.transcoder.bucket_peer import Bucket, gate_to
from tests.transcoder.stubs import CONTENT, StubExecutor, ended, give_upload, job_for, running_service
from transcoder.children.watch import ChildTask
from transcoder.depot import Place
from transcoder.errors import StorageDamaged, StorageRefused, StorageUnavailable
from transcoder.jobs import JobStatus
from transcoder.service import Service
from transcoder.settings import Settings


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
async def test_a_job_reads_its_upload_from_the_bucket_and_publishes_there(tmp_path: Path, bucket: Bucket) -> None:
    seen: list[bytes] = []
    executor = StubExecutor(on_run=lambda task: seen.append(Path(task.payload["path"]).read_bytes()))
    async with running_service(tmp_path, executor, **bucket.settings()) as service:
        content = os.urandom(300_000)
        upload = await give_upload(service, content)
        assert bucket.objects() == {f"uploads/{upload.id}": content}
        job, _ = await service.submit(job_for(upload))
        done = await ended(service, job.id)
        assert done.status is JobStatus.COMPLETED
        assert seen == [content]
        assert bucket.objects()[f"outputs/{job.id}/attempt-1/output.mp4"] == CONTENT
        assert done.outputs[0].files[0].sha256 == hashlib.sha256(CONTENT).hexdigest()
        for name in ("uploads", "outputs", "work"):
            assert files(tmp_path / "data" / name) == [], name


@pytest.mark.slow
async def test_the_child_may_read_and_write_local_files_only(tmp_path: Path, bucket: Bucket) -> None:
    async with running_service(tmp_path, executor := StubExecutor(), **bucket.settings()) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        await ended(service, job.id)
    (task,) = executor.tasks
    scratch = tmp_path / "data" / "work"
    assert all(path.is_relative_to(scratch) for path in (*task.readable, *task.writable))


@pytest.mark.slow
async def test_a_file_of_many_parts_arrives_whole(tmp_path: Path, bucket: Bucket) -> None:
    large = os.urandom(21 << 20)

    def write(task: ChildTask) -> None:
        assert Path(task.payload["path"]).read_bytes() == large

    async with running_service(tmp_path, StubExecutor(on_run=write), **bucket.settings()) as service:
        upload = await give_upload(service, large)
        job, _ = await service.submit(job_for(upload))
        assert (await ended(service, job.id)).status is JobStatus.COMPLETED
        folder = tmp_path / "many"
        folder.mkdir()
        (folder / "a").write_bytes(large)
        published = await service.storage.publish("job", 1, folder, ["a"], stopped=lambda: False)
        assert published[0].sha256 == upload.sha256
        assert bucket.objects()["outputs/job/attempt-1/a"] == large


@pytest.mark.slow
async def test_an_attempt_that_fails_leaves_nothing_in_the_bucket(tmp_path: Path, bucket: Bucket) -> None:
    executor = StubExecutor(failures=[PipelineError("no")])
    async with running_service(tmp_path, executor, **bucket.settings()) as service:
        upload = await give_upload(service)
        job, _ = await service.submit(job_for(upload))
        assert (await ended(service, job.id)).status is JobStatus.FAILED
        assert [key for key in bucket.objects() if key.startswith("outputs/")] == []


@pytest.mark.slow
async def test_a_cancel_ends_publishing_and_leaves_nothing(tmp_path: Path, bucket: Bucket) -> None:
    async with gate_to(bucket.port) as gate:
        executor = StubExecutor(gate=asyncio.Event())
        settings = bucket.settings(bucket_endpoint=f"http://127.0.0.1:{gate.port}")
        async with running_service(tmp_path, executor, **settings) as service:
            job, _ = await service.submit(job_for(await give_upload(service)))
            await executor.entered.wait()
            await gate.shut()
            executor.gate.set()
            while (await service.store.get(job.id, "default")).progress is None and executor.running:
                await asyncio.sleep(0.01)
            began = asyncio.get_running_loop().time()
            cancelling = asyncio.create_task(service.cancel(job.id))
            await asyncio.sleep(0.5)
            await gate.open()
            assert (await cancelling).status is JobStatus.CANCELLED
            assert asyncio.get_running_loop().time() - began < 5
        assert [key for key in bucket.objects() if key.startswith("outputs/")] == []


@pytest.mark.slow
async def test_a_store_that_is_away_for_a_while_costs_time_only(tmp_path: Path, bucket: Bucket) -> None:
    async with gate_to(bucket.port) as gate:
        executor = StubExecutor(gate=asyncio.Event())
        settings = bucket.settings(bucket_endpoint=f"http://127.0.0.1:{gate.port}")
        async with running_service(tmp_path, executor, **settings) as service:
            job, _ = await service.submit(job_for(await give_upload(service)))
            await executor.entered.wait()
            await gate.shut()
            executor.gate.set()
            await asyncio.sleep(2)
            assert (await service.get(job.id)).status is JobStatus.RUNNING
            await gate.open()
            done = await ended(service, job.id)
        assert done.status is JobStatus.COMPLETED
        assert len(done.attempts) == 1
        assert bucket.objects()[f"outputs/{job.id}/attempt-1/output.mp4"] == CONTENT


@pytest.mark.slow
async def test_a_store_that_goes_away_amid_a_large_file_gets_it_whole(tmp_path: Path, bucket: Bucket) -> None:
    async with gate_to(bucket.port) as gate:
        settings = bucket.settings(bucket_endpoint=f"http://127.0.0.1:{gate.port}")
        async with running_service(tmp_path, **settings) as service:
            folder = tmp_path / "many"
            folder.mkdir()
            (folder / "a").write_bytes(large := os.urandom(20 << 20))
            gate.bytes_until_shut = gate.passed + (10 << 20)
            publishing = asyncio.create_task(service.storage.publish("job", 1, folder, ["a"], stopped=lambda: False))
            await gate.was_shut.wait()
            assert bucket.objects() == {}
            await gate.open()
            await publishing
            assert bucket.objects() == {"outputs/job/attempt-1/a": large}


@pytest.mark.slow
async def test_a_store_that_stays_away_fails_the_attempt_with_a_code_of_its_own(tmp_path: Path, bucket: Bucket) -> None:
    async with gate_to(bucket.port) as gate:
        executor = StubExecutor(gate=asyncio.Event())
        settings = bucket.settings(bucket_endpoint=f"http://127.0.0.1:{gate.port}", bucket_retry_seconds=0.3)
        async with running_service(tmp_path, executor, max_attempts=1, **settings) as service:
            upload = await give_upload(service)
            job, _ = await service.submit(job_for(upload))
            await executor.entered.wait()
            await gate.shut()
            executor.gate.set()
            done = await ended(service, job.id, seconds=30)
            assert done.error is not None
            assert (done.error.code, done.error.stage, done.error.retryable) == (
                "storage_unavailable",
                "publish",
                True,
            )
            following, _ = await service.submit(job_for(upload))
            failed = await ended(service, following.id, seconds=30)
            assert failed.error is not None
            assert (failed.error.code, failed.error.stage) == ("storage_unavailable", "fetch")


@pytest.mark.slow
async def test_an_upload_that_the_store_has_not_got_whole_is_found_out(tmp_path: Path, bucket: Bucket) -> None:
    async with running_service(tmp_path, max_attempts=1, **bucket.settings()) as service:
        for content in (b"medio", b"med"):
            upload = await give_upload(service, b"media")
            bucket.put(f"uploads/{upload.id}", content)
            scratch = tmp_path / upload.id
            scratch.mkdir()
            with pytest.raises((StorageDamaged, StorageUnavailable)):
                await asyncio.wait_for(service.storage.depot.bring_upload(upload, scratch), 20)
            job, _ = await service.submit(job_for(upload))
            done = await ended(service, job.id, seconds=20)
            assert done.error is not None
            assert done.error.code in ("storage_damaged", "storage_unavailable")


@pytest.mark.slow
async def test_an_empty_upload_goes_through_the_bucket(tmp_path: Path, bucket: Bucket) -> None:
    async with running_service(tmp_path, **bucket.settings()) as service:
        upload = await give_upload(service, b"")
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        assert (await service.storage.depot.bring_upload(upload, scratch)).read_bytes() == b""


@pytest.mark.slow
async def test_deleting_removes_what_is_in_the_bucket(tmp_path: Path, bucket: Bucket) -> None:
    async with running_service(tmp_path, **bucket.settings()) as service:
        upload = await give_upload(service)
        job, _ = await service.submit(job_for(upload))
        await ended(service, job.id)
        await service.delete(job.id)
        assert list(bucket.objects()) == [f"uploads/{upload.id}"]
        await service.delete_upload(upload.id)
        assert bucket.objects() == {}


@pytest.mark.slow
async def test_what_expires_goes_from_the_bucket(tmp_path: Path, bucket: Bucket) -> None:
    settings = bucket.settings(job_ttl_seconds=0.2, upload_ttl_seconds=0.2)
    async with running_service(tmp_path, **settings) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        await ended(service, job.id)
        async with asyncio.timeout(20):
            while bucket.objects():
                await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_strays_are_swept_and_what_counts_stays(tmp_path: Path, bucket: Bucket) -> None:
    async with running_service(tmp_path, **bucket.settings()) as service:
        upload = await give_upload(service)
        job, _ = await service.submit(job_for(upload))
        await ended(service, job.id)
        kept = bucket.objects()
        for stray in (f"outputs/{job.id}/attempt-7/output.mp4", "outputs/gone/attempt-1/a", "logs/gone/000001.log"):
            bucket.put(stray, b"stray")
        bucket.put("uploads/just-now", b"its row comes in a moment")
        await service._sweeper.sweep_strays()
        assert bucket.objects() == {**kept, "uploads/just-now": b"its row comes in a moment"}
        later = datetime.now(UTC) + timedelta(seconds=10)
        assert await service.storage.depot.stored_uploads(later) == {upload.id, "just-now"}


@pytest.mark.slow
async def test_objects_of_others_below_the_prefix_do_not_stop_the_sweep(tmp_path: Path, bucket: Bucket) -> None:
    async with running_service(tmp_path, **bucket.settings()) as service:
        bucket.put("outputs/README", b"not ours")
        bucket.put("outputs/job/odd/name", b"not ours")
        assert await service.storage.depot.stored_places() == set()


@pytest.mark.slow
async def test_outputs_are_copied_within_the_bucket(tmp_path: Path, bucket: Bucket) -> None:
    async with running_service(tmp_path, **bucket.settings()) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        done = await ended(service, job.id)
        listed = [file for output in done.outputs for file in output.files]
        await service.storage.depot.adopt(Place(job.id, 1), Place("other", 3), listed)
        assert bucket.objects()["outputs/other/attempt-3/output.mp4"] == CONTENT
        with pytest.raises(FileNotFoundError):
            await service.storage.depot.adopt(Place("nobody", 1), Place("other", 4), listed)


@pytest.mark.slow
async def test_logs_of_ended_attempts_are_read_from_the_bucket_where_there_are_nodes(
    tmp_path: Path, bucket: Bucket, cluster_url: str
) -> None:
    executor = StubExecutor(failures=[PipelineErrorThatPasses("later")])
    settings = bucket.settings(database_url=cluster_url, node="one")
    async with running_service(tmp_path, executor, **settings) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        await ended(service, job.id)
        size, content = await service.storage.open_log(job.id)
        text = b"".join([chunk async for chunk in content]).decode()
    assert len(text.encode()) == size
    assert [line.split(" ", 1)[1] for line in text.splitlines()] == [
        "attempt 1 starts on software@one",
        "attempt 1 failed [internal]: later",
        "attempt 2 starts on software@one",
        "attempt 2 completed",
    ]
    assert files(tmp_path / "data" / "logs") == []


class PipelineErrorThatPasses(PipelineError):
    retryable = True


async def test_a_service_does_not_start_with_a_bucket_that_is_not_there(tmp_path: Path, bucket: Bucket) -> None:
    with pytest.raises(StorageRefused, match="NoSuchBucket"):
        async with running_service(tmp_path, **bucket.settings(bucket_url="s3://no-such-bucket")):
            raise AssertionError("it started")


@pytest.mark.slow
async def test_a_service_starts_while_its_store_is_away(tmp_path: Path, bucket: Bucket) -> None:
    async with gate_to(bucket.port) as gate:
        await gate.shut()
        settings = bucket.settings(bucket_endpoint=f"http://127.0.0.1:{gate.port}")
        async with running_service(tmp_path, **settings) as service:
            await gate.open()
            job, _ = await service.submit(job_for(await give_upload(service)))
            assert (await ended(service, job.id)).status is JobStatus.COMPLETED


@pytest.mark.slow
async def test_keys_are_in_no_log_and_no_error(
    tmp_path: Path, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = bucket.settings(bucket_endpoint="http://127.0.0.1:1", bucket_retry_seconds=0.1)
    assert "the-secret-key" not in repr(Settings(data_dir=tmp_path, **settings))
    async with running_service(tmp_path, **settings) as service:
        with pytest.raises(StorageUnavailable) as raised:
            await put(service, tmp_path)
    for told in (caplog.text, repr(raised.value), raised.value.message):
        assert "the-secret-key" not in told
        assert "the-access-key" not in told


async def put(service: Service, folder: Path) -> None:
    (folder / "a").write_bytes(b"a")
    await service.storage.publish("job", 1, folder, ["a"], stopped=lambda: False)


@pytest.mark.parametrize(
    "changes",
    [
        {"bucket_url": "http://name/prefix"},
        {"bucket_url": "s3://name/../other"},
        {"bucket_url": "s3://Name"},
        {"bucket_endpoint": "ftp://host"},
        {"bucket_endpoint": "http://user:password@host"},
        {"bucket_secret_key": None},
        {"bucket_region": "here and there"},
    ],
    ids=str,
)
def test_settings_of_a_bucket_that_can_not_be_are_refused(tmp_path: Path, changes: dict[str, str | None]) -> None:
    fine = Bucket(1, "name").settings()
    assert Settings(data_dir=tmp_path, **fine).bucket.prefix == "some/prefix"
    with pytest.raises(ValidationError):
        Settings(data_dir=tmp_path, **fine | changes)
