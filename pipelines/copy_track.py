"""Tracks that go along packet by packet, on the clock of their output.

Copied video can start at a keyframe only. A clip therefore starts at the last keyframe before its start, and the other
copied tracks of that output start there too: `CopyClock` holds packets back until that keyframe is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from av.packet import Packet

from pipelines.mux import Writer
from pipelines.timestamps import rescale
from pipelines.tracks import Span, TrackState
from pipelines.warning_log import WarningLog


class CopyClock:
    """Time zero of the copied tracks of one output."""

    def __init__(self, span: Span, *, at_keyframe: bool, warnings: WarningLog) -> None:
        self.span = span
        self.origin: Fraction | None = None if at_keyframe and span.clipped else span.start
        self._warnings = warnings
        self._keyframe: Fraction | None = None
        self._pending: list[tuple[CopyTrack, Packet[Any], Fraction]] = []

    def hold(self, track: CopyTrack, packet: Packet[Any], time_base: Fraction) -> None:
        """Keeps a packet until time zero is known, which video packets tell."""
        time = (packet.pts if packet.pts is not None else packet.dts or 0) * time_base
        if track.is_video and packet.is_keyframe:
            if self._keyframe is not None and time > self.span.start:
                self.settle()
                track.write(packet, time_base)
                return
            self._keyframe = time
            self._pending = [held for held in self._pending if self._ends(held) > time]
        self._pending.append((track, packet, time_base))
        if track.is_video and self._keyframe is not None and time > self.span.start:
            self.settle()

    def settle(self) -> None:
        """Decides and lets go what was held."""
        if self.origin is not None:
            return
        self.origin = self.span.start if self._keyframe is None else self._keyframe
        early = self.span.start - self.origin
        if early > 0:
            message = f"copied video starts at a keyframe, {float(early):.3f} s before the clip"
            self._warnings.add("clip_at_keyframe", message, float(self.origin))
        pending, self._pending = self._pending, []
        for track, packet, time_base in pending:
            track.write(packet, time_base)

    @staticmethod
    def _ends(held: tuple[CopyTrack, Packet[Any], Fraction]) -> Fraction:
        track, packet, time_base = held
        if track.is_video:
            return Fraction(-1)
        pts = packet.pts if packet.pts is not None else packet.dts or 0
        return (pts + (packet.duration or 0)) * time_base


@dataclass
class CopyTrack:
    """One copied track: times shifted to the output's, decode times made to rise."""

    stream: Any
    writer: Writer
    clock: CopyClock
    is_video: bool
    warnings: WarningLog
    state: TrackState = field(init=False)
    bytes: int = 0
    _last_dts: int | None = None
    _started: bool = False

    def __post_init__(self) -> None:
        self.state = TrackState(self.stream.index, "copy")

    def write(self, packet: Packet[Any], time_base: Fraction) -> None:
        origin = self.clock.origin
        if origin is None:
            self.clock.hold(self, packet, time_base)
            return
        pts, dts = self._times(packet, time_base, origin)
        time, duration = pts * time_base, (packet.duration or 0) * time_base
        if not self._started:
            if self.is_video and not packet.is_keyframe:
                return
            if self.clock.span.clipped and time + duration <= origin:
                return
            self._started = True
        if self.clock.span.end is not None and dts * time_base >= self.clock.span.end:
            self.state.done = True
            return
        if self._last_dts is not None and dts <= self._last_dts:
            self.warnings.add("falling_timestamp", "a packet's time fell back and was repaired", float(time))
            dts = self._last_dts + 1
            pts = max(pts, dts)
        self._last_dts = dts
        self._count(packet, time, duration)
        packet.pts = rescale(pts, time_base, time_base, origin)
        packet.dts = rescale(dts, time_base, time_base, origin)
        packet.time_base = time_base
        packet.stream = self.stream
        self.writer.write([packet])

    def _times(self, packet: Packet[Any], time_base: Fraction, origin: Fraction) -> tuple[int, int]:
        """pts and dts; each stands in for the other, and the last packet's for both."""
        dts = packet.dts if packet.dts is not None else packet.pts
        if dts is None:
            dts = rescale(1, origin, time_base) if self._last_dts is None else self._last_dts + 1
        return (packet.pts if packet.pts is not None else dts), dts

    def _count(self, packet: Packet[Any], time: Fraction, duration: Fraction) -> None:
        state = self.state
        state.frames += 1
        state.packets += 1
        state.first = time if state.first is None else min(time, state.first)
        state.end = max(time + duration, state.end or time)
        self.bytes += packet.size

    @property
    def end_seconds(self) -> float:
        return float((self.state.end or Fraction(0)) - (self.clock.origin or Fraction(0)))
