"""An upload's bytes on their way to the disk: written while the next ones come."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from transcoder.errors import StorageFull
from transcoder.uploads.sink import BUFFER_BYTES, UploadSink, write_all


def sink_in(folder: Path, check_room: Callable[[], None] = lambda: None) -> UploadSink:
    async def keep(upload_id: str, part: Path) -> None:
        part.rename(folder / upload_id)

    async def forget(upload_id: str) -> None:
        (folder / upload_id).unlink(missing_ok=True)

    return UploadSink(
        "id",
        "clip.mp4",
        folder,
        max_bytes=1 << 30,
        fsync=lambda descriptor: None,
        keep=keep,
        forget=forget,
        check_room=check_room,
    )


async def test_chunks_of_any_size_are_stored_in_order(tmp_path: Path) -> None:
    chance = random.Random(5)
    sizes = [1, 0, 70_000, 3, 16_384, 16_383, BUFFER_BYTES + 1, *(chance.randrange(90_000) for _ in range(60))]
    chunks = [chance.randbytes(size) for size in sizes]
    sink = sink_in(tmp_path)
    for chunk in chunks:
        await sink.write(chunk)
    await sink.finish()
    whole = b"".join(chunks)
    assert (tmp_path / "id").read_bytes() == whole
    assert (sink.upload.size, sink.upload.sha256) == (len(whole), hashlib.sha256(whole).hexdigest())


async def test_single_bytes_take_no_more_memory_than_large_chunks(tmp_path: Path) -> None:
    sink = sink_in(tmp_path)
    tracemalloc.start()
    try:
        for number in range(30_000):
            await sink.write(bytes([number % 251]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # each by itself would take more than forty
    assert peak < 10 * 30_000
    await sink.abandon()


async def test_disk_that_is_full_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "full")

    sink = sink_in(tmp_path, full)
    await sink.write(bytes(BUFFER_BYTES))
    with pytest.raises(StorageFull):
        await sink.write(bytes(BUFFER_BYTES))
    await sink.abandon()
    assert list(tmp_path.iterdir()) == []


def test_rest_is_written_where_the_kernel_takes_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reluctant(descriptor: int, parts: Sequence[memoryview]) -> int:
        return os.write(descriptor, b"".join(parts)[:7])

    monkeypatch.setattr(os, "writev", reluctant)
    parts = [b"abcdefg", b"", bytearray(b"hij"), b"k" * 30, b"lm"]
    with (tmp_path / "file").open("wb") as file:
        write_all(file.fileno(), parts)
    assert (tmp_path / "file").read_bytes() == b"".join(parts)
