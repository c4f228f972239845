"""The threads that decode a stream's tracks, once for all that is made of them."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av
from av.audio.frame import AudioFrame
from av.packet import Packet
from av.video.frame import VideoFrame

from pipelines.errors import LimitExceeded
from pipelines.facts.pictures import AspectWatch
from pipelines.hardware.graph import is_on_gpu
from pipelines.limits import Limits
from pipelines.live.audio_lane import AudioLane
from pipelines.live.gpu import GpuWatch
from pipelines.live.homes import TICK
from pipelines.live.snapshot import Snapshots
from pipelines.live.video_lane import VideoLane
from pipelines.live.worker import Worker
from pipelines.timestamps import PresentationOrder, quotient
from pipelines.tracks import is_packets_fault

CAPACITY = 256
"""Packets that wait for a decoder; when they are more, it is too slow, and waits for the next keyframe."""
GAP_TICKS = TICK.denominator
"""A second. From a longer one on, what comes does not go on from what was."""
SILENT_SECONDS = Fraction(1)
"""How far sound may stay behind the picture until silence takes its place."""
_LOOK_SECONDS = 0.25


@dataclass
class Source:
    """A connection's decoder for one track."""

    context: Any
    time_base: Fraction
    order: PresentationOrder
    watch: GpuWatch | None = None
    """Of a decoder on a GPU."""
    aspect: AspectWatch = field(default_factory=AspectWatch)

    def __post_init__(self) -> None:
        self.ratio = self.time_base.as_integer_ratio()


class Decoder(Worker):
    """A queue of packets and the thread that takes them. `put` never waits."""

    batch = 1
    """How many packets wake the thread; fewer wait for a moment."""

    def __init__(self, name: str, failed: Callable[[BaseException], None]) -> None:
        super().__init__(name)
        self.corrupt = self.skipped = 0
        self._failed = failed
        self._queue: deque[tuple[Source, Packet[Any] | None]] = deque()
        self._busy = self._skipping = False

    def put(self, source: Source, packet: Packet[Any]) -> None:
        with self._changed:
            if self._skipping and packet.is_keyframe and len(self._queue) < CAPACITY // 2:
                self._skipping = False
            if self._skipping or len(self._queue) >= CAPACITY:
                self._skipping = True
                self.skipped += 1
                return
            self._queue.append((source, packet))
            if len(self._queue) >= self.batch:
                self._changed.notify()

    def drain(self, source: Source, seconds: float) -> None:
        """The connection has ended: what its decoder still holds comes out, within that time."""
        with self._changed:
            self._skipping = False
            self._queue.append((source, None))
            self._changed.notify()
            self._changed.wait_for(lambda: not self._queue and not self._busy, seconds)

    def _work(self) -> None:
        try:
            while (items := self._get()) is not None:
                for item in items:
                    self.working_since = time.monotonic()
                    self._decode(*item)
                if not items:
                    self.idle()
            self.end()
        except BaseException as error:  # noqa: BLE001 - it is raised again where the stream is watched
            self._failed(error)

    def _get(self) -> list[tuple[Source, Packet[Any] | None]] | None:
        """Up to `batch` packets; none when there was nothing for a moment; None at the end."""
        with self._changed:
            self.working_since = None
            if self._busy and not self._queue:
                self._changed.notify_all()
            self._busy = False
            if not self._queue and not self._finishing:
                self._changed.wait(_LOOK_SECONDS)
            if not self._queue:
                return None if self._finishing else []
            self._busy = True
            return [self._queue.popleft() for _ in range(min(self.batch, len(self._queue)))]

    def _decode(self, source: Source, packet: Packet[Any] | None) -> None:
        try:
            frames = source.context.decode(packet)
        except av.error.EOFError:
            return
        except av.error.FFmpegError as error:
            if source.watch is not None:
                source.watch.failed(error)
            if not is_packets_fault(error):
                raise
            self.corrupt += 1
            return
        if source.watch is not None:
            source.watch.saw(frames)
        for frame in frames:
            self.corrupt += bool(frame.is_corrupt)
            self.show(source, frame)

    @abstractmethod
    def show(self, source: Source, frame: Any) -> None:
        """Takes a frame, in the order of the packets."""

    def idle(self) -> None:
        """Nothing came for a moment."""

    def end(self) -> None:
        """All packets were taken."""


class VideoDecoder(Decoder):
    """Hands frames, on the output's clock, to encoders and snapshots."""

    def __init__(
        self,
        lanes: Sequence[VideoLane],
        snapshots: Sequence[Snapshots],
        limits: Limits,
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__("decoder of video", failed)
        self._lanes, self._snapshots, self._limits = lanes, snapshots, limits
        self._handing = threading.Lock()
        self.frames = 0
        self.newest: VideoFrame | None = None
        self.newest_place: object = None
        self.shown_at: float | None = None
        """When the source's newest frame came out, by the monotonic clock."""
        self._reached: int | None = None

    @property
    def reached(self) -> Fraction | None:
        """The time of what was shown last, the slate among it."""
        ticks = self._reached
        return None if ticks is None else ticks * TICK

    def show(self, source: Source, frame: VideoFrame) -> None:
        pts = source.order.place(frame.pts, frame.dts, frame.duration or 0)
        if pts is None:
            return
        if frame.width * frame.height > self._limits.max_pixels:
            raise LimitExceeded(
                "limit_pixels", "the source's pictures are too large", stage="decode", limit=self._limits.max_pixels
            )
        source.aspect.tell([frame], source.context.sample_aspect_ratio)
        self.frames += 1
        self.shown_at = time.monotonic()
        place = source if is_on_gpu(frame) else None
        self.newest, self.newest_place = frame, place
        numerator, denominator = source.ratio
        frame.pts = quotient(pts * numerator * TICK.denominator, denominator)
        frame.time_base = TICK
        self.hand_on(frame, place)
        for each in self._snapshots:
            each.show(frame)

    def hand_on(self, frame: VideoFrame, place: object = None) -> None:
        """From this thread, or from the slate's. `place`: see VideoLane.put."""
        with self._handing:
            ticks, last = frame.pts or 0, self._reached
            if last is not None and ticks <= last:
                return
            fresh = last is not None and ticks - last > GAP_TICKS
            self._reached = ticks
            for lane in self._lanes:
                lane.put(frame, fresh=fresh, place=place)


class AudioDecoder(Decoder):
    """Hands sound to its encoders; and silence, where the picture goes on without sound."""

    batch = 4
    """A packet of sound is some 20 ms, and less work than waking a thread. Pictures take longer on their way."""

    def __init__(
        self,
        lanes: Sequence[AudioLane],
        picture: Callable[[], Fraction | None],
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__("decoder of sound", failed)
        self._lanes, self._picture = lanes, picture
        self._last: tuple[Fraction, int, int] | None = None
        """Of the last frame: its moment, samples and rate."""
        self.heard_at: float | None = None

    def show(self, source: Source, frame: AudioFrame) -> None:
        moment = self._moment(source, frame)
        if moment is None or not frame.sample_rate:
            return
        self.heard_at = time.monotonic()
        self._last = moment, frame.samples, frame.sample_rate
        for lane in self._lanes:
            lane.put(frame, moment)

    def _moment(self, source: Source, frame: AudioFrame) -> Fraction | None:
        """What has no time follows what was before."""
        if frame.pts is None:
            return None if self._last is None else self._last[0] + Fraction(*self._last[1:])
        numerator, denominator = (frame.time_base or source.time_base).as_integer_ratio()
        return Fraction(frame.pts * numerator, denominator)

    def idle(self) -> None:
        picture = self._picture()
        if picture is None:
            return
        for lane in self._lanes:
            if lane.reached is None or picture - lane.reached > SILENT_SECONDS:
                lane.silence(picture)

    def end(self) -> None:
        for lane in self._lanes:
            lane.finish()
