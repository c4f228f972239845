"""The thread of one encoded video track of a stream: filters, times and encodes what the decoder hands it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from av.packet import Packet
from av.video.frame import VideoFrame

from pipelines.graph import VideoGraph
from pipelines.hardware.graph import HardwareGraph
from pipelines.live.encoding import LaneEncoder
from pipelines.live.homes import TICK
from pipelines.live.units import Piece, Unit
from pipelines.live.worker import Worker
from pipelines.rendition import VideoRendition
from pipelines.timestamps import ConstantRate, nearest, quotient

BUFFER_BYTES = 96 << 20
"""Frames that wait for an encoder: as many as fit here, 8 to 50. Are there more, it is too slow: the oldest go."""


class VideoLane(Worker):
    """`put` never waits. A frame's time is in ticks of 1/90000 s on the output's clock."""

    def __init__(
        self,
        name: str,
        rendition: VideoRendition,
        encoder: LaneEncoder,
        graph: VideoGraph,
        tell: Callable[[Piece], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(f"video {name}")
        self.name = name
        self.dropped = self.duplicated = 0
        self._encoder, self._time_base = encoder, encoder.time_base
        self._graph = graph
        self._place: object = None
        self._begun = False
        self._constant = ConstantRate(rendition.frame_rate) if rendition.constant_rate else None
        self._usual = max(1, nearest(1 / rendition.frame_rate / self._time_base))
        self._frames: deque[tuple[VideoFrame, bool, object]] = deque()
        self._last: int | None = None
        self._base: Fraction | None = None
        self._ratio = (0, 1)
        """What is counted in, to a tick of `_base`."""
        self._held: tuple[VideoFrame, object] | None = None
        self._fresh_from: int | None = None
        self._tell, self._failed = tell, failed

    def put(self, frame: VideoFrame, *, fresh: bool = False, place: object = None) -> None:
        """`fresh`: frames are missing before this one. `place`: whose surface it is; None: it is in memory."""
        with self._changed:
            if len(self._frames) >= max(8, min(50, BUFFER_BYTES // (2 * frame.width * frame.height))):
                _, lost_mark, _ = self._frames.popleft()
                self.dropped += 1
                if lost_mark and self._frames:
                    following, _, where = self._frames[0]
                    self._frames[0] = (following, True, where)
                elif lost_mark:
                    fresh = True
            self._frames.append((frame, fresh, place))
            self._changed.notify()

    @property
    def waiting(self) -> int:
        return len(self._frames)

    def _work(self) -> None:
        try:
            while (item := self._get()) is not None:
                frame, fresh, place = item
                if place is not self._place:
                    self._move(place)
                if fresh:
                    self._renew(frame)
                for filtered in self._graph.push(frame):
                    self._show(filtered)
            for filtered in self._graph.flush():
                self._show(filtered)
            self._send(self._encoder.flush())
        except BaseException as error:  # noqa: BLE001 - it is raised again where the stream is watched
            self._failed(error)

    def _get(self) -> tuple[VideoFrame, bool, object] | None:
        with self._changed:
            self.working_since = None
            while not self._frames and not self._finishing:
                self._changed.wait()
            self.working_since = time.monotonic()
            return self._frames.popleft() if self._frames else None

    def _move(self, place: object) -> None:
        """Pictures come from elsewhere: filters are built for one place."""
        for filtered in self._graph.flush():
            self._show(filtered)
        self._place = place

    def _renew(self, frame: VideoFrame) -> None:
        """What comes does not go on from what was: it starts with a keyframe, and fills no gap."""
        for filtered in self._graph.flush():
            self._show(filtered)
        self._held = None
        moment = (frame.pts or 0) * TICK
        self._fresh_from = nearest(moment / self._time_base)
        if self._constant is not None:
            self._constant.next_slot = max(self._constant.next_slot, self._constant.slot(moment))
            self._fresh_from = self._constant.next_slot
        self._encoder.cut()

    def _show(self, frame: VideoFrame) -> None:
        at = self._counted(frame.pts or 0, frame.time_base or TICK)
        place = None if isinstance(self._graph, HardwareGraph) and self._graph.uploads else self._place
        if self._constant is None:
            if self._last is not None and at <= self._last:
                self.dropped += 1
                return
            self._last = at
            self._encode(frame, place, at, self._usual)
            return
        if self._held is None:
            if not self._begun:
                self._constant.next_slot = at
        else:
            before = self._constant.dropped, self._constant.repeated
            for slot in self._constant.fill_to(at):
                self._encode(*self._held, slot, 1)
            self.dropped += self._constant.dropped - before[0]
            self.duplicated += self._constant.repeated - before[1]
        self._held = (frame, place)

    def _counted(self, ticks: int, base: Fraction) -> int:
        """A time in the encoder's ticks, or in slots where the rate is constant."""
        if base != self._base:
            rate = 1 / self._time_base if self._constant is None else self._constant.rate
            self._base, self._ratio = base, (base * rate).as_integer_ratio()
        numerator, denominator = self._ratio
        return quotient(ticks * numerator, denominator)

    def _encode(self, frame: VideoFrame, place: object, start: int, duration: int) -> None:
        self._begun = True
        self._send(self._encoder.turn(place))
        self._send(self._encoder.encode(frame, start, duration))

    def _send(self, packets: list[Packet[Any]]) -> None:
        for packet in packets:
            pts = packet.pts or 0
            dts = pts if packet.dts is None else packet.dts
            fresh = self._fresh_from is not None and pts >= self._fresh_from and packet.is_keyframe
            if fresh:
                self._fresh_from = None
            unit = Unit(bytes(packet), pts, dts, packet.duration or self._usual, packet.is_keyframe)
            self._tell(Piece(self._encoder.track, unit, fresh))
