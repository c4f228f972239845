"""The figures of a running stream, put together once a second."""

from __future__ import annotations

import threading
import time
from collections import Counter

from pipelines.errors import PipelineError
from pipelines.live.clock import OutputClock
from pipelines.live.fanout import Rate
from pipelines.live.link import SourceStalled
from pipelines.live.pipeline import Pipeline
from pipelines.live.receiving import Arrivals
from pipelines.live.stats import LiveStats, OutputStats, StreamState, TrackStats


class Reporter:
    """Told of what happens by the thread that it happens in."""

    def __init__(self, clock: OutputClock, arrivals: Arrivals) -> None:
        self._clock, self._arrivals = clock, arrivals
        self._began = time.monotonic()
        self._state: StreamState = "connecting"
        self._error: str | None = None
        self._source: str | None = None
        self._bytes = self._beat = self._connections = self._reconnects = 0
        self._warnings: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._in_frames, self._in_bytes = Rate(), Rate()
        self._out: dict[str, tuple[Rate, Rate]] = {}
        self._told = 0.0

    def received(self, size: int) -> None:
        self._bytes += size

    def warn(self, code: str, message: str, seconds: float | None) -> None:
        with self._lock:
            self._warnings[code] += 1

    def connected(self, source: str, *, again: bool) -> None:
        self._source, self._error = source, None
        self._connections += 1
        self._reconnects += again
        if self._state != "stopping":
            self._state = "live"

    def away(self, error: PipelineError | None) -> None:
        self._error = "the source ended" if error is None else error.message
        if self._state == "live":
            self._state = "reconnecting"

    def stopping(self) -> None:
        self._state = "stopping"

    def silence(self, stalled: bool, read_seconds: float, stall_seconds: float) -> PipelineError:
        if stalled:
            return SourceStalled(f"no picture came for {stall_seconds:g} s", stage="decode")
        return SourceStalled(f"the source sent nothing for {read_seconds:g} s", stage="decode")

    def is_due(self, seconds: float) -> bool:
        return time.monotonic() - self._told >= seconds

    def stats(self, pipeline: Pipeline | None) -> LiveStats:
        self._told = time.monotonic()
        self._beat += 1
        with self._lock:
            warnings = dict(self._warnings)
        base = LiveStats(
            state=self._state,
            beat=self._beat,
            frames=self._arrivals.video_packets,
            out_time=round(time.monotonic() - self._began, 1),
            in_fps=round(self._in_frames.at(self._arrivals.video_packets), 2),
            in_bitrate=round(self._in_bytes.at(self._bytes) * 8),
            connections=self._connections,
            reconnects=self._reconnects,
            corrupt=self._arrivals.corrupt,
            source=self._source,
            error=self._error,
            warnings=warnings,
        )
        return base if pipeline is None else base.model_copy(update=self._of(pipeline))

    def _of(self, pipeline: Pipeline) -> dict[str, object]:
        shown = pipeline.video.shown_at
        last = shown if pipeline.plan.decodes_video else self._arrivals.at
        latency = pipeline.fanout.latency_seconds
        standings = [sink.standing for sink in pipeline.sinks] + [each.standing for each in pipeline.snapshots]
        if pipeline.fanout.repaired:
            self._warnings["falling_timestamp"] = pipeline.fanout.repaired
        if skipped := pipeline.video.skipped + pipeline.audio.skipped:
            self._warnings["decoder_too_slow"] = skipped
        return {
            "latency_seconds": None if latency is None else round(latency, 3),
            "last_frame_age_seconds": None if last is None else round(time.monotonic() - last, 2),
            "slate": pipeline.slate is not None and pipeline.slate.showing,
            "corrupt": self._arrivals.corrupt + pipeline.video.corrupt + pipeline.audio.corrupt,
            "tracks": self._tracks(pipeline),
            "outputs": tuple(
                OutputStats(
                    name=each.name, type=each.type, state=each.state, bytes=each.bytes, dropped=each.dropped,
                    failures=each.failures, error=each.error,
                )
                for each in standings
            ),
        }  # fmt: skip

    def _tracks(self, pipeline: Pipeline) -> tuple[TrackStats, ...]:
        plan = pipeline.plan
        codecs = {name: each.codec for name, each in (*plan.video.items(), *plan.audio.items())}
        codecs |= {name: lane.track.codec for name, lane in pipeline.copies.items() if lane.track is not None}
        lanes = {lane.name: lane for lane in pipeline.lanes}
        told = []
        for name, codec in codecs.items():
            frames, sizes = self._out.setdefault(name, (Rate(), Rate()))
            lane = lanes.get(name)
            told.append(
                TrackStats(
                    name=name,
                    codec=codec,
                    encoder=plan.video[name].encoder if name in plan.video else None,
                    fps=round(frames.at(pipeline.fanout.pieces[name]), 2),
                    bitrate=round(sizes.at(pipeline.fanout.bytes[name]) * 8),
                    dropped=0 if lane is None else lane.dropped,
                    duplicated=0 if lane is None else lane.duplicated,
                )
            )
        return tuple(told)
