"""One attempt of a stream: its process, its connections, and what ends it."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pipelines.asked.streams import StreamJob
from pipelines.errors import Cancelled, PipelineError
from pipelines.limits import Limits
from pipelines.live.link import INPUT, INPUT_IN_DATAGRAMS
from pipelines.live.stats import LiveStats, StreamResult
from pipelines.result import Warning
from transcoder.attempts.course import Course
from transcoder.attempts.settlement import Completed
from transcoder.children.executor import Executor
from transcoder.children.watch import ChildEvent, ChildTask
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.engine import Stop
from transcoder.queueing.admission import Claim
from transcoder.storage import Storage
from transcoder.store import JobStore
from transcoder.streams.broker import Broker
from transcoder.streams.dial import Dialer
from transcoder.streams.files import published
from transcoder.streams.listening import Listener, Ports
from transcoder.streams.relay import Handover
from transcoder.streams.secrets import StreamSecrets, read_secrets
from transcoder.streams.urls import parse_stream_url

STALL_SECONDS = 30.0
"""Without a report, of which there is one each second whatever the source does."""
FINISH_SECONDS = 20.0
SUSPEND_SECONDS = 8.0
LOOK_SECONDS = 5.0
"""How often other processes' wishes are looked for."""

logger = logging.getLogger(__name__)

Tell = Callable[[ChildEvent], None]


@dataclass
class _Running:
    """What reaches a stream that runs here."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class StreamRunner:
    database: Database
    store: JobStore
    storage: Storage
    executor: Executor
    dialer: Dialer
    ports: Ports
    limits: Limits
    gpu_stall_seconds: float
    _running: dict[str, _Running] = field(default_factory=dict)

    def stop(self, job_id: str) -> bool:
        """Asks a stream that runs in this process to end in order; whether there is one."""
        running = self._running.get(job_id)
        if running is not None:
            running.stop.set()
        return running is not None

    async def run(
        self, claim: Claim, course: Course, stop: Stop, tell: Tell, show: Callable[[LiveStats], None]
    ) -> Completed:
        """Until the stream is stopped or has ended. Cancelled when the attempt is to end otherwise; PipelineError."""
        job = StreamJob.model_validate(claim.spec)
        async with self.database.read() as connection:
            secrets = await read_secrets(connection, claim.job_id)
        folder = self.storage.live_folder(claim.job_id)
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        listener = None if job.input.listen is None else Listener(self.ports, job.input.listen, secrets)
        running = self._running[claim.job_id] = _Running()
        try:
            if listener is not None:
                listener.open()
            result = await self._supervised(claim, course, job, secrets, listener, running, stop, tell, show)
        finally:
            self._running.pop(claim.job_id, None)
            if listener is not None:
                listener.close()
        if result is not None and result.reason == "suspended":
            raise Cancelled("suspended with the service", stage="stream")
        outputs = await asyncio.to_thread(published, folder, job)
        return Completed(outputs, _warnings(result))

    async def _supervised(
        self, claim: Claim, course: Course, job: StreamJob, secrets: StreamSecrets, listener: Listener | None,
        running: _Running, stop: Stop, tell: Tell, show: Callable[[LiveStats], None],
    ) -> StreamResult | None:  # fmt: skip
        """The process's result; None when it was asked to end in order and had to be ended."""
        connect = _Connections(self.dialer, job, secrets, listener)
        patient = frozenset({"input"}) if listener is not None else frozenset[str]()
        kill = asyncio.Event()
        ends_at = await self._ends_at(claim, job)
        async with Broker(connect.by_name, patient) as broker:
            watching = asyncio.create_task(self._watch(claim, broker, running, stop, kill, ends_at))
            try:
                told = await self.executor.execute(
                    self._task(claim, course, job, broker),
                    on_event=lambda event: _hear(event, tell, show, listener),
                    cancel=kill,
                )
            except Cancelled:
                if stop.reason is None:
                    logger.warning("stream %s did not end in time and was ended", claim.job_id)
                    return None
                raise
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        return StreamResult.model_validate(told)

    def _task(self, claim: Claim, course: Course, job: StreamJob, broker: Broker) -> ChildTask:
        folder = self.storage.live_folder(claim.job_id)
        return ChildTask(
            op="stream",
            payload={
                "spec": claim.spec,
                "folder": str(folder),
                "limits": self.limits.model_dump(mode="json"),
                "device": claim.device.model_dump(mode="json"),
                "verdicts": [verdict.model_dump(mode="json") for verdict in course.verdicts],
                "gpu_stall_seconds": self.gpu_stall_seconds,
            },
            deadline_seconds=math.inf,
            stall_seconds=STALL_SECONDS,
            log_path=self.storage.log_path(claim.job_id),
            writable=(folder,),
            gpu=course.gpu,
            link_fd=broker.theirs.fileno(),
            loopback=needs_loopback(job),
        )

    async def _ends_at(self, claim: Claim, job: StreamJob) -> datetime | None:
        """By its schedule and its longest duration, which counts from the first attempt's start."""
        ends = [job.stop_at] if job.stop_at is not None else []
        if job.max_duration_seconds is not None:
            begun = (await self.store.get(claim.job_id, claim.tenant)).started_at or utc_now()
            ends.append(begun + timedelta(seconds=job.max_duration_seconds))
        return min(ends, default=None)

    async def _watch(
        self, claim: Claim, broker: Broker, running: _Running, stop: Stop, kill: asyncio.Event, ends_at: datetime | None
    ) -> None:
        """Waits for what ends the stream, tells its process, and has it killed when it does not end by itself."""
        while not (stop.requested.is_set() or running.stop.is_set()):
            left = math.inf if ends_at is None else (ends_at - utc_now()).total_seconds()
            if left <= 0:
                break
            await _first(stop.requested, running.stop, seconds=min(left, LOOK_SECONDS))
            if not self.database.is_sqlite:
                # another node may have been told
                spec = (await self.store.get(claim.job_id, claim.tenant)).spec
                ends_at = spec.stop_at if isinstance(spec, StreamJob) and spec.stop_at else ends_at
        if stop.reason in ("cancel", "lost"):
            kill.set()
        elif stop.reason == "shutdown":
            broker.stop("suspended")
            await asyncio.sleep(SUSPEND_SECONDS)
        else:
            broker.stop("stopped")
            await _first(stop.requested, seconds=FINISH_SECONDS)
        kill.set()


class _Connections:
    """What a stream's process may ask for, by name."""

    def __init__(self, dialer: Dialer, job: StreamJob, secrets: StreamSecrets, listener: Listener | None) -> None:
        self._dialer, self._job, self._secrets, self._listener = dialer, job, secrets, listener

    async def by_name(self, name: str, about: str) -> Handover:
        if name not in (INPUT, INPUT_IN_DATAGRAMS):
            url = self._secrets.pushes.get(name)
            if url is None:
                raise PipelineError("there is no such output", stage="fetch")
            return await self._dialer.dial(parse_stream_url(url), sends=True, about=about)
        if self._listener is not None:
            return await self._listener.publisher()
        if self._secrets.input is None:
            raise PipelineError("the stream's address is not known any more", stage="fetch")
        transport = self._job.input.transport
        in_datagrams = transport == "udp" or (transport == "auto" and name == INPUT_IN_DATAGRAMS)
        source = parse_stream_url(self._secrets.input)
        return await self._dialer.dial(source, sends=False, in_datagrams=in_datagrams)


def needs_loopback(job: StreamJob) -> bool:
    """Whether FFmpeg connects by itself: to servers of RTSP and RTMP."""
    return (job.input.url or "").lower().startswith(("rtsp", "rtmp"))


def _hear(event: ChildEvent, tell: Tell, show: Callable[[LiveStats], None], listener: Listener | None) -> None:
    if event.kind != "progress":
        tell(event)
        return
    stats = LiveStats.model_validate(event.data)
    show(stats if listener is None else stats.model_copy(update={"publish_url": listener.url}))


async def _first(*events: asyncio.Event, seconds: float) -> None:
    """Until one of them is set, or the time is over."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _warnings(result: StreamResult | None) -> tuple[Warning, ...]:
    if result is None:
        message = "the stream did not end in time and was ended; its last seconds may be missing"
        return (Warning(code="not_finished", message=message),)
    stats = result.stats
    counted = {**stats.warnings, "reconnected": stats.reconnects, "corrupt_frame": stats.corrupt}
    found = [Warning(code=code, message=_MEANINGS.get(code, code), count=n) for code, n in counted.items() if n]
    failed: dict[str, Any] = {each.name: each.error for each in stats.outputs if each.state == "failed"}
    if failed:
        message = "outputs that were given up: " + "; ".join(f"{name}: {error}" for name, error in failed.items())
        found.append(Warning(code="output_failed", message=message, count=len(failed), facts=failed))
    return tuple(found)


_MEANINGS = {
    "reconnected": "the source went away and was connected to again",
    "corrupt_frame": "frames or packets came with damage",
    "clock_jump": "the source's clock jumped; time went on without the jump",
    "falling_timestamp": "packets' times fell back and were repaired",
    "decoder_too_slow": "packets were left out because they could not be decoded in time",
}
