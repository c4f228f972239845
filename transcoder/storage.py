"""The data folder: uploads, scratch of running attempts, published outputs, logs.

uploads/<id>                    one file each; <id>.part while it comes
partial/<id>                    resumable uploads that are not whole yet (see `transcoder.resumable`)
work/<job>/attempt-N/           scratch of an attempt: its input when fetched, and `out`; of node X in work/X/
work/<job>/piece-K-attempt-N/   the same of piece K
work/<id>/                      scratch of a probe
outputs/<job>/live/             what a stream publishes, while it runs
outputs/<job>/attempt-N/        what attempt N published; appears whole, by one rename, and counts once N has completed
pieces/                         see `transcoder.split.shelf`
logs/<job>.log

Names on the disk are the service's own; what clients call their files is metadata.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import Cancelled
from transcoder.disk import Fsync, check_room, fsync_folder, inside, publishing, remove, settle_file
from transcoder.ids import new_id
from transcoder.names import display_name
from transcoder.sink import PART_SUFFIX, OnBytes, UploadSink, ignore
from transcoder.split.shelf import Shelf


@dataclass(frozen=True)
class PublishedFile:
    """`path` is relative to the job's output folder."""

    path: str
    size: int
    sha256: str


class Storage:
    """`node`: this one's name, where several share the folder. `fsync` is passed so that tests can let it fail."""

    def __init__(
        self,
        data_dir: Path,
        *,
        max_upload_bytes: int,
        min_free_bytes: int | None = None,
        node: str | None = None,
        fsync: Fsync = os.fsync,
    ) -> None:
        self.data_dir = data_dir.absolute()
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

    def upload_path(self, upload_id: str) -> Path:
        return self._uploads / upload_id

    def log_path(self, job_id: str) -> Path:
        return self._logs / f"{job_id}.log"

    def output_folder(self, job_id: str, attempt: int) -> Path:
        """Each attempt has its own, so one that was taken for dead and comes back overwrites nothing."""
        return self._outputs / job_id / f"attempt-{attempt}"

    def output_path(self, job_id: str, attempt: int, path: str) -> Path:
        """Where a published file is. `path` must be one that the job lists, `attempt` the one that completed."""
        return self.output_folder(job_id, attempt) / path

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
            await asyncio.to_thread(_remove_empty, job_folder)

    @asynccontextmanager
    async def scratch(self) -> AsyncGenerator[Path, None]:
        """A folder of its own for a short piece of work."""
        folder = self._work / new_id()
        async with _scratch(folder):
            yield folder

    async def publish(
        self, job_id: str, attempt: int, folder: Path, paths: Sequence[str], *, stopped: Callable[[], bool]
    ) -> tuple[PublishedFile, ...]:
        """Makes `paths` in `folder` durable and moves the folder to the attempt's outputs in one step.

        What no path names is not published. Any failure (a PipelineError of stage `publish`) leaves the job without
        a promise: the caller discards. Only after this returned may the job be called completed.
        """
        return await asyncio.to_thread(self._publish, job_id, attempt, folder, paths, stopped)

    def _publish(
        self, job_id: str, attempt: int, folder: Path, paths: Sequence[str], stopped: Callable[[], bool]
    ) -> tuple[PublishedFile, ...]:
        with publishing():
            published = tuple(PublishedFile(path, *self._settle(inside(folder, path), stopped)) for path in paths)
            wanted = {folder / path for path in paths}
            for parent, _, names in os.walk(folder, topdown=False):
                for name in names:
                    if Path(parent, name) not in wanted:
                        Path(parent, name).unlink()
                fsync_folder(Path(parent), self._fsync)
            if stopped():
                raise Cancelled("cancelled while publishing", stage="publish")
            target = self.output_folder(job_id, attempt)
            target.parent.mkdir(mode=0o700, exist_ok=True)
            folder.rename(target)
            for changed in (target.parent, self._outputs):
                fsync_folder(changed, self._fsync)
        return published

    def _settle(self, path: Path, stopped: Callable[[], bool]) -> tuple[int, str]:
        return settle_file(path, self._fsync, stopped)

    async def discard_attempt(self, job_id: str, attempt: int, piece: int) -> None:
        """What one attempt made, of the job or of a piece, when it does not count."""
        if piece:
            await self.pieces.discard(job_id, piece, attempt)
        else:
            await self.discard_outputs(job_id, attempt)

    async def discard_outputs(self, job_id: str, attempt: int) -> None:
        """What one attempt published, when it does not count."""
        await asyncio.to_thread(self._discard, self.output_folder(job_id, attempt))

    async def discard_job_outputs(self, job_id: str) -> None:
        """What all attempts published, of a job that nothing works on; not what a stream did."""
        await asyncio.to_thread(self._discard_attempts, self._outputs / job_id)

    def _discard_attempts(self, folder: Path) -> None:
        for attempt in folder.glob("attempt-*"):
            remove(attempt)
        _remove_empty(folder)

    def live_folder(self, job_id: str) -> Path:
        """What a stream publishes, whatever attempt it is in."""
        return self._outputs / job_id / "live"

    def _discard(self, folder: Path) -> None:
        remove(folder)
        _remove_empty(folder.parent)

    async def delete_job(self, job_id: str) -> None:
        """Removes all that a job has on the disk."""
        for path in (self._outputs / job_id, self._work / job_id, self.log_path(job_id)):
            await asyncio.to_thread(remove, path)
        await self.pieces.delete_job(job_id)

    async def delete_upload(self, upload_id: str) -> None:
        await asyncio.to_thread(remove, self.upload_path(upload_id))

    def clear_scratch(self) -> None:
        """Removes scratch and half uploads of a service that died. Only before anything runs. Blocks."""
        halves = () if self._node else self._uploads.glob(f"*{PART_SUFFIX}")
        for path in (*self._work.iterdir(), *halves):
            remove(path)

    def stored_jobs(self) -> set[str]:
        """Ids of jobs that have outputs, pieces or a log. Blocks."""
        outputs = {path.name for path in self._outputs.iterdir()} | self.pieces.jobs()
        return outputs | {path.stem for path in self._logs.glob("*.log")}

    def stored_uploads(self) -> set[str]:
        """Ids of uploads that are whole. Blocks."""
        return {path.name for path in self._uploads.iterdir() if path.suffix != PART_SUFFIX}


@asynccontextmanager
async def _scratch(folder: Path) -> AsyncGenerator[None, None]:
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True)
    try:
        yield
    finally:
        await asyncio.to_thread(remove, folder)


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        # another attempt's scratch is in it, or it is gone
        return
