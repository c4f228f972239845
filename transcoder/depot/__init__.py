"""Where what nodes share is kept: uploads that are whole, published outputs, logs of attempts that ended.

Two kinds: the data folder (`depot.folder`), and an S3-compatible bucket (`depot.bucket`). Scratch, uploads on their way
and what streams publish are the data folder's in both cases: see `transcoder.storage`.

What an attempt published is visible once the database says that the attempt completed, and only then. So a depot need
not publish in one step, and what lies there of other attempts is nobody's: it is discarded, or swept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from transcoder.jobs import OutputFile, Upload


@dataclass(frozen=True)
class PublishedFile:
    """`path` is relative to the job's output folder."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Place:
    """An attempt's outputs. Each has its own, so one that was taken for dead and comes back overwrites nothing."""

    job_id: str
    attempt: int


class StoredObject(Protocol):
    """A file that is not on this machine. Raises StorageUnavailable; FileNotFoundError when it is gone."""

    @property
    def size(self) -> int: ...

    async def open(self, first: int, last: int) -> AsyncIterator[bytes]:
        """Bytes from the `first` to the `last`; the answer has begun when this returns."""

    async def link(self, seconds: int) -> str:
        """An address that everyone can fetch it from for so long."""


StoredFile = Path | StoredObject


class Depot(Protocol):
    """Where files are kept. What it can't do for now raises StorageUnavailable, what it has no room for StorageFull."""

    swept_from_afar: bool
    """Whether strays are looked for while nodes work; else only by a service that has it for itself, at its start."""

    async def prepare(self) -> None: ...

    async def close(self) -> None: ...

    async def keep_upload(self, upload_id: str, file: Path) -> None:
        """Takes over a local file whose bytes are safe. Again does no harm, also when `file` is gone by then."""

    async def holds_upload(self, upload_id: str, size: int) -> bool: ...

    async def bring_upload(self, upload: Upload, scratch: Path) -> Path:
        """The upload as a local file, perhaps in `scratch`. FileNotFoundError, StorageDamaged."""

    async def delete_upload(self, upload_id: str) -> None: ...

    async def publish(
        self, place: Place, folder: Path, paths: Sequence[str], *, stopped: Callable[[], bool]
    ) -> tuple[PublishedFile, ...]:
        """Makes `paths` of `folder` durable; see `Storage.publish`."""

    async def adopt(self, donor: Place, place: Place, files: Sequence[OutputFile]) -> None:
        """Publishes what `donor` published once more. FileNotFoundError when it is not all there any more."""

    async def output(self, place: Place, file: OutputFile) -> StoredFile:
        """A published file. FileNotFoundError may be raised now or when it is opened."""

    async def discard(self, place: Place) -> None: ...

    async def discard_attempts(self, job_id: str) -> None:
        """What all attempts published; not what a stream did."""

    async def keep_log(self, job_id: str, attempt: int, log: Path) -> None:
        """Takes what an attempt wrote into the job's log here, where other nodes would not see it."""

    async def logs(self, job_id: str) -> Sequence[StoredObject]:
        """What `keep_log` took of a job's attempts, in order."""

    async def delete_job(self, job_id: str) -> None:
        """Outputs and logs."""

    async def stored_jobs(self) -> set[str]:
        """Ids of jobs that have something here."""

    async def stored_uploads(self, before: datetime | None = None) -> set[str]:
        """Ids of uploads that are whole; those kept earlier."""

    async def stored_places(self) -> set[Place]:
        """Where attempts have published something."""
