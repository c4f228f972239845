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
from pipelines.timestamps import nearest, quotient

LONGEST_FILLED_SECONDS = 2
"""A gap up to this is filled with silence; after a longer one the sound starts anew where it really is."""
BLOCK_SAMPLES = 1024


class SamplePlaces:
    """Where frames go, counted in samples. In fractions that are exact, and not reduced for each frame."""

    def __init__(self, rate: int) -> None:
        """`rate`: samples per second of the encoder's."""
        self._rate = rate
        self._reached: tuple[int, int] | None = None
        self.origin = 0
        """The encoder's sample that frames are placed from."""

    @property
    def reached(self) -> Fraction | None:
        """Where what was placed ends, in seconds."""
        return None if self._reached is None else Fraction(*self._reached)

    def goes_on(self, time: Fraction) -> bool:
        """Whether what is at `time` follows what was placed, or a gap that is filled."""
        if self._reached is None:
            return False
        numerator, denominator = time.as_integer_ratio()
        end, scale = self._reached
        return abs(numerator * scale - end * denominator) <= LONGEST_FILLED_SECONDS * denominator * scale

    def begin(self, time: Fraction, earliest: int) -> None:
        """Starts anew at `time`, or at the sample before which nothing goes any more."""
        self.origin = max(nearest(time * self._rate), earliest)

    def forget(self) -> None:
        """What comes next does not go on from what was."""
        self._reached = None

    def place(self, time: Fraction, samples: int, rate: int) -> int:
        """The place of a frame of that many samples at `rate` per second, in its own samples from the origin."""
        numerator, denominator = time.as_integer_ratio()
        self._reached = numerator * rate + samples * denominator, denominator * rate
        ours = self._rate
        return quotient((numerator * ours - self.origin * denominator) * rate, denominator * ours)


class AudioLane:
    """Called by one thread. Times are seconds on the output's clock."""

    def __init__(
        self, rendition: AudioRendition, encoder: AudioEncoder, track: Track, tell: Callable[[Piece], None]
    ) -> None:
        self.track = track
        self._rendition, self._encoder, self._tell = rendition, encoder, tell
        self._places = SamplePlaces(rendition.sample_rate)
        self._tick = Fraction(1, rendition.sample_rate)
        """Of the frames that come."""
        self._graph: AudioGraph | None = None
        self._last_end = 0
        self._fresh = False

    @property
    def reached(self) -> Fraction | None:
        """Where the sound that was put in ends."""
        return self._places.reached

    def put(self, frame: AudioFrame, time: Fraction) -> None:
        """The frame's own pts is of no account."""
        rate = frame.sample_rate
        if not self._places.goes_on(time):
            self._places.begin(time, self._last_end)
            self._graph = AudioGraph(self._rendition, frame_size=self._encoder.frame_size, end_samples=None)
            self._fresh = self._last_end > 0
        assert self._graph is not None
        if self._tick.denominator != rate:
            self._tick = Fraction(1, rate)
        frame.time_base = self._tick
        frame.pts = self._places.place(time, frame.samples, rate)
        self._encode(self._graph.push(frame))

    def silence(self, until: Fraction) -> None:
        """Goes on without sound up to `until`."""
        rate = self._rendition.sample_rate
        reached = self.reached
        begin = until if reached is None else reached
        if until - begin > LONGEST_FILLED_SECONDS:
            begin = until
            self._places.forget()
        while begin + Fraction(BLOCK_SAMPLES, rate) <= until or self.reached is None:
            frame = AudioFrame(self._rendition.sample_format, self._rendition.layout, BLOCK_SAMPLES)
            frame.sample_rate = rate
            for plane in frame.planes:
                plane.update(bytes(plane.buffer_size))
            self.put(frame, begin)
            begin += Fraction(BLOCK_SAMPLES, rate)

    def finish(self) -> None:
        if self._graph is not None:
            self._encode(self._graph.flush())
        self._send(self._encoder.flush())

    def _encode(self, frames: Iterable[AudioFrame]) -> None:
        for frame in frames:
            frame.pts = (frame.pts or 0) + self._places.origin
            self._last_end = frame.pts + frame.samples
            self._send(self._encoder.encode(frame))

    def _send(self, packets: list[Packet[Any]]) -> None:
        for packet in packets:
            pts = packet.pts or 0
            dts = pts if packet.dts is None else packet.dts
            unit = Unit(bytes(packet), pts, dts, packet.duration or self._encoder.frame_size, True)
            self._tell(Piece(self.track, unit, self._fresh))
            self._fresh = False
