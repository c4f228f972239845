"""`run_stream`: a stream from its first connection to its end, however often the source goes away in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pipelines.asked.streams import StreamJob
from pipelines.devices import Device, Verdict
from pipelines.errors import DeviceError, LimitExceeded, OutputFailed, PipelineError, Stalled
from pipelines.hardware.gpu import opened_gpu
from pipelines.limits import Limits
from pipelines.live.backoff import Backoff
from pipelines.live.link import Bridge, Link, SourceLost
from pipelines.live.memory import Memory
from pipelines.live.opening import Opened, Opener
from pipelines.live.outputs import Outlets
from pipelines.live.pipeline import Pipeline
from pipelines.live.planning import LivePlan, plan_stream
from pipelines.live.receiving import Arrivals, Reception, describe, in_words
from pipelines.live.report import Reporter
from pipelines.live.stats import LiveStats, StreamResult
from pipelines.live.sustain import check_sustainable
from pipelines.planning.choice import main_video
from pipelines.source import SourceInfo

REPORT_SECONDS = 1.0
SAVE_SECONDS = 5.0
GPU_STALL_SECONDS = 15.0

Reason = Literal["stopped", "suspended"]


@dataclass
class Stopping:
    """How a stream is told to end, from any thread. The first reason stays."""

    requested: threading.Event = field(default_factory=threading.Event)
    reason: Reason = "stopped"

    def request(self, reason: Reason) -> None:
        if not self.requested.is_set():
            self.reason = reason
            self.requested.set()


def run_stream(
    job: StreamJob,
    folder: Path,
    device: Device,
    link: Link,
    *,
    limits: Limits,
    bridge: Callable[[], Bridge] = Bridge,
    stopping: Stopping | None = None,
    verdicts: Sequence[Verdict] = (),
    gpu_stall_seconds: float = GPU_STALL_SECONDS,
    on_plan: Callable[[LivePlan, float | None], None] | None = None,
    on_stats: Callable[[LiveStats], None] | None = None,
) -> StreamResult:
    """Runs until it is stopped, the source has ended for good, or something can't go on: then a PipelineError.

    What `verdicts` speak of is not tried on the device. `gpu_stall_seconds`: how long it may take for one picture.
    """
    place = Place(device, verdicts, gpu_stall_seconds)
    session = Session(job, folder, place, link, limits, bridge, stopping or Stopping(), on_plan)
    return session.run(on_stats or (lambda stats: None))


@dataclass(frozen=True)
class Place:
    """Where a stream runs; see `run_stream`."""

    device: Device
    verdicts: Sequence[Verdict] = ()
    gpu_stall_seconds: float = GPU_STALL_SECONDS


class Session:
    """The state of a stream; `run` in one thread, the connection in another."""

    def __init__(
        self, job: StreamJob, folder: Path, place: Place, link: Link, limits: Limits,
        bridge: Callable[[], Bridge], stopping: Stopping, on_plan: Callable[[LivePlan, float | None], None] | None,
    ) -> None:  # fmt: skip
        self._job, self._place, self._limits, self._stopping = job, place, limits, stopping
        self._stack = ExitStack()
        self._building: float | None = None
        self._on_plan = on_plan
        self._memory = Memory(folder)
        self._clock = self._memory.clock()
        self._bridge: Bridge | None = None
        self._make_bridge = bridge
        self._outlets = Outlets(job, folder, self._clock.wall, link)
        self._arrivals = Arrivals()
        self._report = Reporter(self._clock, self._arrivals)
        self._opener = Opener(link, self._shared_bridge, limits, self._report.received)
        self._backoff = Backoff(job.input.reconnect)
        self._pipeline: Pipeline | None = None
        self._opened: Opened | None = None
        self._failure: BaseException | None = None
        self._over = threading.Event()
        self._ended_in_order = False
        self._stalled = False

    def run(self, on_stats: Callable[[LiveStats], None]) -> StreamResult:
        with self._stack:
            return self._run(on_stats)

    def _run(self, on_stats: Callable[[LiveStats], None]) -> StreamResult:
        thread = threading.Thread(target=self._keep_connected, name="source", daemon=True)
        thread.start()
        saved = time.monotonic()
        while not self._over.wait(0.1):
            if self._stopping.requested.is_set():
                break
            self._watch()
            if self._report.is_due(REPORT_SECONDS):
                on_stats(self._stats())
            if self._pipeline is not None and time.monotonic() - saved > SAVE_SECONDS:
                saved = time.monotonic()
                self._memory.save(self._clock)
        self._over.set()
        self._report.stopping()
        on_stats(self._stats())
        self._disconnect()
        thread.join(5.0)
        reason = self._stopping.reason if self._stopping.requested.is_set() else "ended"
        self._finish(final=reason != "suspended" and self._failure is None)
        if self._failure is not None:
            raise self._failure
        stats = self._stats()
        on_stats(stats)
        return StreamResult(reason=reason, stats=stats)

    def _finish(self, *, final: bool) -> None:
        if self._pipeline is not None:
            self._pipeline.finish(final=final)
            self._memory.save(self._clock)

    def _stats(self) -> LiveStats:
        return self._report.stats(self._pipeline)

    def _shared_bridge(self) -> Bridge:
        if self._bridge is None:
            self._bridge = self._make_bridge()
        return self._bridge

    def _fail(self, error: BaseException) -> None:
        """The first error that can't be lived with ends the stream."""
        if self._failure is None:
            self._failure = error
        self._over.set()

    def _watch(self) -> None:
        """Ends a connection that brings no pictures, and the stream when no output is left or its GPU hangs."""
        opened = self._opened
        age = time.monotonic() - self._arrivals.at
        if opened is not None and age > self._job.input.stall_seconds:
            self._stalled = True
            opened.end()
        pipeline = self._pipeline
        busy = self._building if pipeline is None else pipeline.busy_since()
        if busy is not None and time.monotonic() - busy > self._place.gpu_stall_seconds:
            seconds = self._place.gpu_stall_seconds
            self._fail(Stalled(f"{self._place.device.id} has not done a picture for {seconds:g} s", stage="encode"))
        if pipeline is not None and pipeline.sinks and not pipeline.snapshots:
            failed = [sink.standing for sink in pipeline.sinks if sink.standing.state == "failed"]
            if len(failed) == len(pipeline.sinks):
                told = "; ".join(f"{each.name}: {each.error}" for each in failed)
                self._fail(OutputFailed(f"no output is left: {told}", stage="mux"))

    def _disconnect(self) -> None:
        if (opened := self._opened) is not None:
            opened.end()

    def _keep_connected(self) -> None:
        """Connects again and again, until the stream is over."""
        try:
            while not self._over.is_set():
                error = self._connect_once()
                if self._over.is_set():
                    return
                if error is None and self._ended_in_order and self._job.input.reconnect.on_end == "complete":
                    self._over.set()
                    return
                self._report.away(error)
                if not self._backoff.failed():
                    reason = "it ended" if error is None else error.message
                    self._fail(SourceLost(f"the source is gone for good: {reason}", stage="open"))
                    return
                self._over.wait(self._backoff.pause_seconds)
        except BaseException as error:  # noqa: BLE001 - it is raised again by `run`
            self._fail(error)

    def _connect_once(self) -> PipelineError | None:
        """One connection, from its opening to its end; why it ended, None when the source said so itself."""
        self._ended_in_order = self._stalled = False
        wanted = self._job.input
        received = self._arrivals.packets
        try:
            with self._opener.open(wanted.connect_seconds, wanted.read_seconds, self._over) as opened:
                self._arrivals.at = time.monotonic()
                self._opened = opened
                try:
                    self._receive(opened)
                finally:
                    self._opened = None
                self._ended_in_order = not (opened.silent or self._stalled)
                if not self._ended_in_order:
                    return self._report.silence(self._stalled, wanted.read_seconds, wanted.stall_seconds)
        except PipelineError as error:
            if not error.retryable or isinstance(error, LimitExceeded | DeviceError):
                raise
            return error
        finally:
            if self._arrivals.packets > received:
                self._backoff.succeeded()
        return None

    def _receive(self, opened: Opened) -> None:
        source = describe(opened.container, self._limits)
        again = self._pipeline is not None
        if self._pipeline is None:
            self._pipeline = self._build(source)
            self._arrivals.at = time.monotonic()
        self._report.connected(in_words(source), again=again)
        reception = Reception(
            opened.container, source, self._clock, self._arrivals, self._report.warn,
            paced=opened.paced, wait=self._over.wait,
        )  # fmt: skip
        self._pipeline.receive(reception, again=again)

    def _build(self, source: SourceInfo) -> Pipeline:
        plan = plan_stream(self._job, source, self._place.device, verdicts=self._place.verdicts)
        self._tell(plan, None)  # what fails on a GPU fails by a plan
        self._building = None if plan.device.kind == "software" else time.monotonic()
        gpu = self._stack.enter_context(opened_gpu(plan.placed))
        speed = check_sustainable(plan, main_video(source.video), gpu, force=self._job.force)
        if speed is not None:
            self._tell(plan, speed)
        pipeline = Pipeline(
            plan, source, self._clock, self._outlets, self._limits, self._job.input.slate, self._fail, gpu
        )
        self._building = None
        pipeline.start()
        return pipeline

    def _tell(self, plan: LivePlan, speed: float | None) -> None:
        if self._on_plan is not None:
            self._on_plan(plan, speed)
