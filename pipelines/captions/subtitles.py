"""Subtitle tracks of an output: text converted to the container's own kind, or any kind packet by packet.

Both start where their output starts, which copied video decides: packets wait until that is known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av
from av.packet import Packet
from av.subtitles.subtitle import SubtitleSet

from pipelines.captions.cues import UNTIMED_MS, Cue, Screen, for_webvtt, read_events
from pipelines.copy_track import CopyClock, twin_of
from pipelines.errors import cause
from pipelines.mux import Writer
from pipelines.timestamps import rescale
from pipelines.tracks import TrackState
from pipelines.warning_log import WarningLog

MILLISECOND = Fraction(1, 1000)
LATEST = Fraction(5)
"""Subtitles are believed to come at most this much later than what they are shown with."""
ASS_CODECS = ("ass", "ssa")
TEXT_PACKETS = frozenset({"subrip", "ass", "ssa", "webvtt", "text"})
"""Codecs whose packets are nothing but text."""


def utf8_packet(packet: Packet[Any], codec: str) -> Packet[Any]:
    """Itself where it is UTF-8, or not text alone; else with the text as UTF-8, taken for Windows-1252."""
    if codec not in TEXT_PACKETS:
        return packet
    data = bytes(packet)
    try:
        data.decode()
    except UnicodeDecodeError:
        recoded: Packet[Any] = Packet(data.decode("cp1252", "replace").encode())
        recoded.pts, recoded.dts, recoded.duration = packet.pts, packet.dts, packet.duration
        recoded.time_base = packet.time_base
        return recoded
    return packet


@dataclass
class Subtitles(ABC):
    """What copied and converted tracks have in common."""

    stream: Any
    writer: Writer
    clock: CopyClock
    warnings: WarningLog
    one_at_a_time: bool
    """The container shows one cue at a time."""
    state: TrackState = field(init=False)
    bytes: int = 0
    _waiting: list[tuple[Packet[Any], Fraction]] = field(default_factory=list)
    _last: int = 0

    def __post_init__(self) -> None:
        self.state = TrackState(self.stream.index, "subtitle")

    def write(self, packet: Packet[Any], time_base: Fraction, *, shared: bool = False) -> None:
        """`shared`: others use this packet too, so a twin of it is written."""
        if packet.pts is None:
            return
        self._waiting.append((twin_of(packet) if shared else packet, time_base))
        self.settle()

    def settle(self) -> None:
        origin = self.clock.origin
        if origin is None:
            return
        waiting, self._waiting = self._waiting, []
        for packet, time_base in waiting:
            self.take(packet, time_base, origin)

    @abstractmethod
    def take(self, packet: Packet[Any], time_base: Fraction, origin: Fraction) -> None:
        """A packet, now that it is known when the output starts."""

    def reached(self, time: Fraction) -> None:  # noqa: B027 - of no concern to all
        """The input is read up to about `time`."""

    def drain(self, time_base: Fraction) -> None:  # noqa: B027 - of no concern to all
        """Nothing is held back."""

    def finish(self, time_base: Fraction) -> None:
        """The input has ended; `time_base` is its track's."""
        self.settle()

    def within(self, begin: Fraction, end: Fraction, origin: Fraction) -> tuple[Fraction, Fraction] | None:
        """A cue's times on the output's clock, cut to the clip; None: nothing of it is inside."""
        bound = self.clock.span.end
        begin, end = max(begin - origin, Fraction(0)), end - origin
        if bound is not None:
            end = min(end, bound - origin)
        pace = self.clock.pace
        return (begin / pace, end / pace) if end > begin else None

    def put(self, packet: Packet[Any], end: Fraction) -> None:
        packet.stream = self.stream
        self.state.frames += 1
        self.state.packets += 1
        self.state.end = max(end, self.state.end or end)
        self.bytes += packet.size
        self.writer.write([packet])

    @property
    def end_seconds(self) -> float:
        return float(self.state.end or 0)


class SubtitleCopy(Subtitles):
    """A track that goes along as it is. Cues at the same time are usual; only the muxers for one at a time mind."""

    def take(self, packet: Packet[Any], time_base: Fraction, origin: Fraction) -> None:
        assert packet.pts is not None
        begin, length = packet.pts * time_base, (packet.duration or 0) * time_base
        if length:
            inside = self.within(begin, begin + length, origin)
        elif self.one_at_a_time:
            inside = None  # shown for no time at all
        else:
            bound = self.clock.span.end
            outside = begin < origin or (bound is not None and begin >= bound)
            inside = None if outside else ((begin - origin) / self.clock.pace,) * 2
        if inside is None:
            return
        start, end = (rescale(1, time, time_base) for time in inside)
        packet.pts = packet.dts = self._last = max(start, self._last)
        packet.duration = max(0, end - packet.pts)
        packet.time_base = time_base
        self.put(packet, inside[1])


@dataclass
class SubtitleTrack(Subtitles):
    """A text track that is decoded and encoded again. It has a decoder of its own: they number what they decode."""

    source: Any = None
    _open: Cue | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        context = self.source.codec_context
        self._codec: str = context.codec.canonical_name
        self._decoder: Any = av.CodecContext.create(context.codec.name, "r")
        if context.extradata:
            self._decoder.extradata = context.extradata
        self._screen = Screen() if self.one_at_a_time else None
        self._encodes_webvtt = self.stream.codec_context.name == "webvtt"

    def take(self, packet: Packet[Any], time_base: Fraction, origin: Fraction) -> None:
        assert packet.pts is not None
        begin = packet.pts * time_base
        length = (packet.duration or 0) * time_base
        try:
            subtitle = self._decoder.decode2(self._as_utf8(packet, begin))
        except av.error.FFmpegError as error:
            self.warnings.add("subtitle_error", f"a subtitle could not be decoded: {cause(error)}", float(begin))
            return
        if subtitle is None:
            return
        style, text = read_events([rect.ass for rect in subtitle], is_ass=self._codec in ASS_CODECS)
        if not length and 0 < subtitle.end_display_time < 0xFFFFFFFF:
            length = Fraction(subtitle.end_display_time - subtitle.start_display_time, 1000)
        inside = self.within(begin, begin + (length or UNTIMED_MS * MILLISECOND), origin)
        if inside is None:
            return
        cue = Cue(rescale(1, inside[0], MILLISECOND), rescale(1, inside[1], MILLISECOND), text, style)
        self._close(cue.begin)
        if not text or cue.end <= cue.begin:
            return
        if not length:
            self._open = cue
        else:
            self._show(cue)

    def _as_utf8(self, packet: Packet[Any], begin: Fraction) -> Packet[Any]:
        """Text in another encoding is taken for Windows-1252, the usual one of old subtitles."""
        recoded = utf8_packet(packet, self._codec)
        if recoded is not packet:
            self.warnings.add("subtitle_encoding", "subtitles that are not UTF-8 are read as CP1252", float(begin))
        return recoded

    def _close(self, begin: int) -> None:
        """The cue without a length ends where the next begins."""
        cue, self._open = self._open, None
        if cue is not None and (end := min(cue.end, begin)) > cue.begin:
            self._show(Cue(cue.begin, end, cue.text, cue.style))

    def _show(self, cue: Cue) -> None:
        self._encode([cue] if self._screen is None else self._screen.add(cue))

    def reached(self, time: Fraction) -> None:
        origin = self.clock.origin
        if self._screen is not None and origin is not None and not self._waiting:
            self._encode(self._screen.settled(int((time - origin - LATEST) / self.clock.pace / MILLISECOND)))

    def finish(self, time_base: Fraction) -> None:
        super().finish(time_base)
        if self._open is not None:
            self._close(self._open.end)
        if self._screen is not None:
            self._encode(self._screen.all())

    def _encode(self, cues: Iterable[Cue]) -> None:
        for cue in cues:
            text = for_webvtt(cue.text) if self._encodes_webvtt else cue.text
            line = f"{self.state.packets},0,{cue.style},,0,0,0,,{text}".encode()
            try:
                packet = self.stream.codec_context.encode_subtitle(SubtitleSet.create(line, 0, cue.end - cue.begin))
            except av.error.FFmpegError as error:
                self.warnings.add(
                    "subtitle_error", f"a subtitle could not be converted: {cause(error)}", cue.begin / 1000
                )
                continue
            packet.time_base = MILLISECOND
            packet.pts = packet.dts = self._last = max(cue.begin, self._last)
            packet.duration = max(1, cue.end - packet.pts)
            self.put(packet, cue.end * MILLISECOND)
