"""`run`: follows a plan. The input is read and decoded once; every track and rendition has a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

from pipelines.assembly import Assembly
from pipelines.captions.earlier_cues import earlier_cues
from pipelines.channel import Stopped
from pipelines.demux import Demuxer
from pipelines.errors import Cancelled, LargerThanSource, LimitExceeded, OutOfMemory, cause
from pipelines.hardware.drm_usage import GpuClock
from pipelines.hardware.gpu import open_source, opened_gpu
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.packaging.sealing.blocks import Cipher
from pipelines.rendition import Plan
from pipelines.result import Progress, Result
from pipelines.size_guard import check_projection
from pipelines.sound.loudness_pass import is_measured, with_gains
from pipelines.source import SourceInfo
from pipelines.tracks import span_of

PROGRESS_SECONDS = 0.25

OnProgress = Callable[[Progress], None]
Assemble = Callable[..., Assembly]
"""Puts a run together: an Assembly, or one of its kinds."""


def run(
    plan: Plan,
    source: SourceInfo,
    file: LocalFile,
    folder: Path,
    *,
    limits: Limits,
    on_progress: OnProgress | None = None,
    cancelled: threading.Event | None = None,
    cipher: Cipher | None = None,
    assemble: Assemble = Assembly,
) -> Result:
    """Writes the plan's outputs into `folder` and says what was written.

    A PipelineError is raised when it can't be done; what `folder` then holds is worthless.
    """
    cancelled = cancelled or threading.Event()
    if is_measured(plan) and not plan.parts:
        span = span_of(plan.start_seconds, plan.end_seconds, source.start_seconds)
        plan = with_gains(plan, source, file, span, limits, on_progress=on_progress, cancelled=cancelled)
    with ExitStack() as stack:
        gpu = stack.enter_context(opened_gpu(plan))
        clock = None if gpu is None else GpuClock()
        container = stack.enter_context(open_source(gpu, plan, source, file, limits))
        parts = assemble(plan, source, file, container, folder, limits, stack, gpu, cipher)
        demuxer = Demuxer(container, parts.streams, parts.span, source, limits, parts.warnings)
        _Run(parts, demuxer).work(on_progress, cancelled)
        for writer in parts.writers:
            writer.close()
        parts.judge(demuxer.holes)
        result = parts.tally.result(parts.warnings.all())
        return result if clock is None else result.model_copy(update={"gpu_seconds": clock.seconds() or None})


class _Run:
    """The threads of an assembly at work."""

    def __init__(self, parts: Assembly, demuxer: Demuxer) -> None:
        self._parts, self._demuxer = parts, demuxer
        self._failure: BaseException | None = None
        self._failed = threading.Event()

    def work(self, on_progress: OnProgress | None, cancelled: threading.Event) -> None:
        """Runs all threads to their end, reporting progress from this one."""
        threads = [
            threading.Thread(target=self._guarded, args=(body,), daemon=True, name=type(body).__name__)
            for body in (*self._parts.threads, self._feed)
        ]
        for thread in threads:
            thread.start()
        reported = time.monotonic()
        while any(thread.is_alive() for thread in threads):
            if cancelled.is_set():
                self._fail(Cancelled("cancelled", stage="run"))
            self._check_size()
            for thread in threads:
                if thread.is_alive():
                    thread.join(PROGRESS_SECONDS / 5)
                    break
            if on_progress is not None and time.monotonic() - reported >= PROGRESS_SECONDS:
                reported = time.monotonic()
                on_progress(self._parts.tally.progress())
        self._check_size()
        if self._failure is not None:
            raise self._failure
        if on_progress is not None:
            on_progress(self._parts.tally.progress())

    def _check_size(self) -> None:
        """Of all files together, for a file alone is bounded by the process's own limit; and what the job allows."""
        limit = self._parts.limits.max_output_bytes
        if sum(writer.bytes for writer in self._parts.writers) > limit:
            message = f"the job writes more than {limit} bytes"
            self._fail(LimitExceeded("limit_output", message, stage="mux", limit=limit))
        plan, tally = self._parts.plan, self._parts.tally
        if plan.size_limit is None:
            return
        for writer in self._parts.writers:
            name = writer.plan.name
            try:
                check_projection(plan.size_limit, name, writer.bytes, tally.written(name), plan.duration_seconds)
            except LargerThanSource as error:
                self._fail(error)

    def _guarded(self, body: Callable[[], None]) -> None:
        """The end of a thread: any error stops the others, the first one is raised to the caller."""
        try:
            body()
        except Stopped:
            return
        except MemoryError as error:
            self._fail(OutOfMemory(f"out of memory: {cause(error)}", stage="run"))
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._failed.set()
        for channel in self._parts.channels:
            channel.stop()

    def _feed_earlier_cues(self) -> set[tuple[int, int | None, int]]:
        """Hands on the cues from before the clip; gives what they are known by, should they be read again."""
        parts = self._parts
        streams = [stream for stream in parts.copies if parts.container.streams[stream].type == "subtitle"]
        earlier = earlier_cues(parts.container, parts.streams, streams, parts.span, parts.source)
        for packet, time_base in earlier:
            for target in parts.copies[packet.stream_index]:
                target.write(packet, time_base, shared=True)
        return {(packet.stream_index, packet.pts, packet.size) for packet, _ in earlier}

    def _feed(self) -> None:
        """Reads the input and hands each packet to whoever wants it."""
        parts = self._parts
        packets, copies, states = parts.packets, parts.copies, parts.states
        seen = self._feed_earlier_cues()
        for packet, time_base in self._demuxer:
            if self._failed.is_set():
                raise Stopped
            stream = packet.stream_index
            targets = copies.get(stream, ())
            channel = packets.get(stream)
            if channel is not None:
                channel.put(packet)
            if seen and (stream, packet.pts, packet.size) in seen:
                continue
            for target in targets:
                target.write(packet, time_base, shared=len(targets) > 1 or channel is not None)
            if parts.subtitles and packet.dts is not None:
                parts.texts.reached(packet.dts * time_base)
                for subtitles in parts.subtitles:
                    subtitles.reached(packet.dts * time_base)
            if parts.span.end is not None and states and all(state.done for state in states):
                break
        ending = [
            (t, parts.container.streams[s].time_base or Fraction(1, 90_000)) for s, ts in copies.items() for t in ts
        ]
        ending += parts.texts.finish()
        for track, time_base in ending:
            track.drain(time_base)
        for clock in parts.copy_clocks.values():
            clock.settle()
        for track, time_base in ending:
            track.finish(time_base)
        for channel in packets.values():
            channel.close()
