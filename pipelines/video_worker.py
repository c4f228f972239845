"""The threads of one video track: its decoder, and one worker for each rendition, which filters, times and encodes."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import Any

import av
from av.packet import Packet
from av.video.frame import VideoFrame

from pipelines.channel import Channel
from pipelines.encode import VideoEncoder
from pipelines.errors import LimitExceeded
from pipelines.graph import VideoGraph
from pipelines.limits import Limits
from pipelines.mux import Writer
from pipelines.picture_facts import AspectWatch
from pipelines.rendition import VideoRendition
from pipelines.timestamps import ConstantRate, PresentationOrder, rescale
from pipelines.tracks import CLIP_TOLERANCE, Span, TrackState, is_packets_fault
from pipelines.warning_log import WarningLog


class VideoDecoder:
    """Decodes one video track and hands each frame to the channels of its renditions."""

    def __init__(
        self,
        stream: Any,
        packets: Channel[Packet[Any]],
        frames: list[Channel[VideoFrame]],
        span: Span,
        limits: Limits,
        warnings: WarningLog,
        default_step: int,
        *,
        slots_only: bool,
    ) -> None:
        """`slots_only`: packets say when a frame is due, not which: AVI knows no presentation times."""
        self.state = TrackState(stream.index, "video")
        self._context = stream.codec_context
        self._time_base: Fraction = stream.time_base
        self._packets, self._frames = packets, frames
        self._span, self._limits, self._warnings = span, limits, warnings
        self._order = PresentationOrder(default_step, warnings.add, self._time_base)
        self._slots: deque[int] | None = deque() if slots_only else None
        self._waiting: tuple[VideoFrame, int] | None = None
        self._pixels = 0
        self._aspect = AspectWatch()

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

    def _decode(self, packet: Packet[Any] | None) -> None:
        if self._slots is not None and packet is not None and packet.dts is not None:
            self._slots.append(packet.dts)
        try:
            frames = self._context.decode(packet)
        except av.error.FFmpegError as error:
            if not is_packets_fault(error):
                raise
            if self._slots:
                self._slots.popleft()
            self.state.errors += 1
            at = None if packet is None or packet.pts is None else float(packet.pts * self._time_base)
            self._warnings.add("decode_error", f"video packets that could not be decoded: {error}", at)
            return
        if frames:
            self._aspect.tell(frames, self._context.sample_aspect_ratio)
        for frame in frames:
            self._show(frame)

    def _show(self, frame: VideoFrame) -> None:
        due = frame.pts if self._slots is None else self._slots.popleft() if self._slots else None
        pts = self._order.place(due, frame.dts if self._slots is None else due, frame.duration)
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
