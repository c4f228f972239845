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

    @property
    def time(self) -> Fraction:
        return self.unit.dts * self.track.time_base

    @property
    def end(self) -> Fraction:
        return (self.unit.pts + self.unit.duration) * self.track.time_base
