"""How many slots a job asks for, from what is known of it before it runs: the outputs that it wants.

One slot is a 1080p30 rendition in H.264 with the usual effort. A job without video takes one, and what has no size or
rate is taken to be 1080p30. The factors are rough ratios of encoding work, for devices whose speeds are not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from pipelines.asked.rungs import Rung
from pipelines.asked.streams import StreamJob
from pipelines.estimates.speeds import USUAL
from pipelines.spec import FileJob

SlotCost = Literal["count", "work"]

UNIT_PIXELS_PER_SECOND = 1920 * 1080 * 30
CODEC_FACTORS = {"h264": 1.0, "hevc": 2.0, "vp9": 3.0, "av1": 3.0}
AUTO_LADDER_UNITS = 1.9
"""An automatic ladder of a 1080p source, down to 240 lines; others are not known before the source is."""
MAX_COST = 1024

_ASPECT = Fraction(16, 9)


@dataclass(frozen=True)
class Wanted:
    """Pictures of one rendition."""

    codec: str
    effort: str
    pixels_per_second: float


def wanted_pictures(spec: FileJob | StreamJob) -> tuple[Wanted, ...]:
    videos = [getattr(output, "video", None) for output in spec.outputs or ()]
    rungs = [
        rung for video in videos for rung in (video if isinstance(video, tuple) else (video,)) if isinstance(rung, Rung)
    ]
    automatic = Wanted("h264", USUAL, AUTO_LADDER_UNITS * UNIT_PIXELS_PER_SECOND)
    return (*map(_wanted, rungs), *(automatic for video in videos if video == "auto"))


def cost_of(spec: FileJob | StreamJob, by: SlotCost) -> int:
    """Slots, at least one. `count`: every job takes one."""
    if by == "count":
        return 1
    wanted = wanted_pictures(spec)
    return cost_of_all(wanted, [CODEC_FACTORS.get(each.codec, 1.0) for each in wanted])


def cost_of_all(wanted: Sequence[Wanted], factors: Sequence[float]) -> int:
    """Slots for these renditions, where a pixel of each is so many times the work of a unit's."""
    work = sum(each.pixels_per_second * factor for each, factor in zip(wanted, factors, strict=True))
    return min(MAX_COST, max(1, math.ceil(work / UNIT_PIXELS_PER_SECOND - 1e-6)))


def _wanted(rung: Rung) -> Wanted:
    height = rung.height or (rung.width / _ASPECT if rung.width is not None else 1080)
    width = rung.width or height * _ASPECT
    return Wanted(rung.codec or "h264", rung.speed, float(width * height * (rung.frame_rate or 30)))
