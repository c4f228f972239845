"""A bucket as the depot.

uploads/<id>                      one object each
outputs/<job>/attempt-N/<path>    counts once the database says that attempt N completed
logs/<job>/<attempt>.log

Nothing is renamed and nothing overwritten: an attempt's objects are its own, and the database's record makes them the
job's in one step. What attempts left that did not complete is discarded when they are settled, or found by the sweep.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TypeVar

import aiofiles

from pipelines.errors import Cancelled
from transcoder.content_types import content_type
from transcoder.depot import Place, PublishedFile
from transcoder.depot.objects import READ_PATIENCE_SECONDS, Objects
from transcoder.disk import inside, publishing, remove, settle_file
from transcoder.errors import ServiceError, StorageDamaged, StorageUnavailable
from transcoder.jobs import OutputFile, Upload
from transcoder.uploads.pieces import room

FILES_AT_ONCE = 6
UPLOAD_PATIENCE_SECONDS = 15.0
"""How long a client that has sent everything waits for the store."""
LOG_PATIENCE_SECONDS = 2.0
LOOK_SECONDS = 0.25

T = TypeVar("T")
R = TypeVar("R")

_PLACE = re.compile(r"outputs/([^/]+)/attempt-([0-9]{1,9})/")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BucketObject:
    """A file in the bucket."""

    objects: Objects
    key: str
    size: int

    async def open(self, first: int, last: int) -> AsyncIterator[bytes]:
        return await self.objects.read(self.key, first, last, READ_PATIENCE_SECONDS)

    async def link(self, seconds: int) -> str:
        return await self.objects.link(self.key, seconds)


class BucketDepot:
    swept_from_afar = True

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def prepare(self) -> None:
        """StorageRefused when it will never work. One that is away may come back."""
        try:
            await self._objects.check()
        except StorageUnavailable as error:
            logger.warning("%s", error.message)

    async def close(self) -> None:
        await self._objects.close()

    async def keep_upload(self, upload_id: str, file: Path) -> None:
        try:
            await self._objects.put(f"uploads/{upload_id}", file, patience=UPLOAD_PATIENCE_SECONDS)
        except FileNotFoundError:
            if await self._objects.size(f"uploads/{upload_id}") is None:
                raise
        await asyncio.to_thread(remove, file)

    async def holds_upload(self, upload_id: str, size: int) -> bool:
        found = await self._objects.size(f"uploads/{upload_id}")
        return found is not None and found >= size

    async def bring_upload(self, upload: Upload, scratch: Path) -> Path:
        """Downloaded, and compared with what was uploaded."""
        target = scratch / "input"
        digest, size = hashlib.sha256(), 0
        with room():
            async with aiofiles.open(target, "xb") as file:
                async for chunk in await self._objects.read(f"uploads/{upload.id}", 0, upload.size - 1):
                    await asyncio.to_thread(digest.update, chunk)
                    size += len(chunk)
                    await file.write(chunk)
        if (size, digest.hexdigest()) != (upload.size, upload.sha256):
            raise StorageDamaged("the store has other bytes than were uploaded", retryable=True, upload=upload.id)
        return target

    async def delete_upload(self, upload_id: str) -> None:
        await self._objects.discard([f"uploads/{upload_id}"])

    async def publish(
        self, place: Place, folder: Path, paths: Sequence[str], *, stopped: Callable[[], bool]
    ) -> tuple[PublishedFile, ...]:
        async def send(path: str) -> PublishedFile:
            file = await asyncio.to_thread(_settled, folder, path, stopped)
            key, kind = f"{_prefix(place)}{path}", content_type(path)
            await self._objects.put(key, folder / path, content_type=kind, patience=self._objects.patience_seconds)
            return file

        try:
            return await _each(paths, send, stopped)
        except ServiceError as error:
            error.stage = "publish"
            raise

    async def adopt(self, donor: Place, place: Place, files: Sequence[OutputFile]) -> None:
        async def copy(file: OutputFile) -> None:
            source, target = f"{_prefix(donor)}{file.path}", f"{_prefix(place)}{file.path}"
            await self._objects.copy(source, target, size=file.size, content_type=file.content_type)

        await _each(files, copy, lambda: False)

    async def output(self, place: Place, file: OutputFile) -> BucketObject:
        return BucketObject(self._objects, f"{_prefix(place)}{file.path}", file.size)

    async def discard(self, place: Place) -> None:
        await self._objects.discard_under(_prefix(place))

    async def discard_attempts(self, job_id: str) -> None:
        await self._objects.discard_under(f"outputs/{job_id}/")

    async def keep_log(self, job_id: str, attempt: int, log: Path) -> None:
        try:
            content = await asyncio.to_thread(log.read_bytes)
            key = f"logs/{job_id}/{attempt:06}.log"
            await self._objects.put(key, content, content_type="text/plain", patience=LOG_PATIENCE_SECONDS)
        except FileNotFoundError:
            return
        except ServiceError as error:
            # it stays on this node
            logger.warning("the log of job %s can't be kept: %s", job_id, error.message)
            return
        await asyncio.to_thread(remove, log)

    async def logs(self, job_id: str) -> Sequence[BucketObject]:
        found = await self._objects.list(f"logs/{job_id}/")
        return [BucketObject(self._objects, str(entry["path"]), int(entry["size"])) for entry in found]

    async def delete_job(self, job_id: str) -> None:
        for kind in ("outputs", "logs"):
            await self._objects.discard_under(f"{kind}/{job_id}/")

    async def stored_jobs(self) -> set[str]:
        found = [entry for kind in ("outputs/", "logs/") for entry in await self._objects.list(kind)]
        return {parts[1] for parts in map(_parts, found) if len(parts) > 2}

    async def stored_uploads(self, before: datetime | None = None) -> set[str]:
        kept = await self._objects.list("uploads/")
        return {_parts(entry)[1] for entry in kept if before is None or entry["last_modified"] < before}

    async def stored_places(self) -> set[Place]:
        paths = (_PLACE.match(str(entry["path"])) for entry in await self._objects.list("outputs/"))
        return {Place(match[1], int(match[2])) for match in paths if match is not None}


def _prefix(place: Place) -> str:
    return f"outputs/{place.job_id}/attempt-{place.attempt}/"


def _parts(entry: dict[str, object]) -> tuple[str, ...]:
    return PurePosixPath(str(entry["path"])).parts


def _settled(folder: Path, path: str, stopped: Callable[[], bool]) -> PublishedFile:
    with publishing():
        # nothing has to be safe on this disk: scratch is removed in a moment
        return PublishedFile(path, *settle_file(inside(folder, path), lambda _: None, stopped))


async def _each(items: Sequence[T], work: Callable[[T], Awaitable[R]], stopped: Callable[[], bool]) -> tuple[R, ...]:
    """`work` on all, a few at a time. The first error ends the others; so does Cancelled, soon after `stopped`."""
    turns = asyncio.Semaphore(FILES_AT_ONCE)

    async def one(item: T) -> R:
        async with turns:
            return await work(item)

    doing = [asyncio.create_task(one(item)) for item in items]
    left = set(doing)
    try:
        while left:
            done, left = await asyncio.wait(left, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
            if left and stopped():
                raise Cancelled("cancelled while publishing", stage="publish")
        return tuple(task.result() for task in doing)
    finally:
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
