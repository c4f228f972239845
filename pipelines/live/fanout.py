"""Pieces to the sinks that want them, each track's decode times strictly rising."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import floor

from pipelines.live.clock import OutputClock
from pipelines.live.sink import Sink
from pipelines.live.units import Piece, Track


class Fanout:
    """Hands pieces out; called from every thread that makes some. Counts them by track."""

    def __init__(self, clock: OutputClock) -> None:
        self._clock = clock
        self._targets: dict[str, list[Sink]] = defaultdict(list)
        self._last: dict[str, tuple[Track, int]] = {}
        self._lock = threading.Lock()
        self.pieces: dict[str, int] = defaultdict(int)
        self.bytes: dict[str, int] = defaultdict(int)
        self.repaired = 0
        self.latency_seconds: float | None = None

    def connect(self, sinks: Sequence[Sink]) -> None:
        for sink in sinks:
            for name in sink.tracks:
                self._targets[name].append(sink)

    def put(self, piece: Piece) -> None:
        track, unit = piece.track, piece.unit
        with self._lock:
            last = self._last_in(track)
            if last is not None and unit.dts <= last:
                self.repaired += 1
                dts = last + 1
                unit = replace(unit, dts=dts, pts=max(unit.pts, dts))
                piece = replace(piece, unit=unit)
            self._last[track.name] = track, unit.dts
            self.pieces[track.name] += 1
            self.bytes[track.name] += len(unit.data)
        self._clock.reached(piece.end)
        if track.kind == "video":
            late = self._clock.seconds() - float(piece.time) + self._clock.lead
            known = self.latency_seconds
            self.latency_seconds = late if known is None else known + 0.1 * (late - known)
        for sink in self._targets[track.name]:
            sink.put(piece)

    def _last_in(self, track: Track) -> int | None:
        """The decode time of the track's last piece, in its ticks: those change with the source's parameters."""
        known = self._last.get(track.name)
        if known is None:
            return None
        before, ticks = known
        return ticks if before is track else floor(ticks * before.time_base / track.time_base)


class Rate:
    """How many per second, over the last seconds. `count` is read and the rates are told once a second."""

    def __init__(self, seconds: float = 5.0) -> None:
        self._seconds = seconds
        self._marks: list[tuple[float, float]] = []

    def at(self, count: float) -> float:
        now = time.monotonic()
        self._marks.append((now, count))
        while len(self._marks) > 2 and now - self._marks[1][0] >= self._seconds:
            self._marks.pop(0)
        (_, before), span = self._marks[0], now - self._marks[0][0]
        return (count - before) / span if span > 0 else 0.0
