"""The threads of a run: one decodes each track, one filters and encodes each video rendition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av
from av.audio.frame import AudioFrame
from av.packet import Packet
from av.video.frame import VideoFrame

from pipelines.channel import Channel
from pipelines.encode import AudioEncoder, VideoEncoder
from pipelines.errors import LimitExceeded
from pipelines.graph import AudioGraph, VideoGraph
from pipelines.limits import Limits
from pipelines.mux import Writer
from pipelines.rendition import VideoRendition
from pipelines.timestamps import ConstantRate, PresentationOrder, rescale
from pipelines.warning_log import WarningLog

CLIP_TOLERANCE = Fraction(1, 1000)
"""A frame this little before a clip's start belongs to it: start times are typed in decimals."""


@dataclass
class Span:
    """What is taken of the input, in seconds on its continuous clock. `clipped`: the start lies inside the input."""

    start: Fraction
    end: Fraction | None
    clipped: bool


@dataclass
class TrackState:
    """What a decoder has seen of its track; read by others for progress and completeness."""

    stream: int
    kind: str
    frames: int = 0
    errors: int = 0
    packets: int = 0
    first: Fraction | None = None
    end: Fraction | None = None
    done: bool = False
    """Nothing more of this track is needed: the clip's end is passed."""


def is_packets_fault(error: av.error.FFmpegError) -> bool:
    """Whether decoding can go on after it: all but running out of memory, which is the machine's."""
    return not isinstance(error, MemoryError)


class VideoDecoder:
    """Decodes one video track and hands each frame to the channels of its renditions."""

    def __init__(
        self,
        stream: Any,
        packets: Channel[Packet],
        frames: list[Channel[VideoFrame]],
        span: Span,
        limits: Limits,
        warnings: WarningLog,
        default_step: int,
    ) -> None:
        self.state = TrackState(stream.index, "video")
        self._context = stream.codec_context
        self._time_base: Fraction = stream.time_base
        self._packets, self._frames = packets, frames
        self._span, self._limits, self._warnings = span, limits, warnings
        self._order = PresentationOrder(default_step, warnings.add, self._time_base)
        self._waiting: tuple[VideoFrame, int] | None = None
        self._pixels = 0

    def __call__(self) -> None:
        while (packet := self._packets.get()) is not None:
            if not self.state.done:
                self._decode(packet)
        if not self.state.done:
            self._decode(None)
        if self._waiting is not None:
            self._put(*self._waiting)
        for channel in self._frames:
            channel.close()

    def _decode(self, packet: Packet | None) -> None:
        try:
            frames = self._context.decode(packet)
        except av.error.FFmpegError as error:
            if not is_packets_fault(error):
                raise
            self.state.errors += 1
            at = None if packet is None or packet.pts is None else float(packet.pts * self._time_base)
            self._warnings.add("decode_error", f"video packets that could not be decoded: {error}", at)
            return
        for frame in frames:
            self._show(frame)

    def _show(self, frame: VideoFrame) -> None:
        pts = self._order.place(frame.pts, frame.dts, frame.duration)
        if pts is None or self.state.done:
            return
        time = pts * self._time_base
        frame.pts = pts
        if frame.is_corrupt:
            self._warnings.add("corrupt_frame", "frames decoded with damage", float(time))
        self.state.frames += 1
        self._check_work(frame, time)
        if self.state.first is None:
            self.state.first = time
        self.state.end = time + max(frame.duration, 1) * self._time_base
        span = self._span
        if span.end is not None and time >= span.end - CLIP_TOLERANCE:
            self.state.done = True
            return
        if span.clipped and time < span.start - CLIP_TOLERANCE:
            self._waiting = (frame, pts)
            return
        if self._waiting is not None:
            before, self._waiting = self._waiting, None
            if time > span.start + CLIP_TOLERANCE:
                self._put(*before)  # it is the frame on screen when the clip starts
        self._put(frame, pts)

    def _put(self, frame: VideoFrame, pts: int) -> None:
        for channel in self._frames:
            channel.put(frame)

    def _check_work(self, frame: VideoFrame, time: Fraction) -> None:
        pixels = frame.width * frame.height
        if pixels > self._limits.max_pixels:
            raise LimitExceeded(
                "limit_pixels", f"a frame has {pixels} pixels", stage="decode", limit=self._limits.max_pixels
            )
        self._pixels += pixels
        if self._pixels > self._limits.max_work:
            raise LimitExceeded("limit_work", "too many pixels to decode", stage="decode", limit=self._limits.max_work)
        if time - self._span.start > self._limits.max_duration_seconds:
            raise LimitExceeded(
                "limit_duration", "the input is too long", stage="decode", limit=self._limits.max_duration_seconds
            )


class VideoWorker:
    """Filters, times and encodes one video rendition."""

    def __init__(
        self,
        rendition: VideoRendition,
        frames: Channel[VideoFrame],
        graph: VideoGraph,
        encoder: VideoEncoder,
        writer: Writer,
        source_time_base: Fraction,
        time_base: Fraction,
        span: Span,
    ) -> None:
        self.rendition, self.encoder = rendition, encoder
        self.constant = ConstantRate(rendition.frame_rate) if rendition.constant_rate else None
        self._frames, self._graph, self._writer = frames, graph, writer
        self._source_time_base, self._time_base, self._span = source_time_base, time_base, span
        self._held: tuple[VideoFrame, int] | None = None
        self._last_duration = 0

    def __call__(self) -> None:
        while (frame := self._frames.get()) is not None:
            for filtered in self._graph.push(frame):
                self._show(filtered)
        for filtered in self._graph.flush():
            self._show(filtered)
        if self._held is not None:
            frame, pts = self._held
            usual = max(1, round(1 / self.rendition.frame_rate / self._source_time_base))
            self._encode(frame, pts, pts + (self._last_duration or usual))
        self._writer.write(self.encoder.flush())

    def _show(self, frame: VideoFrame) -> None:
        """Frames leave one late: only the next one's time tells how long a frame is shown."""
        pts = frame.pts
        assert pts is not None
        if frame.duration > 0:
            self._last_duration = frame.duration
        if self._held is not None:
            held, held_pts = self._held
            if pts <= held_pts:
                return
            if frame.duration <= 0:
                self._last_duration = pts - held_pts
            self._encode(held, held_pts, pts)
        elif self._span.clipped and pts * self._source_time_base < self._span.start + CLIP_TOLERANCE:
            pts = rescale(1, self._span.start, self._source_time_base)
        self._held = (frame, pts)

    def _encode(self, frame: VideoFrame, pts: int, until: int) -> None:
        if self.constant is None:
            start = rescale(pts, self._source_time_base, self._time_base, self._span.start)
            end = rescale(until, self._source_time_base, self._time_base, self._span.start)
            self._writer.write(self.encoder.encode(frame, start, max(1, end - start)))
            return
        if self.encoder.frames == 0:
            self.constant.next_slot = self.constant.slot(pts * self._source_time_base - self._span.start)
        for slot in self.constant.fill(until * self._source_time_base - self._span.start):
            self._writer.write(self.encoder.encode(frame, slot, 1))


@dataclass
class AudioTarget:
    """One rendition of a decoded audio track."""

    graph: AudioGraph
    encoder: AudioEncoder
    writer: Writer


class AudioWorker:
    """Decodes one audio track and encodes it for each of its renditions."""

    def __init__(
        self, stream: Any, packets: Channel[Packet], targets: list[AudioTarget], span: Span, warnings: WarningLog
    ) -> None:
        self.state = TrackState(stream.index, "audio")
        self._context = stream.codec_context
        self._time_base: Fraction = stream.time_base
        self._packets, self._targets = packets, targets
        self._span, self._warnings = span, warnings
        self._next: Fraction | None = None

    def __call__(self) -> None:
        while (packet := self._packets.get()) is not None:
            if not self.state.done:
                self._decode(packet)
        if not self.state.done:
            self._decode(None)
        for target in self._targets:
            self._encode(target, target.graph.flush())
            target.writer.write(target.encoder.flush())

    def _decode(self, packet: Packet | None) -> None:
        try:
            frames = self._context.decode(packet)
        except av.error.FFmpegError as error:
            if not is_packets_fault(error):
                raise
            self.state.errors += 1
            at = None if packet is None or packet.pts is None else float(packet.pts * self._time_base)
            self._warnings.add("decode_error", f"audio packets that could not be decoded: {error}", at)
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
        for target in self._targets:
            self._encode(target, target.graph.push(frame))

    @staticmethod
    def _encode(target: AudioTarget, frames: Iterable[AudioFrame]) -> None:
        for frame in frames:
            target.writer.write(target.encoder.encode(frame))


@dataclass
class CopyTrack:
    """Packets of one track that go along: times shifted to the output's, decode times made to rise."""

    stream: Any
    writer: Writer
    span: Span
    keyframe_start: bool
    warnings: WarningLog
    state: TrackState = field(init=False)
    bytes: int = 0
    _last_dts: int | None = None
    _started: bool = False

    def __post_init__(self) -> None:
        self.state = TrackState(self.stream.index, "copy")

    def write(self, packet: Packet, time_base: Fraction) -> None:
        dts = packet.dts if packet.dts is not None else packet.pts
        pts = packet.pts if packet.pts is not None else packet.dts
        if dts is None or pts is None:
            dts = pts = self._last_dts + 1 if self._last_dts is not None else rescale(1, self.span.start, time_base)
        time = pts * time_base
        duration = (packet.duration or 0) * time_base
        if not self._started:
            before = self.span.clipped and time + duration <= self.span.start
            if (before and not self.keyframe_start) or (self.keyframe_start and not packet.is_keyframe):
                return
            self._started = True
        if self.span.end is not None and dts * time_base >= self.span.end:
            self.state.done = True
            return
        if self._last_dts is not None and dts <= self._last_dts:
            self.warnings.add("falling_timestamp", "a packet's time fell back and was repaired", float(time))
            dts = self._last_dts + 1
            pts = max(pts, dts)
        self._last_dts = dts
        self.state.frames += 1
        self.state.packets += 1
        self.state.first = time if self.state.first is None else min(time, self.state.first)
        self.state.end = max(time + duration, self.state.end or time)
        self.bytes += packet.size
        packet.pts = rescale(pts, time_base, time_base, self.span.start)
        packet.dts = rescale(dts, time_base, time_base, self.span.start)
        packet.time_base = time_base
        packet.stream = self.stream
        self.writer.write([packet])

    @property
    def end_seconds(self) -> float:
        return float((self.state.end or self.span.start) - self.span.start)
