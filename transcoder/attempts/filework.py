"""What attempts of file jobs have in common: their child, and what they publish."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from pipelines.errors import DeadlineExceeded
from pipelines.limits import Limits
from pipelines.result import Result
from pipelines.spec import FileJob
from transcoder.attempts.course import Course
from transcoder.attempts.retry import RetryPolicy
from transcoder.attempts.settlement import Completed
from transcoder.attempts.stopping import unless_stopped
from transcoder.children.executor import Executor
from transcoder.children.watch import ChildEvent, ChildTask, Op
from transcoder.content_types import content_type
from transcoder.depot import PublishedFile
from transcoder.engine import Stop
from transcoder.gpus.speeds import SpeedBook
from transcoder.inputs import LocalInput, more_payload
from transcoder.jobs import JobOutput, OutputFile
from transcoder.progress import Live
from transcoder.queueing.admission import Claim
from transcoder.receipts.notes import Hashing, Notes
from transcoder.settings import Settings
from transcoder.storage import Storage


@dataclass(frozen=True)
class AttemptSettings:
    limits: Limits
    retry: RetryPolicy
    timeout_seconds: float
    """Deadline where the job names none."""
    stall_seconds: float
    gpu_stall_seconds: float
    """The same for what runs on a GPU: a driver that hangs holds its slot for as long."""


def attempt_settings(settings: Settings, retry: RetryPolicy) -> AttemptSettings:
    return AttemptSettings(
        limits=settings.limits,
        retry=retry,
        timeout_seconds=settings.attempt_timeout_seconds,
        stall_seconds=settings.stall_seconds,
        gpu_stall_seconds=min(settings.stall_seconds, settings.gpu_stall_seconds),
    )


@dataclass(frozen=True)
class Work:
    """An attempt whose input is here. `folder` is there for its outputs, `ends_at` on the monotonic clock."""

    claim: Claim
    spec: FileJob
    course: Course
    stop: Stop
    source: LocalInput
    folder: Path
    allowed_seconds: float
    ends_at: float
    live: Live
    notes: Notes
    hashing: Hashing
    hear: Callable[[ChildEvent], None]
    note: Callable[[str], Awaitable[None]]
    """Puts a line into the job's log."""
    more: tuple[LocalInput, ...] = ()
    """The inputs after the first, of a job that joins several."""

    @property
    def remaining_seconds(self) -> float:
        """DeadlineExceeded when there are none."""
        remaining = self.ends_at - time.monotonic()
        if remaining <= 0:
            raise DeadlineExceeded(f"not finished within {self.allowed_seconds:g} s", stage="fetch")
        return remaining

    def told_by(self, hear: Callable[[ChildEvent], None]) -> Work:
        return replace(self, hear=hear)

    def into(self, folder: Path) -> Work:
        return replace(self, folder=folder)


@dataclass(frozen=True)
class Bench:
    storage: Storage
    executor: Executor
    settings: AttemptSettings
    speeds: SpeedBook

    async def whole(self, work: Work, way: str | None = None) -> Completed:
        """The job in one. `way`: why, where that is to be said."""
        return await self.publish(work, await self.child(work, "run"), way)

    async def child(
        self, work: Work, op: Op, more: dict[str, Any] | None = None, readable: tuple[Path, ...] = ()
    ) -> dict[str, Any]:
        """The result of an operation on the input. `more`: what it takes besides."""
        claim, course, settings = work.claim, work.course, self.settings
        return await self.executor.execute(
            ChildTask(
                op=op,
                payload={
                    "path": str(work.source.path),
                    "name": work.source.name,
                    "beside": {key: str(path) for key, path in work.source.beside.items()},
                    "spec": claim.spec,
                    "folder": str(work.folder),
                    "limits": settings.limits.model_dump(mode="json"),
                    "device": claim.device.model_dump(mode="json"),
                    "verdicts": [verdict.model_dump(mode="json") for verdict in course.verdicts],
                    "pace": self.speeds.pace(claim.device).model_dump(mode="json"),
                    **more_payload(work.more),
                    **(more or {}),
                },
                deadline_seconds=work.remaining_seconds,
                stall_seconds=settings.gpu_stall_seconds if course.gpu else settings.stall_seconds,
                log_path=self.storage.log_path(claim.job_id),
                readable=(
                    work.source.path,
                    *work.source.beside.values(),
                    *(each.path for each in work.more),
                    *readable,
                ),
                writable=(work.folder,),
                gpu=course.gpu,
            ),
            on_event=work.hear,
            cancel=work.stop.requested,
        )

    async def publish(
        self, work: Work, told: dict[str, Any], way: str | None = None, *, joined: bool = False
    ) -> Completed:
        """Publishes what a child says that it made."""
        result = Result.model_validate(told)
        paths = [path for output in result.outputs for path in output.all_files]
        with work.notes.watch.stage("hash"):
            sha256 = await unless_stopped(work.hashing.digest(), work.stop)
        with work.notes.watch.stage("publish"):
            published = await self.storage.publish(
                work.claim.job_id, work.claim.attempt, work.folder, paths, stopped=work.stop.requested.is_set
            )
        if not joined:
            await self.speeds.learn(work.claim.device.id, work.live.plan, result)
        receipt = work.notes.receipt(work.live.plan, result, published, work.source, sha256)
        return Completed(_outputs(result, published), result.warnings, receipt, way, joined)


def _outputs(result: Result, published: Sequence[PublishedFile]) -> tuple[JobOutput, ...]:
    files = iter(published)
    return tuple(
        JobOutput(
            name=output.name,
            type=output.type,
            files=tuple(_output_file(file) for file in islice(files, len(output.all_files))),
        )
        for output in result.outputs
    )


def _output_file(file: PublishedFile) -> OutputFile:
    return OutputFile(path=file.path, size=file.size, content_type=content_type(file.path), sha256=file.sha256)
