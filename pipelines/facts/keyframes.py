"""Where a file can be cut, by its own index."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

MAX_ENTRIES = 500_000
"""Pictures of an index that are looked at; longer ones are left unknown, for probing is to be quick."""


def longest_gop_seconds(stream: Any, formats: set[str]) -> float | None:
    """The longest time between two keyframes, or from the last one to the end.

    None where the format's index does not list every picture: all but MP4 and MOV.
    """
    if "mov" not in formats:
        return None
    entries = stream.index_entries
    if not 0 < len(entries) <= MAX_ENTRIES:
        return None
    times = [entry.timestamp for entry in entries if entry.is_keyframe]
    if not times or times[0] > entries[0].timestamp:
        return None
    times.append(entries[len(entries) - 1].timestamp)
    return float(max(after - before for before, after in pairwise(times)) * stream.time_base)
