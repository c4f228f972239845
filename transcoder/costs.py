"""How many slots a job asks for, from what is known of it before it runs: the outputs that it wants.

One slot is a 1080p30 rendition in H.264. A job without video takes one, and what has no size or rate is taken to be
1080p30. The factors are rough ratios of encoding work, the same for all devices.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from pipelines.rungs import Rung
from pipelines.spec import FileJob
from pipelines.stream_spec import StreamJob

SlotCost = Literal["count", "work"]

UNIT_PIXELS_PER_SECOND = 1920 * 1080 * 30
CODEC_FACTORS = {"h264": 1.0, "hevc": 2.0, "vp9": 3.0, "av1": 3.0}
AUTO_LADDER_UNITS = 1.9
"""An automatic ladder of a 1080p source, down to 240 lines; others are not known before the source is."""
MAX_COST = 1024

_ASPECT = Fraction(16, 9)


def cost_of(spec: FileJob | StreamJob, by: SlotCost) -> int:
    """Slots, at least one. `count`: every job takes one."""
    if by == "count":
        return 1
    videos = [getattr(output, "video", None) for output in spec.outputs or ()]
    rungs = [
        rung for video in videos for rung in (video if isinstance(video, tuple) else (video,)) if isinstance(rung, Rung)
    ]
    automatic = AUTO_LADDER_UNITS * videos.count("auto")
    return min(MAX_COST, max(1, math.ceil(sum(map(_work, rungs)) + automatic)))


def _work(rung: Rung) -> float:
    """Of one rendition, in units."""
    height = rung.height or (rung.width / _ASPECT if rung.width is not None else 1080)
    width = rung.width or height * _ASPECT
    rate = rung.frame_rate or 30
    return float(width * height * rate / UNIT_PIXELS_PER_SECOND) * CODEC_FACTORS.get(rung.codec or "h264", 1.0)
