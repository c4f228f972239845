"""GIFs whose pictures are shown for a hundredth of a second or less: players show each for a tenth, and so do we.

Such delays are from the time when nothing could draw as fast; FFmpeg's demuxer corrects delays of 0 alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

HURRIED_FORMATS = frozenset({"gif"})
NOT_MEANT = Fraction(1, 100)
"""The longest duration that nobody means, in seconds."""
SHOWN = Fraction(1, 10)


def unhurried(packets: Iterable[Any], format_name: str) -> Iterable[Any]:
    """The packets of an input from its start, as late as players show them."""
    return _unhurried(packets) if format_name in HURRIED_FORMATS else packets


def _unhurried(packets: Iterable[Any]) -> Iterator[Any]:
    late = 0
    for packet in packets:
        if packet.size and packet.pts is not None:
            packet.pts += late
            packet.dts = packet.pts
            shown = int(SHOWN / packet.time_base)
            if (packet.duration or 0) * packet.time_base <= NOT_MEANT:
                late += shown - (packet.duration or 0)
                packet.duration = shown
        yield packet
