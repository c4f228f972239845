"""The data folder as the depot: on one machine, or on a file system that all nodes mount.

uploads/<id>                one file each
outputs/<job>/attempt-N/    appears whole, by one rename
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pipelines.errors import Cancelled
from transcoder.depot import Place, PublishedFile, StoredObject
from transcoder.disk import Fsync, fsync_folder, inside, publishing, remove, remove_empty, settle_file
from transcoder.jobs import OutputFile, Upload
from transcoder.uploads.sink import PART_SUFFIX

_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP)
"""What `link` says of file systems without links, and of files with too many."""


class FolderDepot:
    swept_from_afar = False

    def __init__(self, data_dir: Path, fsync: Fsync) -> None:
        self._uploads, self._outputs = data_dir / "uploads", data_dir / "outputs"
        self._fsync = fsync

    async def prepare(self) -> None:
        """The storage has made the folders."""

    async def close(self) -> None: ...

    def upload_path(self, upload_id: str) -> Path:
        return self._uploads / upload_id

    def output_folder(self, job_id: str, attempt: int) -> Path:
        return self._outputs / job_id / f"attempt-{attempt}"

    def output_path(self, job_id: str, attempt: int, path: str) -> Path:
        return self.output_folder(job_id, attempt) / path

    async def keep_upload(self, upload_id: str, file: Path) -> None:
        await asyncio.to_thread(self._move, file, self.upload_path(upload_id))

    def _move(self, file: Path, target: Path) -> None:
        try:
            file.rename(target)
        except FileNotFoundError:
            if not target.exists():
                raise
        fsync_folder(target.parent, self._fsync)

    async def holds_upload(self, upload_id: str, size: int) -> bool:
        path = self.upload_path(upload_id)
        return await asyncio.to_thread(lambda: path.is_file() and path.stat().st_size >= size)

    async def bring_upload(self, upload: Upload, scratch: Path) -> Path:
        path = self.upload_path(upload.id)
        if not await asyncio.to_thread(path.is_file):
            raise FileNotFoundError(path)
        return path

    async def delete_upload(self, upload_id: str) -> None:
        await asyncio.to_thread(remove, self.upload_path(upload_id))

    async def publish(
        self, place: Place, folder: Path, paths: Sequence[str], *, stopped: Callable[[], bool]
    ) -> tuple[PublishedFile, ...]:
        return await asyncio.to_thread(self._publish, place, folder, paths, stopped)

    def _publish(
        self, place: Place, folder: Path, paths: Sequence[str], stopped: Callable[[], bool]
    ) -> tuple[PublishedFile, ...]:
        with publishing():
            published = tuple(
                PublishedFile(path, *settle_file(inside(folder, path), self._fsync, stopped)) for path in paths
            )
            wanted = {folder / path for path in paths}
            for parent, _, names in os.walk(folder, topdown=False):
                for name in names:
                    if Path(parent, name) not in wanted:
                        Path(parent, name).unlink()
            if stopped():
                raise Cancelled("cancelled while publishing", stage="publish")
            self._appear(folder, place)
        return published

    def _appear(self, folder: Path, place: Place) -> None:
        """Moves the folder to where the attempt publishes, in one step."""
        for parent, _, _ in os.walk(folder, topdown=False):
            fsync_folder(Path(parent), self._fsync)
        target = self.output_folder(place.job_id, place.attempt)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        folder.rename(target)
        for changed in (target.parent, self._outputs):
            fsync_folder(changed, self._fsync)

    async def adopt(self, donor: Place, place: Place, files: Sequence[OutputFile]) -> None:
        await asyncio.to_thread(self._adopt, donor, place, files)

    def _adopt(self, donor: Place, place: Place, files: Sequence[OutputFile]) -> None:
        """By links: the same bytes, which stay when either job is deleted."""
        source = self.output_folder(donor.job_id, donor.attempt)
        making = self._outputs / place.job_id / f".adopting-{place.attempt}"
        try:
            for file in files:
                target = making / file.path
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._share(source / file.path, target)
                if target.stat().st_size != file.size:
                    raise FileNotFoundError(f"{file.path} of job {donor.job_id} is not what it was")
            self._appear(making, place)
        except BaseException:
            remove(making)
            remove_empty(making.parent)
            raise

    def _share(self, source: Path, target: Path) -> None:
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            shutil.copyfile(source, target, follow_symlinks=False)
            with target.open("rb") as copied:
                self._fsync(copied.fileno())

    async def output(self, place: Place, file: OutputFile) -> Path:
        return self.output_path(place.job_id, place.attempt, file.path)

    async def discard(self, place: Place) -> None:
        await asyncio.to_thread(self._discard, self.output_folder(place.job_id, place.attempt))

    def _discard(self, folder: Path) -> None:
        remove(folder)
        remove_empty(folder.parent)

    async def discard_attempts(self, job_id: str) -> None:
        await asyncio.to_thread(self._discard_attempts, self._outputs / job_id)

    def _discard_attempts(self, folder: Path) -> None:
        for attempt in (*folder.glob("attempt-*"), *folder.glob(".adopting-*")):
            remove(attempt)
        remove_empty(folder)

    async def keep_log(self, job_id: str, attempt: int, log: Path) -> None:
        """The log is where all nodes see it."""

    async def logs(self, job_id: str) -> Sequence[StoredObject]:
        return ()

    async def delete_job(self, job_id: str) -> None:
        await asyncio.to_thread(remove, self._outputs / job_id)

    async def stored_jobs(self) -> set[str]:
        return await asyncio.to_thread(lambda: {path.name for path in self._outputs.iterdir()})

    async def stored_uploads(self, before: datetime | None = None) -> set[str]:
        return await asyncio.to_thread(lambda: set(self._whole_uploads(before)))

    def _whole_uploads(self, before: datetime | None) -> Iterator[str]:
        for path in self._uploads.iterdir():
            kept = path.suffix != PART_SUFFIX
            if kept and (before is None or datetime.fromtimestamp(path.stat().st_mtime, UTC) < before):
                yield path.name

    async def stored_places(self) -> set[Place]:
        return await asyncio.to_thread(lambda: set(self._places()))

    def _places(self) -> Iterator[Place]:
        for path in self._outputs.glob("*/attempt-*"):
            yield Place(path.parent.name, int(path.name.removeprefix("attempt-")))
