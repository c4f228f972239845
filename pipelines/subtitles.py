"""Text subtitles: decoded to their text and encoded as the container's own kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av
from av.packet import Packet

from pipelines.mux import Writer
from pipelines.timestamps import rescale
from pipelines.tracks import Span, TrackState
from pipelines.warning_log import WarningLog

MILLISECOND = Fraction(1, 1000)


@dataclass
class SubtitleTrack:
    """One text track of an output. Cues outside the span are left out, those across its ends are cut."""

    decoder: Any
    stream: Any
    writer: Writer
    span: Span
    warnings: WarningLog
    state: TrackState = field(init=False)
    bytes: int = 0
    _last: int = -1

    def __post_init__(self) -> None:
        self.state = TrackState(self.stream.index, "subtitle")

    def write(self, packet: Packet[Any], time_base: Fraction, *, shared: bool = False) -> None:
        if packet.pts is None:
            return
        begin = packet.pts * time_base - self.span.start
        length = (packet.duration or 0) * time_base
        try:
            subtitle = self.decoder.decode2(packet)
        except av.error.FFmpegError as error:
            self.warnings.add("subtitle_error", f"a subtitle could not be decoded: {error}", float(begin))
            return
        if subtitle is None or len(subtitle) == 0:
            return
        if not length and subtitle.end_display_time:
            length = Fraction(subtitle.end_display_time - subtitle.start_display_time, 1000)
        end = begin + length
        if self.span.end is not None:
            end = min(end, self.span.end - self.span.start)
        begin = max(begin, Fraction(0))
        if end <= begin:
            return
        try:
            encoded = self.stream.codec_context.encode_subtitle(subtitle)
        except av.error.FFmpegError as error:
            self.warnings.add("subtitle_error", f"a subtitle could not be converted: {error}", float(begin))
            return
        encoded.time_base = MILLISECOND
        encoded.pts = encoded.dts = max(self._last + 1, rescale(1, begin, MILLISECOND))
        encoded.duration = max(1, rescale(1, end, MILLISECOND) - encoded.pts)
        encoded.stream = self.stream
        self._last = encoded.pts
        self.state.frames += 1
        self.state.packets += 1
        self.state.end = end + self.span.start
        self.bytes += encoded.size
        self.writer.write([encoded])

    def finish(self, time_base: Fraction) -> None:
        """Nothing waits."""

    @property
    def end_seconds(self) -> float:
        return float((self.state.end or self.span.start) - self.span.start)
