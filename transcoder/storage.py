"""The data folder: uploads, scratch of running attempts, published outputs, logs.

uploads/<id>                    one file each; <id>.part while it comes
partial/<id>                    resumable uploads that are not whole yet (see `transcoder.uploads.resumable`)
work/<job>/attempt-N/           scratch of an attempt: its input when fetched, and `out`; of node X in work/X/
work/<job>/piece-K-attempt-N/   the same of piece K
work/<id>/                      scratch of a probe
outputs/<job>/live/             what a stream publishes, while it runs
outputs/<job>/thumbnail-N.jpg   a small picture of what attempt N published, once somebody asked for it
outputs/<job>/attempt-N/        what attempt N published; counts once N has completed
pieces/                         see `transcoder.split.shelf`
logs/<job>.log

Whole uploads, what attempts published and logs are the depot's matter, which may be a bucket: see `transcoder.depot`.

Names on the disk are the service's own; what clients call their files is metadata.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiofiles

from transcoder.depot import Depot, Place, PublishedFile
from transcoder.depot.folder import FolderDepot
from transcoder.disk import Fsync, check_room, remove, remove_empty
from transcoder.ids import new_id
from transcoder.names import display_name
from transcoder.split.shelf import Shelf
from transcoder.uploads.sink import PART_SUFFIX, OnBytes, UploadSink, ignore

READ_BYTES = 256 * 1024


class Storage:
    """`node`: this one's name, where several share the folder. `depot`: the folder itself when not given.

    `fsync` is passed so that tests can let it fail.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        max_upload_bytes: int,
        min_free_bytes: int | None = None,
        node: str | None = None,
        fsync: Fsync = os.fsync,
        depot: Depot | None = None,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.depot = depot or FolderDepot(self.data_dir, fsync)
        self._node = node
        self._uploads = self.data_dir / "uploads"
        self._work = self.data_dir / "work" / (node or "")
        self._outputs = self.data_dir / "outputs"
        self._logs = self.data_dir / "logs"
        self._max_upload_bytes = max_upload_bytes
        self._min_free_bytes = min_free_bytes
        self._fsync = fsync
        self.pieces = Shelf(self.data_dir / "pieces", fsync)

    def prepare(self) -> None:
        """Makes the folders. Blocks."""
        for folder in (self._uploads, self._work, self._outputs, self._logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.pieces.prepare()

    def check_room(self) -> None:
        """OSError(ENOSPC) when an upload would take what the disk must keep free. Blocks."""
        check_room(self._uploads, self._min_free_bytes)

    def log_path(self, job_id: str) -> Path:
        return self._logs / f"{job_id}.log"

    @asynccontextmanager
    async def receive(self, name: str, on_bytes: OnBytes = ignore) -> AsyncGenerator[UploadSink, None]:
        """Takes an upload. Leaving without an error makes it durable and sets `sink.upload`; an error removes it.

        `on_bytes` is told of what comes, and may refuse it by raising.
        """
        sink = UploadSink(
            new_id(),
            display_name(name),
            self._uploads,
            max_bytes=self._max_upload_bytes,
            fsync=self._fsync,
            keep=self.depot.keep_upload,
            forget=self.depot.delete_upload,
            check_room=self.check_room,
            on_bytes=on_bytes,
        )
        try:
            yield sink
            await sink.finish()
        except BaseException:
            await sink.abandon()
            raise

    @asynccontextmanager
    async def attempt_scratch(self, job_id: str, attempt: int, piece: int = 0) -> AsyncGenerator[Path, None]:
        """The folder of an attempt; gone afterwards, whatever happened."""
        job_folder = self._work / job_id
        folder = job_folder / (f"piece-{piece}-attempt-{attempt}" if piece else f"attempt-{attempt}")
        try:
            async with _scratch(folder):
                yield folder
        finally:
            await asyncio.to_thread(remove_empty, job_folder)

    @asynccontextmanager
    async def scratch(self) -> AsyncGenerator[Path, None]:
        """A folder of its own for a short piece of work."""
        folder = self._work / new_id()
        async with _scratch(folder):
            yield folder

    async def publish(
        self, job_id: str, attempt: int, folder: Path, paths: Sequence[str], *, stopped: Callable[[], bool]
    ) -> tuple[PublishedFile, ...]:
        """Makes `paths` in `folder` durable where the attempt's outputs are.

        What no path names is not published. Any failure (a PipelineError of stage `publish`, or a ServiceError) leaves
        the job without a promise: the caller discards. Only after this returned may the job be called completed.
        """
        return await self.depot.publish(Place(job_id, attempt), folder, paths, stopped=stopped)

    async def discard_attempt(self, job_id: str, attempt: int, piece: int) -> None:
        """What one attempt made, of the job or of a piece, when it does not count."""
        if piece:
            await self.pieces.discard(job_id, piece, attempt)
        else:
            await self.discard_outputs(job_id, attempt)

    async def discard_outputs(self, job_id: str, attempt: int) -> None:
        """What one attempt published, when it does not count."""
        await self.depot.discard(Place(job_id, attempt))

    async def discard_job_outputs(self, job_id: str) -> None:
        """What all attempts published, of a job that nothing works on; not what a stream did."""
        await self.depot.discard_attempts(job_id)

    def thumbnail_path(self, job_id: str, attempt: int) -> Path:
        """The small picture of a job; of each attempt's outputs their own."""
        return self._outputs / job_id / f"thumbnail-{attempt}.jpg"

    def live_folder(self, job_id: str) -> Path:
        """What a stream publishes, whatever attempt it is in."""
        return self._outputs / job_id / "live"

    async def delete_job(self, job_id: str) -> None:
        """Removes all that a job has."""
        for path in (self.log_path(job_id), self._work / job_id, self._outputs / job_id):
            await asyncio.to_thread(remove, path)
        await self.pieces.delete_job(job_id)
        await self.depot.delete_job(job_id)

    async def keep_log(self, job_id: str, attempt: int) -> None:
        """Brings an attempt's part of the log to where all nodes see it."""
        if self._node is not None:
            await self.depot.keep_log(job_id, attempt, self.log_path(job_id))

    async def open_log(self, job_id: str) -> tuple[int, AsyncIterator[bytes]]:
        """The log so far, and its size: it may grow while it is read."""
        kept, path = await self.depot.logs(job_id), self.log_path(job_id)
        size = await asyncio.to_thread(_size, path)

        async def content() -> AsyncIterator[bytes]:
            for part in kept:
                async for chunk in await part.open(0, part.size - 1):
                    yield chunk
            async for chunk in _read(path, size):
                yield chunk

        return sum(part.size for part in kept) + size, content()

    async def delete_upload(self, upload_id: str) -> None:
        await self.depot.delete_upload(upload_id)

    def clear_scratch(self) -> None:
        """Removes scratch and half uploads of a service that died. Only before anything runs. Blocks."""
        halves = () if self._node else self._uploads.glob(f"*{PART_SUFFIX}")
        for path in (*self._work.iterdir(), *halves):
            remove(path)

    def jobs_here(self) -> set[str]:
        """Ids of jobs that have something in this folder. Blocks."""
        outputs = {path.name for path in self._outputs.iterdir()} | self.pieces.jobs()
        return outputs | {path.stem for path in self._logs.glob("*.log")}


@asynccontextmanager
async def _scratch(folder: Path) -> AsyncGenerator[None, None]:
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True)
    try:
        yield
    finally:
        await asyncio.to_thread(remove, folder)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


async def _read(path: Path, size: int) -> AsyncIterator[bytes]:
    """The first `size` bytes."""
    if size == 0:
        return
    async with aiofiles.open(path, "rb") as file:
        left = size
        while left and (chunk := await file.read(min(left, READ_BYTES))):
            left -= len(chunk)
            yield chunk
