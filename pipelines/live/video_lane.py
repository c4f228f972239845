"""The thread of one encoded video track of a stream: filters, times and encodes what the decoder hands it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from av.packet import Packet
from av.video.frame import VideoFrame

from pipelines.encode import VideoEncoder
from pipelines.graph import VideoGraph
from pipelines.live.homes import TICK
from pipelines.live.units import Piece, Track, Unit
from pipelines.live.worker import Worker
from pipelines.rendition import VideoRendition
from pipelines.timestamps import ConstantRate, nearest

BUFFER_BYTES = 96 << 20
"""Frames that wait for an encoder: as many as fit here, 8 to 50. Are there more, it is too slow: the oldest go."""


class VideoLane(Worker):
    """`put` never waits. A frame's time is in ticks of 1/90000 s on the output's clock."""

    def __init__(
        self,
        rendition: VideoRendition,
        encoder: VideoEncoder,
        track: Track,
        time_base: Fraction,
        aspect: Fraction,
        tell: Callable[[Piece], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(f"video {track.name}")
        self.track = track
        self.dropped = self.duplicated = 0
        self._rendition, self._encoder, self._time_base = rendition, encoder, time_base
        self._graph = VideoGraph(rendition, TICK, aspect)
        self._constant = ConstantRate(rendition.frame_rate) if rendition.constant_rate else None
        self._usual = max(1, nearest(1 / rendition.frame_rate / time_base))
        self._frames: deque[tuple[VideoFrame, bool]] = deque()
        self._last: int | None = None
        self._held: tuple[VideoFrame, Fraction] | None = None
        self._fresh_from: int | None = None
        self._tell, self._failed = tell, failed

    def put(self, frame: VideoFrame, *, fresh: bool = False) -> None:
        """`fresh`: frames are missing before this one."""
        with self._changed:
            if len(self._frames) >= max(8, min(50, BUFFER_BYTES // (2 * frame.width * frame.height))):
                _, lost_mark = self._frames.popleft()
                self.dropped += 1
                if lost_mark and self._frames:
                    self._frames[0] = (self._frames[0][0], True)
                elif lost_mark:
                    fresh = True
            self._frames.append((frame, fresh))
            self._changed.notify()

    @property
    def waiting(self) -> int:
        return len(self._frames)

    def _work(self) -> None:
        try:
            while (item := self._get()) is not None:
                frame, fresh = item
                if fresh:
                    self._renew(frame)
                for filtered in self._graph.push(frame):
                    self._show(filtered)
            for filtered in self._graph.flush():
                self._show(filtered)
            self._send(self._encoder.flush())
        except BaseException as error:  # noqa: BLE001 - it is raised again where the stream is watched
            self._failed(error)

    def _get(self) -> tuple[VideoFrame, bool] | None:
        with self._changed:
            while not self._frames and not self._finishing:
                self._changed.wait()
            return self._frames.popleft() if self._frames else None

    def _renew(self, frame: VideoFrame) -> None:
        """What comes does not go on from what was: it starts with a keyframe, and fills no gap."""
        for filtered in self._graph.flush():
            self._show(filtered)
        self._held = None
        time = (frame.pts or 0) * TICK
        self._fresh_from = nearest(time / self._time_base)
        if self._constant is not None:
            self._constant.next_slot = max(self._constant.next_slot, self._constant.slot(time))
            self._fresh_from = self._constant.next_slot
        self._encoder.cut()

    def _show(self, frame: VideoFrame) -> None:
        time = (frame.pts or 0) * (frame.time_base or TICK)
        if self._constant is None:
            start = nearest(time / self._time_base)
            if self._last is not None and start <= self._last:
                self.dropped += 1
                return
            self._last = start
            self._send(self._encoder.encode(frame, start, self._usual))
            return
        if self._held is None:
            if self._encoder.frames == 0:
                self._constant.next_slot = self._constant.slot(time)
        else:
            before = self._constant.dropped, self._constant.repeated
            for slot in self._constant.fill(time):
                self._send(self._encoder.encode(self._held[0], slot, 1))
            self.dropped += self._constant.dropped - before[0]
            self.duplicated += self._constant.repeated - before[1]
        self._held = (frame, time)

    def _send(self, packets: list[Packet[Any]]) -> None:
        for packet in packets:
            pts = packet.pts or 0
            dts = pts if packet.dts is None else packet.dts
            fresh = self._fresh_from is not None and pts >= self._fresh_from and packet.is_keyframe
            if fresh:
                self._fresh_from = None
            unit = Unit(bytes(packet), pts, dts, packet.duration or self._usual, packet.is_keyframe)
            self._tell(Piece(self.track, unit, fresh))
