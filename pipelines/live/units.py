"""Encoded pieces on their way from an encoder, or from the source, to the sinks."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Unit:
    """One encoded picture or stretch of sound. Times are ticks of its track, on the output's clock."""

    data: bytes
    pts: int
    dts: int
    duration: int
    key: bool


@dataclass(eq=False)
class Track:
    """One elementary stream of the output, for as long as its parameters stay the same.

    `template` is a stream of a container that is kept open: muxers copy its parameters. When a source's parameters
    change, a copied track is followed by another one with the same `name`.
    """

    name: str
    kind: Literal["video", "audio"]
    codec: str
    time_base: Fraction
    template: Any
    extradata: bytes = b""
    width: int = 0
    height: int = 0
    frame_rate: Fraction | None = None
    channels: int = 0
    bit_rate: int | None = None
    codec_tag: str | None = None
    copied: bool = False
    steady: bool = False
    """Each piece lasts exactly as long as it says: the next one begins at its end, or there is a break."""
    home: Any = field(default=None, repr=False)
    """Keeps the template's container alive."""

    def seconds(self, ticks: int) -> Fraction:
        return ticks * self.time_base


@dataclass(frozen=True, slots=True)
class Piece:
    """A unit with its track: what sinks are handed. `fresh`: what came before it is missing."""

    track: Track
    unit: Unit
    fresh: bool = False
    time: Fraction = field(init=False, compare=False)
    """Of its decoding, in seconds. Worked out once: every output asks for it again and again."""
    end: Fraction = field(init=False, compare=False)

    def __post_init__(self) -> None:
        numerator, denominator = self.track.time_base.as_integer_ratio()
        unit = self.unit
        object.__setattr__(self, "time", Fraction(unit.dts * numerator, denominator))
        object.__setattr__(self, "end", Fraction((unit.pts + unit.duration) * numerator, denominator))
