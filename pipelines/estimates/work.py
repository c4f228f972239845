"""What a plan is expected to take: time, by the speeds that are known of its parts, and room."""

from __future__ import annotations

from typing import Literal

from pipelines.estimates.speeds import Basis, Speed, Stage
from pipelines.source import Facts


class Pace(Facts):
    """The speeds to estimate with: those of the CPU, and those of the GPU where there is one."""

    cpu: tuple[Speed, ...] = ()
    gpu: tuple[Speed, ...] = ()


class Work(Facts):
    """One part of a plan that takes time: a track that is decoded, or a rendition that is encoded."""

    place: Literal["software", "hardware"]
    stage: Stage
    coder: str
    effort: str = ""
    pixels: float
    """For each second of the source."""
    pixels_per_second: float | None = None
    """As fast as the device does it; None where that is not known."""
    basis: Basis | None = None

    @property
    def cost(self) -> float | None:
        """Seconds for each second of the source."""
        return None if self.pixels_per_second is None else self.pixels / self.pixels_per_second


class Estimate(Facts):
    """`speed`: seconds of the source for each second of work. What can't be told is None, and `because` says why."""

    speed: float | None = None
    seconds: float | None = None
    size_bytes: int | None = None
    work: tuple[Work, ...] = ()
    because: tuple[str, ...] = ()
