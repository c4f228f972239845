"""The data folder: whole uploads or none, outputs that appear in one step."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.errors import Cancelled, DiskFull, OutputFailed, PipelineError, VerifyFailed
from transcoder.errors import PayloadTooLarge, StorageFull
from transcoder.storage import Storage


def storage_in(folder: Path, *, fsync: Callable[[int], None] = os.fsync, max_upload_bytes: int = 10 << 20) -> Storage:
    storage = Storage(folder, max_upload_bytes=max_upload_bytes, fsync=fsync)
    storage.prepare()
    return storage


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def never() -> bool:
    return False


class FailingFsync:
    """Fails at the nth call, from 1."""

    def __init__(self, nth: int, number: int = errno.EIO) -> None:
        self.nth, self.number, self.calls = nth, number, 0

    def __call__(self, descriptor: int) -> None:
        self.calls += 1
        if self.calls == self.nth:
            raise OSError(self.number, os.strerror(self.number))
        os.fsync(descriptor)


async def upload(storage: Storage, *chunks: bytes, error: Exception | None = None) -> str:
    async with storage.receive("clip.mp4") as sink:
        for chunk in chunks:
            await sink.write(chunk)
        if error is not None:
            raise error
    return sink.upload.id


async def test_upload_is_refused_below_the_free_space_to_keep_and_leaves_nothing(tmp_path: Path) -> None:
    storage = Storage(tmp_path, max_upload_bytes=10 << 20, min_free_bytes=1 << 60)
    storage.prepare()

    with pytest.raises(StorageFull):
        await upload(storage, b"media")

    assert files_in(tmp_path) == []


async def test_upload_is_stored_under_its_id_with_its_hash(tmp_path: Path) -> None:
    storage = storage_in(tmp_path)
    content = os.urandom(3_000_000)
    async with storage.receive("../../etc/passwd\r\n\x1b") as sink:
        for start in range(0, len(content), 65_537):
            await sink.write(content[start : start + 65_537])
    upload = sink.upload
    assert storage.depot.upload_path(upload.id).read_bytes() == content
    assert (upload.size, upload.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert files_in(tmp_path) == [f"uploads/{upload.id}"]
    assert upload.name.isprintable()


async def test_empty_upload_is_an_upload(tmp_path: Path) -> None:
    storage = storage_in(tmp_path)
    async with storage.receive("empty") as sink:
        pass
    assert sink.upload.size == 0
    assert storage.depot.upload_path(sink.upload.id).read_bytes() == b""


@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_broken_upload_leaves_nothing(tmp_path: Path, size: int) -> None:
    storage = storage_in(tmp_path)
    with pytest.raises(ConnectionError):
        await upload(storage, bytes(size), error=ConnectionError())
    assert files_in(tmp_path) == []


async def test_cancelled_upload_leaves_nothing(tmp_path: Path) -> None:
    storage = storage_in(tmp_path)
    writing = asyncio.Event()

    async def upload() -> None:
        async with storage.receive("clip.mp4") as sink:
            while True:
                await sink.write(bytes(1 << 20))
                writing.set()

    task = asyncio.create_task(upload())
    await writing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert files_in(tmp_path) == []


async def test_upload_past_the_limit_is_refused(tmp_path: Path) -> None:
    storage = storage_in(tmp_path, max_upload_bytes=1000)
    with pytest.raises(PayloadTooLarge):
        await upload(storage, bytes(600), bytes(401))
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("nth", [1, 2])
async def test_upload_that_is_not_durable_is_none(tmp_path: Path, nth: int) -> None:
    storage = storage_in(tmp_path, fsync=FailingFsync(nth))
    with pytest.raises(OSError, match="error"):
        await upload(storage, b"abc")
    assert files_in(tmp_path) == []


async def write_outputs(storage: Storage, scratch: Path) -> Path:
    folder = scratch / "out"
    folder.mkdir()
    (folder / "a.mp4").write_bytes(b"a" * 1000)
    (folder / "b.mp4").write_bytes(b"b" * 10)
    (folder / "2pass.log").write_bytes(b"left by an encoder")
    return folder


async def test_published_folder_has_what_was_named_and_nothing_else(tmp_path: Path) -> None:
    storage = storage_in(tmp_path)
    async with storage.attempt_scratch("job", 1) as scratch:
        folder = await write_outputs(storage, scratch)
        published = await storage.publish("job", 1, folder, ["a.mp4", "b.mp4"], stopped=never)
    assert [(file.path, file.size, file.sha256) for file in published] == [
        ("a.mp4", 1000, hashlib.sha256(b"a" * 1000).hexdigest()),
        ("b.mp4", 10, hashlib.sha256(b"b" * 10).hexdigest()),
    ]
    assert files_in(tmp_path) == ["outputs/job/attempt-1/a.mp4", "outputs/job/attempt-1/b.mp4"]


async def test_files_and_folders_are_synced_before_and_after_the_rename(tmp_path: Path) -> None:
    synced: list[tuple[str, bool]] = []
    target = tmp_path / "outputs" / "job" / "attempt-1"

    def fsync(descriptor: int) -> None:
        synced.append((Path(os.readlink(f"/proc/self/fd/{descriptor}")).name, target.exists()))

    storage = storage_in(tmp_path, fsync=fsync)
    async with storage.attempt_scratch("job", 1) as scratch:
        folder = await write_outputs(storage, scratch)
        await storage.publish("job", 1, folder, ["a.mp4", "b.mp4"], stopped=never)
    assert synced == [("a.mp4", False), ("b.mp4", False), ("out", False), ("job", True), ("outputs", True)]


async def test_attempts_touch_only_their_own_outputs(tmp_path: Path) -> None:
    storage = storage_in(tmp_path)
    for attempt in (2, 1):
        # 1 was taken for dead, and comes late
        async with storage.attempt_scratch("job", attempt) as scratch:
            folder = await write_outputs(storage, scratch)
            await storage.publish("job", attempt, folder, ["a.mp4"], stopped=never)
    await storage.discard_outputs("job", 1)
    assert files_in(tmp_path) == ["outputs/job/attempt-2/a.mp4"]
    assert storage.depot.output_path("job", 2, "a.mp4").read_bytes() == b"a" * 1000
    await storage.discard_outputs("job", 2)
    assert list((tmp_path / "outputs").iterdir()) == []


async def publish_with(storage: Storage, prepare: Callable[[Path], None], stopped: Callable[[], bool] = never) -> None:
    async with storage.attempt_scratch("job", 1) as scratch:
        folder = await write_outputs(storage, scratch)
        prepare(folder)
        await storage.publish("job", 1, folder, ["a.mp4", "b.mp4"], stopped=stopped)


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
async def test_fsync_error_is_never_a_success(tmp_path: Path, nth: int) -> None:
    with pytest.raises(OutputFailed) as failed:
        await publish_with(storage_in(tmp_path, fsync=FailingFsync(nth)), lambda folder: None)
    assert failed.value.stage == "publish"


async def test_full_disk_has_its_own_code(tmp_path: Path) -> None:
    with pytest.raises(DiskFull):
        await publish_with(storage_in(tmp_path, fsync=FailingFsync(1, errno.ENOSPC)), lambda folder: None)


def replace_by_link(folder: Path) -> None:
    (folder / "a.mp4").unlink()
    (folder / "a.mp4").symlink_to("/etc/hostname")


def replace_by_fifo(folder: Path) -> None:
    (folder / "a.mp4").unlink()
    os.mkfifo(folder / "a.mp4")


def replace_by_nothing(folder: Path) -> None:
    (folder / "a.mp4").unlink()


@pytest.mark.parametrize("prepare", [replace_by_link, replace_by_fifo, replace_by_nothing])
async def test_what_is_not_a_file_is_not_published(tmp_path: Path, prepare: Callable[[Path], None]) -> None:
    storage = storage_in(tmp_path)
    with pytest.raises(VerifyFailed):
        await asyncio.wait_for(publish_with(storage, prepare), 5)
    assert not storage.depot.output_folder("job", 1).exists()


async def test_stop_while_publishing_publishes_nothing(tmp_path: Path) -> None:
    storage = storage_in(tmp_path)
    with pytest.raises(Cancelled):
        await publish_with(storage, lambda folder: None, stopped=lambda: True)
    assert not storage.depot.output_folder("job", 1).exists()


async def test_scratch_is_gone_whatever_happens(tmp_path: Path) -> None:
    storage = storage_in(tmp_path)

    async def attempt() -> None:
        async with storage.attempt_scratch("job", 1) as scratch:
            (scratch / "deep").mkdir()
            (scratch / "deep" / "input").write_bytes(b"x")
            raise PipelineError("failed")

    with pytest.raises(PipelineError):
        await attempt()
    assert list((tmp_path / "work").iterdir()) == []


async def test_start_clears_scratch_and_half_uploads_only(tmp_path: Path) -> None:
    storage = storage_in(tmp_path)
    whole = await upload(storage, b"x")
    (tmp_path / "uploads" / "half.part").write_bytes(b"x")
    (tmp_path / "work" / "job" / "attempt-1").mkdir(parents=True)
    (tmp_path / "work" / "job" / "attempt-1" / "input").write_bytes(b"x")
    storage.clear_scratch()
    assert files_in(tmp_path) == [f"uploads/{whole}"]
    assert list((tmp_path / "work").iterdir()) == []
