"""Reading an input: packets of the chosen tracks on one continuous clock, from where a clip starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Discard

from pipelines.errors import LimitExceeded, cause
from pipelines.facts.hurried import HURRIED_FORMATS, unhurried
from pipelines.limits import Limits
from pipelines.source import SourceInfo
from pipelines.timestamps import InputClock, TrackClock
from pipelines.tracks import Holes, Span
from pipelines.warning_log import WarningLog

PREROLL_SECONDS = Fraction(1)
"""Sound lies up to this far from the picture it belongs to; reading starts this much before a clip."""
COARSE_PREROLL_SECONDS = Fraction(12)
"""Where the format has no index, a seek lands anywhere: far enough before for a keyframe to come."""
INDEXED_FORMATS = frozenset({"mov"})
"""Formats read by an index, in an order of their own: what is lost there are packets, never the time between them."""
COARSE_FORMATS = ("mpegts", "mpeg", "h264", "hevc", "mp3", "aac")


@dataclass(frozen=True, slots=True)
class _Lane:
    """What is asked of each packet of a track, in its ticks."""

    index: int
    time_base: Fraction
    clock: TrackClock
    seconds: float
    """Of a tick."""
    latest: int
    farthest: int | None


class Demuxer:
    """Iterates (packet, time base). A read error ends the input early: it is counted, and judged at the end."""

    def __init__(
        self,
        container: InputContainer,
        streams: list[int],
        span: Span,
        source: SourceInfo,
        limits: Limits,
        warnings: WarningLog,
    ) -> None:
        self._container, self._streams, self._span = container, streams, span
        self._source, self._limits, self._warnings = source, limits, warnings
        self._clock = InputClock(source.format, warnings.add)
        self._indexed = bool(INDEXED_FORMATS.intersection(source.format.split(",")))
        self.holes = Holes()

    def __iter__(self) -> Iterator[tuple[Packet[Any], Fraction]]:
        container = self._container
        if not self._streams:
            return
        for stream in container.streams:
            if stream.index not in self._streams:
                stream.discard = Discard.all
        if self._span.clipped:
            self._seek()
        chosen = [container.streams[index] for index in self._streams]
        lanes = {stream.index: self._lane(stream) for stream in chosen}
        try:
            for packet in unhurried(container.demux(chosen), container.format.name):
                lane = lanes.get(packet.stream_index)
                if packet.size == 0 or lane is None:
                    continue  # the empty packets that PyAV ends with
                self._place(packet, lane)
                if packet.is_corrupt:
                    self._warnings.add("corrupt_packet", "damaged packets", _seconds(packet, lane.time_base))
                yield packet, lane.time_base
        except av.error.FFmpegError as error:
            if isinstance(error, MemoryError):
                raise
            self._warnings.add("read_error", f"the input could not be read to its end: {cause(error)}")

    def _lane(self, stream: Any) -> _Lane:
        time_base: Fraction = stream.time_base or Fraction(1, 90_000)
        latest = self._span.start + Fraction(self._limits.max_duration_seconds)
        reordered = self._clock.reordered
        return _Lane(
            index=stream.index,
            time_base=time_base,
            clock=self._clock.track(time_base),
            seconds=float(time_base),
            latest=int(latest / time_base),
            farthest=None if reordered is None else int(reordered / time_base),
        )

    def _place(self, packet: Packet[Any], lane: _Lane) -> None:
        """Moves the packet to the continuous clock. LimitExceeded where it is too far away."""
        dts, duration = packet.dts, packet.duration or 0
        offset = lane.clock.offset(dts, duration)
        if offset:
            ticks = round(offset / lane.time_base)
            packet.pts = None if packet.pts is None else packet.pts + ticks
            packet.dts = dts = None if dts is None else dts + ticks
        pts = packet.pts
        if dts is not None:
            if not self._indexed:
                self.holes.see(dts * lane.seconds, duration * lane.seconds)
            if lane.farthest is not None and pts is not None and abs(pts - dts) > lane.farthest:
                self._warnings.add("wild_timestamp", "a time that can't be meant was left out", dts * lane.seconds)
                packet.pts = pts = None
        if pts is not None and pts > lane.latest:
            raise self._too_long(lane.index)

    def _too_long(self, stream: int) -> LimitExceeded:
        """Far times are refused before anything fills the way there with silence or repeated pictures."""
        limit = self._limits.max_duration_seconds
        message = f"track {stream} goes on for more than the {limit:g} s allowed"
        return LimitExceeded("limit_duration", message, stage="decode", stream=stream, limit=limit)

    def _seek(self) -> None:
        """To a keyframe at or before the clip's start; to the beginning where seeking fails."""
        if self._container.format.name in HURRIED_FORMATS:
            return  # when a picture is shown depends on all before it
        coarse = any(name in COARSE_FORMATS for name in self._source.format.split(","))
        target = self._span.start - (COARSE_PREROLL_SECONDS if coarse else PREROLL_SECONDS)
        if target <= Fraction(self._source.start_seconds):
            return
        try:
            self._container.seek(int(target * 1_000_000), backward=True)
        except av.error.FFmpegError:
            self._warnings.add("no_seek", "the input can't be sought: read from its start")


def _seconds(packet: Packet[Any], time_base: Fraction) -> float | None:
    return None if packet.pts is None else float(packet.pts * time_base)
