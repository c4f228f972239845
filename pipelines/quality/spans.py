"""Which parts of a source are looked at. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pipelines.rendition import Plan, VideoRendition
from pipelines.source import Facts, Ratio

SHORT_SECONDS = Fraction(8)
"""What is as short as this is looked at as a whole."""
SAMPLE_SECONDS = Fraction(2)
SHARE = Fraction(1, 30)
"""Of the duration: six encodes of so much, at most, are a fifth of the work."""
LEAST_SECONDS, MOST_SECONDS = Fraction(4), Fraction(24)
MOST_PIXELS = 1_500_000_000
"""In all samples of all renditions together: samples are kept without loss on the disk meanwhile."""


class SampleSpan(Facts):
    """In seconds on the input's clock. None: to its end."""

    start: Ratio
    end: Ratio | None


def sample_spans(plan: Plan, renditions: Sequence[VideoRendition]) -> tuple[SampleSpan, ...]:
    """Samples spread evenly over what the plan takes; none starts or ends with it unless it is short."""
    start = _exact(plan.start_seconds)
    whole = None if plan.duration_seconds is None else _exact(plan.duration_seconds)
    room = _room(renditions)
    if whole is None:
        return (SampleSpan(start=start, end=start + min(LEAST_SECONDS, room)),)
    if whole <= min(SHORT_SECONDS, room):
        return (SampleSpan(start=start, end=None if plan.end_seconds is None else _exact(plan.end_seconds)),)
    total = min(max(LEAST_SECONDS, whole * SHARE), MOST_SECONDS, room)
    length = min(SAMPLE_SECONDS, total / 2)
    count = max(1, int(total / length))
    steps = (start + whole * (2 * number + 1) / (2 * count) - length / 2 for number in range(count))
    return tuple(SampleSpan(start=_rounded(begin), end=_rounded(begin) + length) for begin in steps)


def _room(renditions: Sequence[VideoRendition]) -> Fraction:
    """Seconds that there is room for, at least one."""
    pixels = sum(each.width * each.height * each.frame_rate for each in renditions)
    return max(Fraction(1), MOST_PIXELS / pixels) if pixels else MOST_SECONDS


def _exact(seconds: float) -> Fraction:
    return Fraction(round(seconds * 1_000_000), 1_000_000)


def _rounded(seconds: Fraction) -> Fraction:
    return Fraction(round(seconds * 1000), 1000)
