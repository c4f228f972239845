"""One encoded audio track of a stream, and the silence that stands in for a source without sound."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from av.audio.frame import AudioFrame
from av.packet import Packet

from pipelines.encode import AudioEncoder
from pipelines.live.units import Piece, Track, Unit
from pipelines.rendition import AudioRendition
from pipelines.sound.graph import AudioGraph
from pipelines.timestamps import nearest

LONGEST_FILLED_SECONDS = Fraction(2)
"""A gap up to this is filled with silence; after a longer one the sound starts anew where it really is."""
BLOCK_SAMPLES = 1024


class AudioLane:
    """Called by one thread. Times are seconds on the output's clock."""

    def __init__(
        self, rendition: AudioRendition, encoder: AudioEncoder, track: Track, tell: Callable[[Piece], None]
    ) -> None:
        self.track = track
        self.reached: Fraction | None = None
        """Where the sound that was put in ends."""
        self._rendition, self._encoder, self._tell = rendition, encoder, tell
        self._graph: AudioGraph | None = None
        self._origin = 0
        self._last_end = 0
        self._fresh = False

    def put(self, frame: AudioFrame, time: Fraction) -> None:
        """The frame's own pts is of no account."""
        rate = self._rendition.sample_rate
        if self.reached is None or abs(time - self.reached) > LONGEST_FILLED_SECONDS:
            self._start(max(nearest(time * rate), self._last_end))
        assert self._graph is not None
        tick = Fraction(1, frame.sample_rate)
        frame.time_base = tick
        frame.pts = nearest((time - Fraction(self._origin, rate)) / tick)
        self.reached = time + frame.samples * tick
        self._encode(self._graph.push(frame))

    def silence(self, until: Fraction) -> None:
        """Goes on without sound up to `until`."""
        rate = self._rendition.sample_rate
        begin = self.reached if self.reached is not None else until
        if until - begin > LONGEST_FILLED_SECONDS:
            begin = until
            self.reached = None
        while begin + Fraction(BLOCK_SAMPLES, rate) <= until or self.reached is None:
            frame = AudioFrame(self._rendition.sample_format, self._rendition.layout, BLOCK_SAMPLES)
            frame.sample_rate = rate
            for plane in frame.planes:
                plane.update(bytes(plane.buffer_size))
            self.put(frame, begin)
            assert self.reached is not None
            begin = self.reached

    def finish(self) -> None:
        if self._graph is not None:
            self._encode(self._graph.flush())
        self._send(self._encoder.flush())

    def _start(self, origin: int) -> None:
        self._graph = AudioGraph(self._rendition, frame_size=self._encoder.frame_size, end_samples=None)
        self._origin = origin
        self._fresh = self._last_end > 0

    def _encode(self, frames: Iterable[AudioFrame]) -> None:
        for frame in frames:
            frame.pts = (frame.pts or 0) + self._origin
            self._last_end = frame.pts + frame.samples
            self._send(self._encoder.encode(frame))

    def _send(self, packets: list[Packet[Any]]) -> None:
        for packet in packets:
            pts = packet.pts or 0
            dts = pts if packet.dts is None else packet.dts
            unit = Unit(bytes(packet), pts, dts, packet.duration or self._encoder.frame_size, True)
            self._tell(Piece(self.track, unit, self._fresh))
            self._fresh = False
