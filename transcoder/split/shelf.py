"""Finished pieces on the disk, where all nodes find them.

pieces/<job>/<number>-<attempt>/     what an attempt made of a piece; appears whole, by one rename
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pipelines.errors import Cancelled
from pipelines.stitch.packets import size_of
from pipelines.stitch.piece import FILE_NAME
from transcoder.disk import Fsync, fsync_folder, inside, publishing, remove, remove_empty, settle_file
from transcoder.split.values import Piece


class Shelf:
    def __init__(self, folder: Path, fsync: Fsync = os.fsync) -> None:
        self._folder, self._fsync = folder, fsync

    def prepare(self) -> None:
        """Makes the folder. Blocks."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def job_folder(self, job_id: str) -> Path:
        return self._folder / job_id

    def path(self, job_id: str, number: int, attempt: int) -> Path:
        return self._place(job_id, number, attempt) / FILE_NAME

    def _place(self, job_id: str, number: int, attempt: int) -> Path:
        return self.job_folder(job_id) / f"{number}-{attempt}"

    async def publish(
        self, job_id: str, number: int, attempt: int, folder: Path, *, stopped: Callable[[], bool]
    ) -> None:
        """Makes the piece in `folder` durable and moves it to its place in one step. Errors as of `Storage.publish`."""
        await asyncio.to_thread(self._publish, self._place(job_id, number, attempt), folder, stopped)

    def _publish(self, target: Path, folder: Path, stopped: Callable[[], bool]) -> None:
        with publishing():
            settle_file(inside(folder, FILE_NAME), self._fsync, stopped)
            fsync_folder(folder, self._fsync)
            if stopped():
                raise Cancelled("cancelled while publishing", stage="publish")
            target.parent.mkdir(mode=0o700, exist_ok=True)
            folder.rename(target)
            for changed in (target.parent, self._folder):
                fsync_folder(changed, self._fsync)

    def missing(self, job_id: str, pieces: Sequence[Piece]) -> Piece | None:
        """The first piece that is not there as it was made. Blocks."""
        for piece in pieces:
            if piece.result is None or piece.attempt is None:
                return piece
            path = self.path(job_id, piece.number, piece.attempt)
            if not path.is_file() or path.stat().st_size != size_of(piece.result.packets, piece.result.bytes):
                return piece
        return None

    async def discard(self, job_id: str, number: int, attempt: int) -> None:
        """What one attempt made, when it does not count."""
        await asyncio.to_thread(self._discard, self._place(job_id, number, attempt))

    def _discard(self, place: Path) -> None:
        remove(place)
        # a job that has ended meanwhile may have been there before
        remove_empty(place.parent)

    async def delete_job(self, job_id: str) -> None:
        await asyncio.to_thread(remove, self.job_folder(job_id))

    def jobs(self) -> set[str]:
        """Ids of jobs that have pieces. Blocks."""
        return {path.name for path in self._folder.iterdir()}
