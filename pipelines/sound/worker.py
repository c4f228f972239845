"""The thread of one audio track: decodes it and encodes it for each of its renditions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import av
from av.audio.frame import AudioFrame
from av.packet import Packet

from pipelines.channel import Channel
from pipelines.errors import cause
from pipelines.sound.finish import cut
from pipelines.sound.graph import AudioGraph
from pipelines.sound.loudness import LoudnessMeter
from pipelines.timestamps import rescale
from pipelines.tracks import Span, TrackState, is_packets_fault
from pipelines.warning_log import WarningLog


class Encoding(Protocol):
    """An encoder of sound."""

    def encode(self, frame: AudioFrame) -> list[Packet[Any]]: ...

    def flush(self) -> list[Packet[Any]]: ...


class Writing(Protocol):
    """Where its packets go."""

    def write(self, packets: list[Packet[Any]]) -> None: ...


@dataclass
class AudioTarget:
    """One rendition of a decoded audio track."""

    graph: AudioGraph
    encoder: Encoding
    writer: Writing
    meter: LoudnessMeter | None = None
    """Listens to what is encoded."""


class AudioWorker:
    """Decodes one audio track and encodes it for each of its renditions."""

    def __init__(
        self, stream: Any, packets: Channel[Packet[Any]], targets: list[AudioTarget], span: Span, warnings: WarningLog
    ) -> None:
        self.state = TrackState(stream.index, "audio")
        self._context = stream.codec_context
        self._time_base: Fraction = stream.time_base
        self._packets, self._targets = packets, targets
        self._span, self._warnings = span, warnings
        self._next: Fraction | None = None
        self._held: AudioFrame | None = None
        self._promised_end: Fraction | None = None

    def __call__(self) -> None:
        while (packet := self._packets.get()) is not None:
            if not self.state.done:
                self._decode(packet)
        if not self.state.done:
            self._decode(None)
        if self._held is not None:
            self._pass_on(self._without_padding(self._held))
        self._finish()

    def _finish(self) -> None:
        for target in self._targets:
            self.encode(target, target.graph.flush())
            target.writer.write(target.encoder.flush())

    def _decode(self, packet: Packet[Any] | None) -> None:
        self.state.packets += packet is not None
        if packet is not None and packet.pts is not None and packet.duration:
            end = (packet.pts + packet.duration) * self._time_base
            self._promised_end = max(end, self._promised_end or end)
        try:
            frames = self._context.decode(packet)
        except av.error.FFmpegError as error:
            if not is_packets_fault(error):
                raise
            self.state.errors += 1
            at = None if packet is None or packet.pts is None else float(packet.pts * self._time_base)
            self._warnings.add("decode_error", f"audio packets that could not be decoded: {cause(error)}", at)
            return
        for frame in frames:
            self._hear(frame)

    def _hear(self, frame: AudioFrame) -> None:
        time_base = frame.time_base or self._time_base
        time = None if frame.pts is None else frame.pts * time_base
        if time is None:
            time = self._next if self._next is not None else self._span.start
        duration = Fraction(frame.samples, frame.sample_rate)
        state = self.state
        state.frames += 1
        state.first = time if state.first is None else state.first
        state.end = self._next = time + duration
        span = self._span
        if span.end is not None and time >= span.end:
            state.done = True
            return
        if state.end <= span.start:
            return
        # samples as ticks: exact for what the container says in samples, and to the nearest one elsewhere
        tick = Fraction(1, frame.sample_rate)
        frame.pts = rescale(1, time - span.start, tick) if time != span.start else 0
        frame.time_base = tick
        if self._held is not None:
            self._pass_on(self._held)
        self._held = frame

    def _pass_on(self, frame: AudioFrame) -> None:
        for target in self._targets:
            self.encode(target, target.graph.push(frame))

    def _without_padding(self, last: AudioFrame) -> AudioFrame:
        """The last frame without what its encoder filled it up with: MP4 tells by a shorter last packet.

        Times in ticks longer than a sample are rounded, the packet's start and its length: that much tells nothing.
        """
        end, promised = self.state.end, self._promised_end
        if end is None or promised is None:
            return last
        rounding = 2 * self._time_base if self._time_base * last.sample_rate > 1 else Fraction(0)
        surplus = int((end - promised) * last.sample_rate)
        if surplus <= 0 or end - promised <= rounding:
            return last
        return cut(last, samples=last.samples - surplus) or last

    @staticmethod
    def encode(target: AudioTarget, frames: Iterable[AudioFrame]) -> None:
        for frame in frames:
            if target.meter is not None:
                target.meter.push(frame)
            target.writer.write(target.encoder.encode(frame))
