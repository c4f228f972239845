"""What is taken of an input, and what has been seen of each of its tracks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import av

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


def is_packets_fault(error: av.error.FFmpegError) -> bool:
    """Whether decoding can go on after it: all but running out of memory, which is the machine's."""
    return not isinstance(error, MemoryError)
