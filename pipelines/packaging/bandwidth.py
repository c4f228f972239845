"""Bitrates of segments as they were written."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Sized = tuple[Fraction, int]
"""Seconds and bytes of a segment."""


def average(segments: Sequence[Sized]) -> int:
    """bit/s over all segments."""
    seconds = sum((seconds for seconds, _ in segments), Fraction(0))
    return 0 if seconds <= 0 else _rate(sum(size for _, size in segments), seconds)


def peak(segments: Sequence[Sized], target_seconds: int) -> int:
    """bit/s: the highest of any run of segments that lasts between 0.5 and 1.5 target durations (RFC 8216, 4.1)."""
    low, high = Fraction(target_seconds, 2), Fraction(3 * target_seconds, 2)
    highest = average(segments)
    for first in range(len(segments)):
        seconds, size = Fraction(0), 0
        for index in range(first, len(segments)):
            seconds, size = seconds + segments[index][0], size + segments[index][1]
            if seconds > high:
                break
            if seconds >= low:
                highest = max(highest, _rate(size, seconds))
    return highest


def _rate(size: int, seconds: Fraction) -> int:
    """Rounded up: what is said must not be less than what comes."""
    return -int(-size * 8 // seconds)
