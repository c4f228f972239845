"""Tracks that go along packet by packet, on the clock of their output.

Copied video can start at a keyframe only. A clip therefore starts at the last keyframe before its start, and the other
copied tracks of that output start there too: `CopyClock` holds packets back until that keyframe is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av
from av.packet import Packet, PktSideDataT

from pipelines.containers import Durations
from pipelines.errors import OutputFailed
from pipelines.facts.picture_order import PictureOrder
from pipelines.mux import Writer
from pipelines.timestamps import lasts_until, rescale
from pipelines.tracks import Span, TrackState
from pipelines.warning_log import WarningLog


class CopyClock:
    """Time zero of the copied tracks of one output, and for its subtitles the pace from there."""

    def __init__(
        self,
        span: Span,
        *,
        at_keyframe: bool,
        warnings: WarningLog,
        pace: Fraction = Fraction(1),
    ) -> None:
        self.span, self.pace = span, pace
        self.origin: Fraction | None = None if at_keyframe and span.clipped else span.start
        self._warnings = warnings
        self._keyframe: Fraction | None = None
        self._pending: list[_Held] = []

    def hold(self, track: CopyTrack, packet: Packet[Any], time_base: Fraction, *, hidden: bool) -> None:
        """Keeps a packet until time zero is known, which video packets tell."""
        time = (packet.pts if packet.pts is not None else packet.dts or 0) * time_base
        if track.is_video and packet.is_keyframe:
            if self._keyframe is not None and time > self.span.start:
                self.settle()
                track.take(packet, time_base, hidden=hidden)
                return
            self._keyframe = time
            self._pending = [held for held in self._pending if held.end > time]
        self._pending.append(_Held(track, packet, time_base, hidden))
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
        for held in pending:
            held.track.take(held.packet, held.time_base, hidden=held.hidden)


@dataclass(frozen=True, slots=True)
class _Held:
    """A packet that waits for time zero."""

    track: CopyTrack
    packet: Packet[Any]
    time_base: Fraction
    hidden: bool

    @property
    def end(self) -> Fraction:
        """Up to when it is needed; pictures before a keyframe are not."""
        if self.track.is_video:
            return Fraction(-1)
        pts = self.packet.pts if self.packet.pts is not None else self.packet.dts or 0
        return (pts + (self.packet.duration or 0)) * self.time_base


@dataclass
class CopyTrack:
    """One copied track: times shifted to the output's, decode times made to rise."""

    source: int
    """Index of the input's stream."""
    stream: Any
    writer: Writer
    clock: CopyClock
    is_video: bool
    warnings: WarningLog
    durations: Durations = "each"
    order: PictureOrder | None = None
    """Where packets come without presentation times."""
    promised_end: Fraction | None = None
    """Of the input's track, where its header says it: in MP4, durations are those of other pictures than their own."""
    state: TrackState = field(init=False)
    bytes: int = 0
    _last_dts: int | None = None
    _started: bool = False
    _shown: bool = False
    _hidden: list[Packet[Any]] = field(default_factory=list)
    _undated: list[Packet[Any]] = field(default_factory=list)
    _first: tuple[int, int] | None = None
    _end: int = 0
    _newest: tuple[int, int] = (0, 0)
    """The latest presentation time, and the latest before it."""
    _ready: Packet[Any] | None = None
    """The last one, which leaves when the next comes or with the end's duration."""

    def __post_init__(self) -> None:
        self.state = TrackState(self.source, "copy")

    def write(self, packet: Packet[Any], time_base: Fraction, *, shared: bool = False) -> None:
        """`shared`: others use this packet too, so a twin of it is written."""
        hidden = packet.is_discard
        packet = twin_of(packet) if shared else packet
        for timed in [packet] if self.order is None else self.order.push(packet):
            self.take(timed, time_base, hidden=hidden)

    def take(self, packet: Packet[Any], time_base: Fraction, *, hidden: bool) -> None:
        """`hidden`: an edit list says that it is not shown."""
        origin = self.clock.origin
        if origin is None:
            self.clock.hold(self, packet, time_base, hidden=hidden)
            return
        if not self._started:
            if self.is_video and not packet.is_keyframe:
                return
            pts, _ = self._times(packet, time_base, origin)
            if self.clock.span.clipped and (pts + (packet.duration or 0)) * time_base <= origin:
                return
            self._started = True
        if hidden and self._shown:
            self._hidden.append(packet)
            return
        for needed in self._needed(packet):
            self._write(needed, time_base, origin)
        self._shown = self._shown or not hidden
        if packet.dts is None and packet.pts is not None:
            self._undated.append(packet)
            return
        self._write_undated(packet.dts, time_base, origin)
        self._write(packet, time_base, origin)

    def drain(self, time_base: Fraction) -> None:
        """The input has ended: takes the packets whose order was still open. Before the clock settles."""
        for packet in [] if self.order is None else self.order.flush():
            self.take(packet, time_base, hidden=False)

    def finish(self, time_base: Fraction) -> None:
        """Writes what waited for a packet that never came."""
        if self.clock.origin is not None:
            self._write_undated(None, time_base, self.clock.origin)
        if self._ready is None:
            return
        last, before = self._newest
        if self.is_video and self._end <= last:
            # nothing says how long it is shown: as long as the one before it
            self._end = last + max(1, last - before)
            self._see_end(self._end * time_base + (self.clock.origin or 0))
            self._ready.duration = self._end - (self._ready.pts or 0)
        if self.is_video and self._first is not None and self.durations == "last":
            lasts_until(self._ready, self._end, self._first)
        self._mux(self._ready)

    def _mux(self, packet: Packet[Any]) -> None:
        try:
            self.writer.write([packet])
        except OutputFailed as error:
            # a muxer that repacks a codec finds damage that a copy would not see
            if not isinstance(error.__cause__, DAMAGE):
                raise
            self.state.errors += 1
            self.warnings.add("damaged_packet", "packets that could not be repacked for the container were left out")

    def _write_undated(self, following: int | None, time_base: Fraction, origin: Fraction) -> None:
        """Packets without decode times (Matroska's first): as late as what follows them and their own pts allow."""
        undated, self._undated = self._undated, []
        for packet in reversed(undated):
            assert packet.pts is not None
            packet.dts = packet.pts if following is None else min(packet.pts, following - 1)
            following = packet.dts
        for packet in undated:
            self._write(packet, time_base, origin)

    def _needed(self, shown: Packet[Any]) -> list[Packet[Any]]:
        """Hidden packets that a packet after them refers to: from the last keyframe on. At the end there are none."""
        hidden, self._hidden = self._hidden, []
        if not hidden or not self.is_video or shown.is_keyframe:
            return []
        keys = [number for number, packet in enumerate(hidden) if packet.is_keyframe]
        message = "an edit list hides packets that others refer to: they go along, each shown for an instant"
        self.warnings.add("hidden_packets", message)
        return hidden[keys[-1] :] if keys else hidden

    def _write(self, packet: Packet[Any], time_base: Fraction, origin: Fraction) -> None:
        pts, dts = self._times(packet, time_base, origin)
        time = pts * time_base
        if self.clock.span.end is not None and dts * time_base >= self.clock.span.end:
            self.state.done = True
            return
        if self._last_dts is not None and dts <= self._last_dts:
            self.warnings.add("falling_timestamp", "a packet's time fell back and was repaired", float(time))
            dts = self._last_dts + 1
            pts = max(pts, dts)
        self._last_dts = dts
        packet.pts = rescale(pts, time_base, time_base, origin)
        packet.dts = rescale(dts, time_base, time_base, origin)
        packet.time_base = time_base
        packet.stream = self.stream
        if self._first is None:
            self._first = (packet.pts, packet.dts)
        if self.is_video and self.promised_end is not None and time < self.promised_end:
            packet.duration = min(packet.duration or 0, rescale(0, time_base, time_base, time - self.promised_end))
        self._end = max(self._end, packet.pts + (packet.duration or 0))
        self._newest = (max(packet.pts, self._newest[0]), max(min(packet.pts, self._newest[0]), self._newest[1]))
        self._count(packet, time, (packet.duration or 0) * time_base)
        if self._ready is not None and self._ready.dts is not None:
            if self.is_video and not packet.duration and self.durations != "each":
                packet.duration = packet.dts - self._ready.dts  # until another is known
            self._mux(self._ready)
        self._ready = packet

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
        self._see_end(time + duration)
        self.bytes += packet.size

    def _see_end(self, end: Fraction) -> None:
        self.state.end = max(end, self.state.end or end)

    @property
    def end_seconds(self) -> float:
        return float((self.state.end or Fraction(0)) - (self.clock.origin or Fraction(0)))


DAMAGE = (av.error.InvalidDataError, av.error.PatchWelcomeError, av.error.ArgumentError)
"""What muxers answer to a packet that is not what its track's header says; all else is the machine's fault."""
CARRIED_SIDE_DATA: tuple[PktSideDataT, ...] = (
    "skip_samples", "new_extradata", "param_change", "palette", "matroska_block_additional", "dynamic_hdr10_plus",
    "webvtt_identifier", "webvtt_settings",
)  # fmt: skip


def twin_of(packet: Packet[Any]) -> Packet[Any]:
    """A packet of its own with the same data and times: each target stamps its own."""
    twin: Packet[Any] = Packet(bytes(packet))
    twin.pts, twin.dts, twin.duration = packet.pts, packet.dts, packet.duration
    twin.time_base = packet.time_base
    twin.is_keyframe, twin.is_corrupt = packet.is_keyframe, packet.is_corrupt
    for kind in CARRIED_SIDE_DATA:
        if packet.has_sidedata(kind):
            twin.set_sidedata(packet.get_sidedata(kind))
    return twin
