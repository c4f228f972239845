"""The frame rate of a track: headers are believed where the packets' own times don't speak against them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

COMMON_RATES = tuple(
    Fraction(number, 1001 if number % 1000 == 0 else 1)
    for number in (8, 10, 12, 15, 24_000, 24, 25, 30_000, 30, 48, 50, 60_000, 60, 90, 100, 120_000, 120, 144, 240)
)
ENOUGH_INTERVALS = 4
STEADY = Fraction(9, 10)
AGREES = Fraction(1, 4)
"""How far a header's rate may be from the measured one: nearer than the factor 2 between frames and fields."""
SNAP = Fraction(1, 2000)
"""How far a measured rate may be from a common one to be taken for it; 24 and 23.976 differ by twice as much."""
HIGHEST_PLAUSIBLE = 300
"""Above this a header that can't be checked is not believed."""


@dataclass(frozen=True)
class MeasuredRate:
    """Frames per second over the first packets, and how exact that is (one tick over their span).

    `steady`: nearly all intervals are equal, give or take the tick that rounding costs; the rate is theirs.
    """

    rate: Fraction
    uncertainty: Fraction
    steady: bool


def measure(times: Sequence[int], time_base: Fraction) -> MeasuredRate | None:
    """From packets' presentation times in ticks; None when there are too few different ones."""
    shown = sorted(set(times))
    if len(shown) <= ENOUGH_INTERVALS:
        return None
    # the last few may miss neighbours that are decoded later
    shown = shown[: max(ENOUGH_INTERVALS + 1, len(shown) - 4)]
    intervals = [later - earlier for earlier, later in pairwise(shown)]
    usual = sorted(intervals)[len(intervals) // 2]
    # rounding moves a time by a tick, which is little only where an interval has several
    alike = [interval for interval in intervals if abs(interval - usual) <= (1 if usual > 3 else 0)]
    steady = len(alike) >= STEADY * len(intervals)
    counted = alike if steady else intervals
    return MeasuredRate(len(counted) / (sum(counted) * time_base), Fraction(1, sum(counted)), steady)


def best_rate(
    candidates: Iterable[Fraction | None], measured: MeasuredRate | None, declared: Fraction | None
) -> Fraction | None:
    """The best guess at the average rate.

    `candidates` are the header's rates, best first. `declared` is frame count by duration where the header has both:
    with variable timing the beginning says little about the whole.
    """
    rates = [rate for rate in candidates if rate is not None and rate > 0]
    if measured is None:
        return next((rate for rate in rates if rate <= HIGHEST_PLAUSIBLE), None)
    exact = max(2 * measured.uncertainty, SNAP)
    for rate in rates:
        if abs(rate - measured.rate) <= measured.rate * (exact if measured.steady else AGREES):
            return _snapped(rate, exact)
        if declared is not None and abs(rate - declared) <= declared / 100 and rate <= 2 * measured.rate:
            return _snapped(rate, SNAP)
    return _snapped(measured.rate, exact)


def _snapped(rate: Fraction, tolerance: Fraction) -> Fraction:
    nearest = min(COMMON_RATES, key=lambda common: abs(common - rate))
    return nearest if abs(nearest - rate) <= nearest * tolerance else rate.limit_denominator(1001)
