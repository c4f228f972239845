"""One attempt from its claim to its settlement: bring the input, run the child, publish, settle."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError
from structlog.contextvars import bound_contextvars

from pipelines.errors import PipelineError
from pipelines.live.stats import LiveStats
from pipelines.opening.beside import files_beside
from pipelines.result import Progress
from pipelines.spec import FileJob
from transcoder.attempts import settlement
from transcoder.attempts.course import Course, Courses
from transcoder.attempts.filework import Bench, Work, attempt_settings
from transcoder.attempts.retry import STOPPED, RetryPolicy
from transcoder.attempts.settlement import Cancelled, Completed, Failed, Good, Lost, Outcome, Ticket
from transcoder.attempts.stopping import pause, unless_stopped
from transcoder.children.executor import Executor
from transcoder.children.joblog import Line, LogLine, printable, stamp
from transcoder.children.watch import ChildEvent
from transcoder.clock import utc_now
from transcoder.database import Database, current_time
from transcoder.engine import DeviceState, Engine, Stop
from transcoder.errors import ServiceError
from transcoder.events import EventBus
from transcoder.gpus.quarantine import DeviceGuard
from transcoder.gpus.speeds import SpeedBook
from transcoder.ids import waited_seconds
from transcoder.inputs import Inputs
from transcoder.jobs import ErrorInfo, JobStatus
from transcoder.news import News
from transcoder.progress import Live, ProgressBoard
from transcoder.queueing.admission import Claim
from transcoder.receipts.notes import Hashing, Notes
from transcoder.reuse.roles import Follow
from transcoder.reuse.taking import Taking
from transcoder.settings import Settings
from transcoder.split import family
from transcoder.split.rules import split_settings
from transcoder.split.work import Splitter
from transcoder.storage import Storage
from transcoder.streams.runner import StreamRunner

SETTLE_PAUSE_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AttemptRunner:
    """Runs attempts. `run` raises nothing: whatever goes wrong ends in the attempt's row."""

    database: Database
    storage: Storage
    inputs: Inputs
    bench: Bench
    taking: Taking
    splitter: Splitter
    events: EventBus
    board: ProgressBoard
    news: News
    courses: Courses
    streams: StreamRunner
    engine: Callable[[], Engine]

    async def run(self, claim: Claim, stop: Stop) -> None:
        with bound_contextvars(job=claim.job_id, tenant=claim.tenant, attempt=claim.attempt, device=claim.device.id):
            await self._run(claim, stop)

    async def _run(self, claim: Claim, stop: Stop) -> None:
        started = time.monotonic()
        self.news.observer.attempt_started(claim.device.id)
        if claim.attempt == 1 and not claim.number:
            self.news.observer.job_started(str(claim.spec.get("queue", "default")), waited_seconds(claim.job_id))
        live = self.board.begin(claim.job_id, claim.task_id if claim.number else None)
        try:
            await self.news.job_changed(claim.job_id, claim.tenant, attempt=True)
            await self._note(claim, f"{_called(claim)} starts on {claim.device.id}")
            course, outcome = await self._outcome(claim, stop, live)
            await self._note(claim, f"{_called(claim)} {_described(outcome)}")
            if not _reused(outcome):
                outcome = await self.courses.end(claim, course, outcome, live.plan)
            # before another attempt can begin, and write into it
            await self.storage.keep_log(claim.job_id, claim.attempt)
            status = await self._settle(claim, course, outcome, live, stop)
            if status is None:
                # another attempt has the task now: what this one published is nobody's
                await self.storage.discard_attempt(claim.job_id, claim.attempt, claim.number)
            await self._of_family(claim, outcome, status)
        finally:
            self.board.end(live)
        self.news.observer.attempt_finished(
            claim.device.id, settlement.ATTEMPT_STATUS[type(outcome)], time.monotonic() - started
        )
        if not isinstance(outcome, Completed) or not outcome.joined:
            self.news.observer.frames_written(claim.device.id, live.progress.frames)
        tell = self.news.job_ended if status is not None and status.ended else self.news.job_changed
        await tell(claim.job_id, claim.tenant, attempt=True)

    async def _of_family(self, claim: Claim, outcome: Outcome, status: JobStatus | None) -> None:
        """What the end of an attempt is for the other tasks of a job in pieces, and for what they made."""
        if claim.number and isinstance(outcome, Failed) and status is JobStatus.RUNNING:
            try:
                async with self.database.read() as connection:
                    called_off = await family.is_called_off(connection, claim.job_id)
            except SQLAlchemyError:
                # the others end by themselves, and the job with the last one
                logger.warning("whether job %s goes on can't be read", claim.job_id, exc_info=True)
                return
            if called_off:
                await self.engine().call_off(claim.job_id)
        if not claim.number and claim.attempt > 1 and status is JobStatus.COMPLETED:
            await self.storage.pieces.delete_job(claim.job_id)

    async def _outcome(self, claim: Claim, stop: Stop, live: Live) -> tuple[Course, Outcome]:
        """What came of it. Scratch is gone by then, and without success so are the outputs."""
        course = Course()
        try:
            course = await self.courses.begin(claim)
            if claim.kind == "stream":
                return course, await self._stream(claim, course, stop, live)
            return course, await self._file(claim, course, stop, live)
        except PipelineError as error:
            failure = ErrorInfo.model_validate(error.to_json())
        except ServiceError as error:
            failure = ErrorInfo(
                code=error.code, message=error.message, stage=error.stage, retryable=error.retryable, facts=error.facts
            )
        except ValidationError as error:
            failure = ErrorInfo(code="internal", message=f"the stored job or its result is not understood: {error}")
        except Exception as error:
            logger.exception("attempt %d of job %s failed inside the service", claim.attempt, claim.job_id)
            failure = ErrorInfo(code="internal", message=f"{type(error).__name__}: {error}")
        await self.storage.discard_attempt(claim.job_id, claim.attempt, claim.number)
        if stop.reason in ("shutdown", "lost"):
            return course, Lost(STOPPED)
        failure = failure.model_copy(update={"device": failure.device or claim.device.id})
        return course, Cancelled(failure) if stop.reason == "cancel" else Failed(failure)

    async def _file(self, claim: Claim, course: Course, stop: Stop, live: Live) -> Good:
        spec = FileJob.model_validate(claim.spec)
        allowed_seconds = spec.timeout_seconds or self.bench.settings.timeout_seconds
        ends_at = time.monotonic() + allowed_seconds
        notes = Notes(claim, course.before)
        async with (
            self.storage.attempt_scratch(claim.job_id, claim.attempt, claim.number) as scratch,
            Hashing() as hashing,
        ):
            done = await self.taking.before(claim, spec)
            if done is not None:
                return done
            bring = self.inputs.bring_all(spec.all_inputs, claim.tenant, scratch, total_seconds=allowed_seconds)
            with notes.watch.stage("fetch"):
                source, *more = await unless_stopped(bring, stop)
                named = files_beside(spec)
                beside = self.inputs.with_beside(source, named, claim.tenant, scratch, total_seconds=allowed_seconds)
                source = await unless_stopped(beside, stop)
            source, done = await self.taking.after(claim, spec, source, stop)
            if done is not None:
                return done
            folder = scratch / "out"
            await asyncio.to_thread(folder.mkdir)
            hashing.begin(source, wanted=spec.receipt.source_hash and not claim.number)
            work = Work(
                *(claim, spec, course, stop, source, folder, allowed_seconds, ends_at, live, notes, hashing),
                hear=lambda event: self._hear(claim, live, event),
                note=lambda text: self._note(claim, text),
                more=tuple(more),
            )
            return await self.splitter.run(work)

    async def _stream(self, claim: Claim, course: Course, stop: Stop, live: Live) -> Completed:
        def show(stats: LiveStats) -> None:
            self.board.update(live, stats)
            self.events.publish(claim.job_id, "progress", live.stats)

        return await self.streams.run(claim, course, stop, lambda event: self._hear(claim, live, event), show)

    def _hear(self, claim: Claim, live: Live, event: ChildEvent) -> None:
        if event.kind == "progress":
            self.board.update(live, Progress.model_validate(event.data))
            if not claim.number:
                self.events.publish(claim.job_id, "progress", live.stats)
        elif event.kind == "plan":
            live.plan = event.data
        elif event.kind == "log":
            self.events.publish(claim.job_id, "log", event.data)

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
        ticket = Ticket(claim.job_id, claim.task_id, claim.attempt, claim.number)
        way = outcome.way if isinstance(outcome, Good) else None
        pauses = iter(SETTLE_PAUSE_SECONDS)
        while True:
            try:
                async with self.database.write() as connection:
                    return await settlement.settle(
                        connection,
                        ticket,
                        outcome,
                        self.bench.settings.retry,
                        await current_time(connection),
                        plan=live.plan,
                        stats=live.stats,
                        places=self.courses.places,
                        way=self.courses.way(claim, course, live.plan) or way,
                    )
            except SQLAlchemyError:
                logger.exception("attempt %d of job %s can't be settled", claim.attempt, claim.job_id)
            if stop.reason == "shutdown":
                # it stays running in the database, and is lost and queued again at the next start
                return None
            await pause(next(pauses, SETTLE_PAUSE_SECONDS[-1]), stop)


def runner_for(
    settings: Settings,
    retry: RetryPolicy,
    database: Database,
    storage: Storage,
    inputs: Inputs,
    executor: Executor,
    events: EventBus,
    board: ProgressBoard,
    news: News,
    guard: DeviceGuard,
    streams: StreamRunner,
    engine: Callable[[], Engine],
    speeds: SpeedBook,
) -> AttemptRunner:
    bench = Bench(storage, executor, attempt_settings(settings, retry), speeds)

    def states() -> Sequence[DeviceState]:
        return engine().devices()

    return AttemptRunner(
        database=database,
        storage=storage,
        inputs=inputs,
        bench=bench,
        taking=Taking(database, storage, inputs.uploads, settings.reuse),
        splitter=Splitter(database, bench, split_settings(settings), states),
        events=events,
        board=board,
        news=news,
        courses=Courses(database, guard, states),
        streams=streams,
        engine=engine,
    )


def _reused(outcome: Outcome) -> bool:
    """Whether the attempt did nothing that its device is to be judged by."""
    return isinstance(outcome, Follow) or (isinstance(outcome, Completed) and outcome.reused_from is not None)


def _called(claim: Claim) -> str:
    return f"attempt {claim.attempt} of piece {claim.number}" if claim.number else f"attempt {claim.attempt}"


def _described(outcome: Outcome) -> str:
    if isinstance(outcome, Good):
        return "completed" if outcome.way is None else f"completed: {outcome.way}"
    verb = settlement.ATTEMPT_STATUS[type(outcome)]
    return f"{verb} [{outcome.error.code}]: {outcome.error.message}"


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
