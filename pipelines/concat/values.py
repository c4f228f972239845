"""What is joined: the parts of a plan, and the files that they are taken from."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pipelines.filters import Filter
from pipelines.opening.input import LocalFile
from pipelines.source import Facts, Ratio, SourceInfo

TICK = Fraction(1, 720_000)
"""Seconds. Frames of all usual rates, those of 1001 among them, are whole numbers of it long."""


class Part(Facts):
    """What is taken of one input, in seconds on its own clock, and which of its tracks follow which of the first's."""

    start_seconds: float
    end_seconds: float | None
    duration_seconds: float
    """What the input promises, within its clip."""
    video: int | None
    audio: tuple[tuple[int, int | None], ...]
    """For each track of sound of the plan, the input's own stream; None: silence."""
    fields: tuple[Filter, ...] = ()
    """What is done about its interlacing."""
    sample_aspect_ratio: Ratio = Fraction(1)
    reason: str


@dataclass(frozen=True)
class Reel:
    """An input as it was found, with its part of the plan."""

    part: Part
    source: SourceInfo
    file: LocalFile
