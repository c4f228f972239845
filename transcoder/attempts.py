"""One attempt from its claim to its settlement: bring the input, run the child, publish, settle."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError
from structlog.contextvars import bound_contextvars

from pipelines.errors import Cancelled as CancelledError
from pipelines.errors import DeadlineExceeded, PipelineError
from pipelines.limits import Limits
from pipelines.live.stats import LiveStats
from pipelines.result import Progress, Result
from pipelines.spec import FileJob
from transcoder import settlement
from transcoder.admission import Claim
from transcoder.clock import utc_now
from transcoder.content_types import content_type
from transcoder.course import Course, Courses
from transcoder.database import Database, current_time
from transcoder.engine import Stop
from transcoder.errors import ServiceError
from transcoder.events import EventBus
from transcoder.executor import Executor
from transcoder.ids import waited_seconds
from transcoder.inputs import Inputs
from transcoder.joblog import Line, LogLine, printable, stamp
from transcoder.jobs import ErrorInfo, JobOutput, JobStatus, OutputFile
from transcoder.news import News
from transcoder.progress import Live, ProgressBoard
from transcoder.receipts.notes import Hashing, Notes
from transcoder.retry import STOPPED, RetryPolicy
from transcoder.settings import Settings
from transcoder.settlement import Cancelled, Completed, Failed, Lost, Outcome, Ticket
from transcoder.storage import PublishedFile, Storage
from transcoder.streams.runner import StreamRunner
from transcoder.watch import ChildEvent, ChildTask

T = TypeVar("T")

SETTLE_PAUSE_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)

logger = logging.getLogger(__name__)


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
class AttemptRunner:
    """Runs attempts. `run` raises nothing: whatever goes wrong ends in the attempt's row."""

    database: Database
    storage: Storage
    inputs: Inputs
    executor: Executor
    events: EventBus
    board: ProgressBoard
    news: News
    settings: AttemptSettings
    courses: Courses
    streams: StreamRunner

    async def run(self, claim: Claim, stop: Stop) -> None:
        with bound_contextvars(job=claim.job_id, tenant=claim.tenant, attempt=claim.attempt, device=claim.device.id):
            await self._run(claim, stop)

    async def _run(self, claim: Claim, stop: Stop) -> None:
        started = time.monotonic()
        self.news.observer.attempt_started(claim.device.id)
        if claim.attempt == 1:
            self.news.observer.job_started(str(claim.spec.get("queue", "default")), waited_seconds(claim.job_id))
        live = self.board.begin(claim.job_id)
        try:
            await self.news.job_changed(claim.job_id, claim.tenant, attempt=True)
            await self._note(claim, f"attempt {claim.attempt} starts on {claim.device.id}")
            course, outcome = await self._outcome(claim, stop, live)
            await self._note(claim, f"attempt {claim.attempt} {_described(outcome)}")
            if claim.kind != "stream":
                outcome = await self.courses.end(claim, course, outcome, live.plan)
            status = await self._settle(claim, course, outcome, live, stop)
            if status is None:
                # another attempt has the task now: what this one published is nobody's
                await self.storage.discard_outputs(claim.job_id, claim.attempt)
        finally:
            self.board.end(claim.job_id, live)
        self.news.observer.attempt_finished(
            claim.device.id, settlement.ATTEMPT_STATUS[type(outcome)], time.monotonic() - started
        )
        self.news.observer.frames_written(claim.device.id, live.progress.frames)
        tell = self.news.job_ended if status is not None and status.ended else self.news.job_changed
        await tell(claim.job_id, claim.tenant, attempt=True)

    async def _outcome(self, claim: Claim, stop: Stop, live: Live) -> tuple[Course, Outcome]:
        """What came of it. Scratch is gone by then, and without success so are the outputs."""
        course = Course()
        try:
            if claim.kind == "stream":
                return course, await self._stream(claim, stop, live)
            course = await self.courses.begin(claim)
            return course, await self._transcode(claim, course, stop, live)
        except PipelineError as error:
            failure = ErrorInfo.model_validate(error.to_json())
        except ServiceError as error:
            failure = ErrorInfo(
                code=error.code, message=error.message, stage="fetch", retryable=error.retryable, facts=error.facts
            )
        except ValidationError as error:
            failure = ErrorInfo(code="internal", message=f"the stored job or its result is not understood: {error}")
        except Exception as error:
            logger.exception("attempt %d of job %s failed inside the service", claim.attempt, claim.job_id)
            failure = ErrorInfo(code="internal", message=f"{type(error).__name__}: {error}")
        await self.storage.discard_outputs(claim.job_id, claim.attempt)
        if stop.reason in ("shutdown", "lost"):
            return course, Lost(STOPPED)
        failure = failure.model_copy(update={"device": failure.device or claim.device.id})
        return course, Cancelled(failure) if stop.reason == "cancel" else Failed(failure)

    async def _transcode(self, claim: Claim, course: Course, stop: Stop, live: Live) -> Completed:
        spec = FileJob.model_validate(claim.spec)
        allowed_seconds = spec.timeout_seconds or self.settings.timeout_seconds
        started = time.monotonic()
        notes = Notes(claim, course.before)
        async with self.storage.attempt_scratch(claim.job_id, claim.attempt) as scratch, Hashing() as hashing:
            bring = self.inputs.bring(spec.input, claim.tenant, scratch, total_seconds=allowed_seconds)
            with notes.watch.stage("fetch"):
                source = await _unless_stopped(bring, stop)
            remaining_seconds = allowed_seconds - (time.monotonic() - started)
            if remaining_seconds <= 0:
                raise DeadlineExceeded(f"not finished within {allowed_seconds:g} s", stage="fetch")
            folder = scratch / "out"
            await asyncio.to_thread(folder.mkdir)
            hashing.begin(source, wanted=spec.receipt.source_hash)
            result = await self.executor.execute(
                ChildTask(
                    op="run",
                    payload={
                        "path": str(source.path),
                        "name": source.name,
                        "spec": claim.spec,
                        "folder": str(folder),
                        "limits": self.settings.limits.model_dump(mode="json"),
                        "device": claim.device.model_dump(mode="json"),
                        "verdicts": [verdict.model_dump(mode="json") for verdict in course.verdicts],
                    },
                    deadline_seconds=remaining_seconds,
                    stall_seconds=self.settings.gpu_stall_seconds if course.gpu else self.settings.stall_seconds,
                    log_path=self.storage.log_path(claim.job_id),
                    readable=(source.path,),
                    writable=(folder,),
                    gpu=course.gpu,
                ),
                on_event=lambda event: self._hear(claim.job_id, live, event),
                cancel=stop.requested,
            )
            told = Result.model_validate(result)
            with notes.watch.stage("hash"):
                sha256 = await _unless_stopped(hashing.digest(), stop)
            with notes.watch.stage("publish"):
                published = await self._publish(claim, folder, told, stop)
            receipt = notes.receipt(live.plan, told, published, source, sha256)
            return Completed(_outputs(told, published), told.warnings, receipt)

    async def _stream(self, claim: Claim, stop: Stop, live: Live) -> Completed:
        def show(stats: LiveStats) -> None:
            self.board.update(live, stats)
            self.events.publish(claim.job_id, "progress", live.stats)

        return await self.streams.run(claim, stop, lambda event: self._hear(claim.job_id, live, event), show)

    async def _publish(self, claim: Claim, folder: Path, result: Result, stop: Stop) -> tuple[PublishedFile, ...]:
        paths = [path for output in result.outputs for path in output.all_files]
        return await self.storage.publish(claim.job_id, claim.attempt, folder, paths, stopped=stop.requested.is_set)

    def _hear(self, job_id: str, live: Live, event: ChildEvent) -> None:
        if event.kind == "progress":
            self.board.update(live, Progress.model_validate(event.data))
            self.events.publish(job_id, "progress", live.stats)
        elif event.kind == "plan":
            live.plan = event.data
        elif event.kind == "log":
            self.events.publish(job_id, "log", event.data)

    async def _note(self, claim: Claim, text: str) -> None:
        """A line of the service's own in the job's log."""
        line = LogLine(utc_now(), printable(Line(text.encode())))
        logger.info("%s", line.text)
        self.events.publish(claim.job_id, "log", {"time": stamp(line.time), "text": line.text})
        try:
            await asyncio.to_thread(_append, self.storage.log_path(claim.job_id), f"{line}\n")
        except OSError:
            logger.warning("the log of job %s can't be written", claim.job_id, exc_info=True)

    async def _settle(self, claim: Claim, course: Course, outcome: Outcome, live: Live, stop: Stop) -> JobStatus | None:
        """Settles; while the database can't take it, tries again until the service stops."""
        ticket = Ticket(claim.job_id, claim.task_id, claim.attempt)
        pauses = iter(SETTLE_PAUSE_SECONDS)
        while True:
            try:
                async with self.database.write() as connection:
                    return await settlement.settle(
                        connection,
                        ticket,
                        outcome,
                        self.settings.retry,
                        await current_time(connection),
                        plan=live.plan,
                        stats=live.stats,
                        places=self.courses.places,
                        way=self.courses.way(course, live.plan),
                    )
            except SQLAlchemyError:
                logger.exception("attempt %d of job %s can't be settled", claim.attempt, claim.job_id)
            if stop.reason == "shutdown":
                # it stays running in the database, and is lost and queued again at the next start
                return None
            await _pause(next(pauses, SETTLE_PAUSE_SECONDS[-1]), stop)


async def _unless_stopped(work: Coroutine[Any, Any, T], stop: Stop) -> T:
    """The result of `work`; Cancelled as soon as the attempt is to stop, with `work` ended."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.requested.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
    if working.cancelled():
        raise CancelledError("cancelled", stage="fetch")
    return working.result()


async def _pause(seconds: float, stop: Stop) -> None:
    if stop.reason is not None:
        await asyncio.sleep(seconds)
        return
    try:
        async with asyncio.timeout(seconds):
            await stop.requested.wait()
    except TimeoutError:
        return


def _described(outcome: Outcome) -> str:
    if isinstance(outcome, Completed):
        return "completed"
    verb = settlement.ATTEMPT_STATUS[type(outcome)]
    return f"{verb} [{outcome.error.code}]: {outcome.error.message}"


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


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
