"""What is taken of an input, and what has been seen of each of its tracks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import av

from pipelines.timestamps import microseconds

CLIP_TOLERANCE = Fraction(1, 1000)
"""A frame this little before a clip's start belongs to it: start times are typed in decimals."""


@dataclass
class Span:
    """What is taken of the input, in seconds on its continuous clock. `clipped`: the start lies inside the input.

    `origin`: where the output's clock begins, the start when not given. `exact`: frames are taken by their own times
    alone, so that each frame is in one of several spans side by side.
    """

    start: Fraction
    end: Fraction | None
    clipped: bool
    origin: Fraction | None = None
    exact: bool = False

    @property
    def zero(self) -> Fraction:
        return self.start if self.origin is None else self.origin

    @property
    def tolerance(self) -> Fraction:
        return Fraction(0) if self.exact else CLIP_TOLERANCE

    @property
    def goes_on(self) -> bool:
        """Whether another span follows where this one ends."""
        return self.exact and self.end is not None


def span_of(start_seconds: float, end_seconds: float | None, source_start_seconds: float) -> Span:
    """What a plan takes of its source."""
    start, source_start = microseconds(start_seconds), microseconds(source_start_seconds)
    return Span(start, None if end_seconds is None else microseconds(end_seconds), start > source_start)


@dataclass
class TrackState:
    """What a decoder has seen of its track; read by others for progress and completeness. `stream` is the input's."""

    stream: int
    kind: str
    frames: int = 0
    errors: int = 0
    packets: int = 0
    first: Fraction | None = None
    end: Fraction | None = None
    done: bool = False
    """Nothing more of this track is needed: the clip's end is passed."""


HOLE_SECONDS = 0.25
"""Time in which no track has anything, when it is longer than this, is a hole: a pause, or something that was lost."""


@dataclass
class Holes:
    """Holes of an input, in seconds on its continuous clock."""

    seconds: float = 0.0
    count: int = 0
    first: float | None = None
    _reached: float | None = None

    def see(self, time: float, duration: float) -> None:
        """A packet of any track."""
        reached = time if self._reached is None else self._reached
        if time - reached > HOLE_SECONDS:
            self.seconds += time - reached
            self.count += 1
            self.first = reached if self.first is None else self.first
        self._reached = max(reached, time + duration)


def is_packets_fault(error: av.error.FFmpegError) -> bool:
    """Whether decoding can go on after it: all but running out of memory, which is the machine's."""
    return not isinstance(error, MemoryError)
