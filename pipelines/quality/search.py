"""The search for the CRF whose quality is just enough, over few probes. Pure.

Between two probes quality is taken for linear in decibels, which it is closely enough for all metrics here; SSIM's are
-10·log10(1 - SSIM). What is chosen has been measured: the highest CRF that reached the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipelines.rate_control import TargetQuality

MAX_PROBES = 6
MARGIN_DB = 0.05

STEPS: dict[str, float] = {"h264": 0.5, "hevc": 0.5, "av1": 1.0, "vp9": 1.0}
"""Of the CRF, as fine as each codec's usual encoder tells apart."""
HARDWARE_STEP = 1.0
RANGES: dict[str, tuple[float, float]] = {"h264": (8, 45), "hevc": (8, 45), "av1": (10, 60), "vp9": (8, 60)}
"""Where it is looked for when the job does not say."""

DB_PER_CRF: dict[str, float] = {"h264": -0.45, "hevc": -0.45, "av1": -0.25, "vp9": -0.25}
"""Where the second probe goes: about what the scales are made for. Later ones go by what was measured."""

NEAR_ENOUGH: dict[str, float] = {"ssim": 0.001, "psnr": 0.1, "xpsnr": 0.1}
"""A probe that is above the target by no more ends the search."""

_SCALES: dict[str, Callable[[float], float]] = {
    "ssim": lambda value: -10 * math.log10(max(1e-7, 1 - value)),
    "psnr": lambda value: value,
    "xpsnr": lambda value: value,
}


@dataclass(frozen=True)
class Search:
    """What is looked for: `low` and `high` bound the CRF, `first` is where to begin."""

    goal: TargetQuality
    codec: str
    first: float
    low: float
    high: float
    step: float

    def next_probe(self, known: Mapping[float, float]) -> float | None:
        """The CRF to measure next, by values measured so far; None when enough is known."""
        if not known:
            return self._snapped(self.first)
        if len(known) >= MAX_PROBES or self._is_settled(known):
            return None
        above, below = self._bracket(known)
        if above is None and len(known) == MAX_PROBES - 1:
            return self.low
        # between a CRF that is good enough and one that is not, and never one of the two again
        low = self.low if above is None else above + self.step
        high = self.high if below is None else below - self.step
        if low > high:
            return None
        return min(high, max(low, self._snapped(self._guess(known))))

    def chosen(self, known: Mapping[float, float]) -> float:
        """The highest CRF that reached the target, else the one that came closest."""
        above, _ = self._bracket(known)
        return above if above is not None else max(known, key=lambda crf: (known[crf], -crf))

    def reached(self, known: Mapping[float, float]) -> bool:
        return self._bracket(known)[0] is not None

    def _is_settled(self, known: Mapping[float, float]) -> bool:
        above, _ = self._bracket(known)
        if above is None:
            return self.low in known
        return above >= self.high or known[above] - self.goal.value <= NEAR_ENOUGH[self.goal.metric]

    def _bracket(self, known: Mapping[float, float]) -> tuple[float | None, float | None]:
        """The highest CRF that reached the target, and the lowest above it that did not."""
        above = max((crf for crf, value in known.items() if value >= self.goal.value), default=None)
        failed = [crf for crf, value in known.items() if value < self.goal.value and (above is None or crf > above)]
        return above, min(failed, default=None)

    def _guess(self, known: Mapping[float, float]) -> float:
        scale = _SCALES[self.goal.metric]
        # quality does not fall with each step: who missed it aims higher
        missed = sum(value < self.goal.value for value in known.values())
        target = scale(self.goal.value) + MARGIN_DB * missed
        (_, crf, value), *others = sorted((abs(scale(v) - target), c, scale(v)) for c, v in known.items())
        slope = DB_PER_CRF[self.codec]
        if others:
            slope = (others[0][2] - value) / (others[0][1] - crf)
        # a curve that goes nowhere, or the wrong way, tells nothing
        slope = min(slope, DB_PER_CRF[self.codec] / 5)
        return crf + (target - value) / slope

    def _snapped(self, crf: float) -> float:
        """On the scale's steps, downwards: rather better than too bad."""
        steps = math.floor(crf / self.step + 1e-6)
        return min(self.high, max(self.low, steps * self.step))


def search_for(goal: TargetQuality, codec: str, first: float, *, hardware: bool) -> Search:
    low, high = RANGES[codec]
    low = low if goal.min_crf is None else goal.min_crf
    high = high if goal.max_crf is None else goal.max_crf
    low, high = min(low, high), max(low, high)
    step = HARDWARE_STEP if hardware else STEPS[codec]
    low, high = math.ceil(low / step) * step, math.floor(high / step) * step
    return Search(goal, codec, min(high, max(low, first)), low, max(low, high), step)
