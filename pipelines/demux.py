"""Reading an input: packets of the chosen tracks on one continuous clock, from where a clip starts."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Discard

from pipelines.errors import LimitExceeded
from pipelines.limits import Limits
from pipelines.source import SourceInfo
from pipelines.timestamps import InputClock
from pipelines.tracks import Holes, Span
from pipelines.warning_log import WarningLog

PREROLL_SECONDS = Fraction(1)
"""Sound lies up to this far from the picture it belongs to; reading starts this much before a clip."""
COARSE_PREROLL_SECONDS = Fraction(12)
"""Where the format has no index, a seek lands anywhere: far enough before for a keyframe to come."""
INDEXED_FORMATS = frozenset({"mov"})
"""Formats read by an index, in an order of their own: what is lost there are packets, never the time between them."""
COARSE_FORMATS = ("mpegts", "mpeg", "h264", "hevc", "mp3", "aac")


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
        self.holes = Holes()

    def __iter__(self) -> Iterator[tuple[Packet[Any], Fraction]]:
        container = self._container
        for stream in container.streams:
            if stream.index not in self._streams:
                stream.discard = Discard.all
        if self._span.clipped:
            self._seek()
        chosen = [container.streams[index] for index in self._streams]
        bases: dict[int, Fraction] = {s.index: s.time_base or Fraction(1, 90_000) for s in chosen}
        seconds = {index: float(time_base) for index, time_base in bases.items()}
        holes, indexed = self.holes, bool(INDEXED_FORMATS.intersection(self._source.format.split(",")))
        clock = self._clock
        latest = self._span.start + Fraction(self._limits.max_duration_seconds)
        last_ticks = {index: int(latest / time_base) for index, time_base in bases.items()}
        try:
            for packet in container.demux(chosen):
                stream_index = packet.stream_index
                if packet.size == 0 or stream_index not in bases:
                    continue  # the empty packets that PyAV ends with
                time_base = bases[stream_index]
                dts = packet.dts
                offset = clock.offset(
                    stream_index, None if dts is None else dts * time_base, (packet.duration or 0) * time_base
                )
                if offset:
                    ticks = round(offset / time_base)
                    packet.pts = None if packet.pts is None else packet.pts + ticks
                    packet.dts = dts = None if dts is None else dts + ticks
                if dts is not None and not indexed:
                    holes.see(dts * seconds[stream_index], (packet.duration or 0) * seconds[stream_index])
                if packet.pts is not None and packet.pts > last_ticks[stream_index]:
                    raise self._too_long(stream_index)
                if packet.is_corrupt:
                    self._warnings.add("corrupt_packet", "damaged packets", _seconds(packet, time_base))
                yield packet, time_base
        except av.error.FFmpegError as error:
            if isinstance(error, MemoryError):
                raise
            self._warnings.add("read_error", f"the input could not be read to its end: {error}")

    def _too_long(self, stream: int) -> LimitExceeded:
        """Far times are refused before anything fills the way there with silence or repeated pictures."""
        limit = self._limits.max_duration_seconds
        message = f"track {stream} goes on for more than the {limit:g} s allowed"
        return LimitExceeded("limit_duration", message, stage="decode", stream=stream, limit=limit)

    def _seek(self) -> None:
        """To a keyframe at or before the clip's start; to the beginning where seeking fails."""
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
