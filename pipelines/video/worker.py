"""The threads of one video track: its decoder, and one worker for each rendition, which filters, times and encodes."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import Any

import av
from av.packet import Packet
from av.video.frame import VideoFrame

from pipelines.channel import Channel
from pipelines.containers import Durations
from pipelines.encode import VideoEncoder
from pipelines.errors import LimitExceeded, cause
from pipelines.facts.pictures import AspectWatch
from pipelines.graph import VideoGraph
from pipelines.hardware.decoding import DecodeWatch
from pipelines.limits import Limits
from pipelines.mux import Writer
from pipelines.rendition import VideoRendition
from pipelines.timestamps import ConstantRate, PresentationOrder, lasts_until, nearest
from pipelines.tracks import CLIP_TOLERANCE, Span, TrackState, is_packets_fault
from pipelines.warning_log import WarningLog

BRIEF_SECONDS = Fraction(1, 10)
"""About what players show a last picture for where its container can't say."""
LONGEST_SECONDS = 3600
"""A picture that stays for longer is sent again: MP4 counts a duration in 32 bits."""


class VideoDecoder:
    """Decodes one video track and hands each frame to the channels of its renditions."""

    def __init__(
        self,
        stream: Any,
        state: TrackState,
        packets: Channel[Packet[Any]],
        frames: list[Channel[VideoFrame]],
        span: Span,
        limits: Limits,
        warnings: WarningLog,
        default_step: int,
        *,
        slots_only: bool,
        context: Any = None,
        watch: DecodeWatch | None = None,
        keyframes_only: bool = False,
    ) -> None:
        """`slots_only`: packets say when a frame is due, not which. `context`, `watch`: of a decoder on a GPU.

        `keyframes_only`: the other packets are only counted.
        """
        self.state = state
        self._context = context or stream.codec_context
        self._watch = watch
        self._time_base: Fraction = stream.time_base
        self._packets, self._frames = packets, frames
        self._span, self._limits, self._warnings = span, limits, warnings
        self._order = PresentationOrder(default_step, warnings.add, self._time_base)
        self._slots: deque[int] | None = deque() if slots_only else None
        self._waiting: tuple[VideoFrame, int] | None = None
        self._pixels = 0
        self._aspect = AspectWatch()
        self._keyframes_only = keyframes_only
        if keyframes_only:
            self._context.skip_frame = "NONKEY"

    def __call__(self) -> None:
        while (packet := self._packets.get()) is not None:
            if not self.state.done:
                self._decode(packet)
        if not self.state.done:
            self._decode(None)
        if self._waiting is not None and not self._span.exact:
            self._put(*self._waiting)
        if self._watch is not None and not self.state.done:
            self._watch.finish()
        self._end()

    def _end(self) -> None:
        for channel in self._frames:
            channel.close()

    def _decode(self, packet: Packet[Any] | None) -> None:
        self.state.packets += packet is not None
        if self._keyframes_only and packet is not None:
            self._see_passing(packet)
            if not packet.is_keyframe:
                return
        if self._slots is not None and packet is not None and packet.dts is not None:
            self._slots.append(packet.dts)
        try:
            frames = self._context.decode(packet)
        except av.error.FFmpegError as error:
            if self._watch is not None:
                self._watch.failed(error)
            if not is_packets_fault(error):
                raise
            if self._slots:
                self._slots.popleft()
            self.state.errors += 1
            at = None if packet is None or packet.pts is None else float(packet.pts * self._time_base)
            self._warnings.add("decode_error", f"video packets that could not be decoded: {cause(error)}", at)
            return
        if self._watch is not None:
            self._watch.saw(packet, frames)
        if frames:
            self._aspect.tell(frames, self._context.sample_aspect_ratio)
        for frame in frames:
            self._show(frame)

    def _see_passing(self, packet: Packet[Any]) -> None:
        """Where the track ends is known without its pictures."""
        if packet.pts is not None:
            end = (packet.pts + max(packet.duration or 0, 1)) * self._time_base
            self.state.end = end if self.state.end is None else max(self.state.end, end)

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
        end = time + max(frame.duration, 1) * self._time_base
        self.state.end = max(end, self.state.end or end) if self._keyframes_only else end
        span = self._span
        if span.end is not None and time >= span.end - span.tolerance:
            self.state.done = True
            return
        if span.clipped and time < span.start - span.tolerance:
            self._waiting = (frame, pts)
            return
        if self._waiting is not None:
            before, self._waiting = self._waiting, None
            if time > span.start + CLIP_TOLERANCE and not span.exact:
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
        track: TrackState,
        frames: Channel[VideoFrame],
        graph: VideoGraph,
        encoder: VideoEncoder,
        writer: Writer,
        source_time_base: Fraction,
        time_base: Fraction,
        span: Span,
        *,
        durations: Durations,
        promised_end: Fraction | None,
    ) -> None:
        self.rendition, self.encoder = rendition, encoder
        self.constant = ConstantRate(rendition.frame_rate) if rendition.constant_rate else None
        self._track, self._frames, self._graph, self._writer = track, frames, graph, writer
        self._source_time_base, self.time_base, self._span = source_time_base, time_base, span
        self._durations, self._promised_end = durations, promised_end
        self._pace = rendition.pace
        self._brief = BRIEF_SECONDS * rendition.pace
        self._held: tuple[VideoFrame, Fraction] | None = None
        self._last_duration = self._longest = Fraction(0)
        self._last_start: int | None = None
        self._known: tuple[Fraction | None, int] = (None, 0)
        self._longest_shown = int(LONGEST_SECONDS / time_base)
        self._first: tuple[int, int] | None = None
        self.received = self.filtered = self._late = self._again = 0

    @property
    def dropped(self) -> int:
        """Filtered pictures that are not in the output."""
        return self._late + (0 if self.constant is None else self.constant.dropped)

    @property
    def repeated(self) -> int:
        """Pictures of the output that are there once more."""
        return self._again + (0 if self.constant is None else self.constant.repeated)

    def __call__(self) -> None:
        while (frame := self._frames.get()) is not None:
            self.received += 1
            for filtered in self._graph.push(frame):
                self._show(filtered)
        for filtered in self._graph.flush():
            self._show(filtered)
        if self._held is not None:
            self._finish(*self._held)
        packets = self.encoder.flush()
        self._see_first(packets)
        if packets and self._durations == "last" and self._first is not None and not self._span.exact:
            lasts_until(packets[-1], self.encoder.end, self._first)
        self._writer.write(packets)

    def _show(self, frame: VideoFrame) -> None:
        """Frames leave one late: only the next one's time tells how long a frame is shown."""
        self.filtered += 1
        # a deinterlacer's ticks are not the source's
        tick = frame.time_base or self._source_time_base
        assert frame.pts is not None
        time = frame.pts * tick
        if frame.duration > 0:
            self._last_duration = frame.duration * tick
        if self._held is not None:
            held, held_time = self._held
            if time <= held_time:
                self._late += 1
                return
            self._longest = max(self._longest, time - held_time)
            if frame.duration <= 0:
                self._last_duration = time - held_time
            self._encode(held, held_time, time)
        elif self._span.clipped and time < self._span.start + self._span.tolerance:
            time = self._span.start
        self._held = (frame, time)

    def _finish(self, frame: VideoFrame, time: Fraction) -> None:
        """The last frame is shown for as long as its container says, and up to a clip's end where that comes first."""
        until = time + (self._last_duration or self._pace / self.rendition.frame_rate)
        promised = self._promised_end
        if promised is not None and time < promised and abs(promised - until) <= self._longest:
            # MP4 gives durations in decode order, which with B-frames are those of other frames
            until = promised
        if self._span.end is not None and time < self._span.end:
            until = self._span.end if self._track.done else min(until, self._span.end)
        if self._durations == "none" and not self._span.goes_on and until - time > 2 * self._brief:
            # sent once more just before its end, for there is no other way to say when that is
            self._encode(frame, time, until - self._brief)
            self._again += self.constant is None
            time = until - self._brief
        self._encode(frame, time, until)

    def _encode(self, frame: VideoFrame, time: Fraction, until: Fraction) -> None:
        if self.constant is None:
            start, end = self._tick(time), self._tick(until)
            if self._last_start is not None and start <= self._last_start:
                if start < self._last_start:
                    self._late += 1
                    return  # so close that its tick, and the one after, have a frame already
                start += 1
            while end - start > self._longest_shown:
                self._write(self.encoder.encode(frame, start, self._longest_shown))
                start += self._longest_shown
                self._again += 1
            self._last_start = start
            self._write(self.encoder.encode(frame, start, max(1, end - start)))
            return
        if self.encoder.frames == 0:
            self.constant.next_slot = self.constant.slot(self._played(time))
        for slot in self.constant.fill(self._played(until)):
            self._write(self.encoder.encode(frame, slot, 1))

    def _played(self, time: Fraction) -> Fraction:
        """The output's time for one of the source."""
        return (time - self._span.zero) / self._pace

    def _tick(self, time: Fraction) -> int:
        """The encoder's tick; each frame's start was the end of the one before it."""
        if time is not self._known[0]:
            self._known = (time, nearest(self._played(time) / self.time_base))
        return self._known[1]

    def _write(self, packets: list[Packet[Any]]) -> None:
        self._see_first(packets)
        self._writer.write(packets)

    def _see_first(self, packets: list[Packet[Any]]) -> None:
        if self._first is None and packets:
            pts, dts = packets[0].pts or 0, packets[0].dts
            self._first = (pts, pts if dts is None else dts)
