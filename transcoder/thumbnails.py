"""A small picture of a job for lists: made once, when it is first asked for, in a child; then kept with its outputs."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from weakref import WeakValueDictionary

import aiofiles

from pipelines.errors import PipelineError
from pipelines.limits import Limits
from transcoder.children.executor import Executor
from transcoder.children.watch import ChildTask
from transcoder.depot import Place
from transcoder.depot.folder import FolderDepot
from transcoder.errors import InputNotFound, InputUploadNotFound, PathNotAllowed, ThumbnailNotFound
from transcoder.inputs import Inputs
from transcoder.jobs import Job, OutputFile
from transcoder.storage import Storage

WIDTH, HEIGHT = 320, 180
FILE_NAME = "thumbnail.jpg"
AT_ONCE = 2
PICTURES = (".mp4", ".mov", ".mkv", ".webm", ".ts", ".jpg", ".webp", ".gif")
STILLS = (".jpg", ".webp")
SEGMENTS = (".m4s", ".ts")
MOST_FETCHED_BYTES = 64 << 20
"""Of a file that lies in a bucket: for a thumbnail larger ones are not fetched."""
SOUNDS = (".m4a", ".mp3", ".opus", ".flac")
"""Which may hold a cover picture."""
NOTHING_TO_SEE = frozenset({"unsupported", "bad_input", "truncated", "no_frames", "encoder_rejected"})
"""Codes that the next try would end with as well."""


@dataclass(frozen=True)
class Thumbnails:
    """At most AT_ONCE are made at a time, and each once."""

    storage: Storage
    inputs: Inputs
    executor: Executor
    limits: Limits
    timeout_seconds: float
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _making: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def path(self, job: Job, tenant: str) -> Path:
        """Where the picture is. ThumbnailNotFound where there is none; errors of the attempt to make it."""
        if job.kind != "file" or job.status != "completed":
            raise ThumbnailNotFound(f"there is a picture of completed file jobs: this one is {job.status}")
        kept = self.storage.thumbnail_path(job.id, job.published_attempt)
        lock = self._making.setdefault(job.id, asyncio.Lock())
        async with lock:
            size = await asyncio.to_thread(_size, kept)
            if size is None:
                async with self._turns:
                    size = await self._make(job, tenant, kept)
        if size == 0:
            raise ThumbnailNotFound("there is nothing to see in this job's files")
        return kept

    async def _make(self, job: Job, tenant: str, kept: Path) -> int:
        """Makes it and gives its size; 0 is kept too, for a job that has nothing to show."""
        async with self.storage.scratch() as scratch:
            made = scratch / FILE_NAME
            async with aclosing(self._sources(job, tenant, scratch)) as sources:
                async for source in sources:
                    try:
                        await self._glimpse(source, scratch)
                        break
                    except PipelineError as error:
                        if error.code not in NOTHING_TO_SEE:
                            raise
            return await asyncio.to_thread(_keep, made, kept)

    async def _glimpse(self, source: Path, scratch: Path) -> None:
        payload = {
            "path": str(source),
            "name": source.name,
            "limits": self.limits.model_dump(mode="json"),
            "folder": str(scratch),
            "width": WIDTH,
            "height": HEIGHT,
        }
        await self.executor.execute(
            ChildTask(
                op="glimpse",
                payload=payload,
                deadline_seconds=self.timeout_seconds,
                readable=(source,),
                writable=(scratch,),
            )
        )

    async def _sources(self, job: Job, tenant: str, scratch: Path) -> AsyncGenerator[Path, None]:
        """Files that may show what the job is about, the best first."""
        files = [file for output in job.outputs for file in output.files]
        singles = [file for file in files if "/" not in file.path]
        groups = (
            [file for file in singles if _suffix(file) in PICTURES],
            [file for file in files if "/" in file.path and _suffix(file) in STILLS][:1],
        )
        for file in (file for group in groups for file in group):
            if (found := await self._here(job, file, scratch)) is not None:
                yield found
        if (segment := await self._segment(job, files, scratch)) is not None:
            yield segment
        if (source := await self._own_input(job, tenant, scratch)) is not None:
            yield source
        for file in [file for file in singles if _suffix(file) in SOUNDS]:
            if (found := await self._here(job, file, scratch)) is not None:
                yield found

    async def _here(self, job: Job, file: OutputFile, scratch: Path) -> Path | None:
        """A published file on this machine; what is in a bucket comes to `scratch`, unless it is large. None: gone."""
        try:
            stored = await self.storage.depot.output(Place(job.id, job.published_attempt), file)
        except FileNotFoundError:
            return None
        if isinstance(stored, Path):
            return stored if await asyncio.to_thread(stored.is_file) else None
        if not 0 < file.size <= MOST_FETCHED_BYTES:
            return None
        target = scratch / f"output{_suffix(file)}"
        try:
            async with aiofiles.open(target, "wb") as copy:
                async for chunk in await stored.open(0, file.size - 1):
                    await copy.write(chunk)
        except FileNotFoundError:
            return None
        return target

    async def _segment(self, job: Job, files: Sequence[OutputFile], scratch: Path) -> Path | None:
        """A segment from the middle of a ladder's first rung, behind its header."""
        spec = job.spec.outputs or () if job.spec.kind == "file" else ()
        if any(getattr(output, "encryption", None) is not None for output in spec):
            return None
        parts = [file for file in files if _suffix(file) in SEGMENTS and "/" in file.path]
        if not parts:
            return None
        folder = parts[0].path.rpartition("/")[0]
        rung = [file for file in parts if file.path.rpartition("/")[0] == folder]
        middle = await self._here(job, rung[len(rung) // 2], scratch)
        if middle is None or middle.suffix == ".ts":
            return middle
        named = next((file for file in files if file.path == f"{folder}/init.mp4"), None)
        header = None if named is None else await self._here(job, named, scratch)
        return None if header is None else await asyncio.to_thread(_joined, (header, middle), scratch / "segment.mp4")

    async def _own_input(self, job: Job, tenant: str, scratch: Path) -> Path | None:
        """The job's input where it still lies here; nothing is fetched for a thumbnail."""
        if job.spec.kind != "file" or job.spec.input.url is not None:
            return None
        if job.spec.input.upload is not None and not isinstance(self.storage.depot, FolderDepot):
            return None
        try:
            found = await self.inputs.bring(job.spec.input, tenant, scratch, total_seconds=self.timeout_seconds)
        except (InputNotFound, InputUploadNotFound, PathNotAllowed):
            return None
        return found.path


def _suffix(file: OutputFile) -> str:
    return PurePosixPath(file.path).suffix


def _joined(parts: Sequence[Path], target: Path) -> Path:
    with target.open("wb") as joined:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, joined)
    return target


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _keep(made: Path, kept: Path) -> int:
    """Moves it to where it stays, in one step. Not made durable: what is lost is made again."""
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not made.exists():
        made.touch(mode=0o600)
    size = made.stat().st_size
    os.replace(made, kept)
    return size
