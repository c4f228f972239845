"""How long a file is by its own structure: a sharper test for a cut than any duration in a header."""

from __future__ import annotations

import os
from collections.abc import Callable

MAX_PARTS = 10_000
STREAMED_SIZES = (0, 0xFFFFFFFF)
"""What writers leave in the size field when they can't go back to fill it in."""


def promised_size(descriptor: int, formats: set[str]) -> int | None:
    """Bytes up to the end of the last part that starts inside an open file (its position stays).

    More than the file has: it was cut. None where the format has no such structure, or its writer left it open.
    """
    walk = next((walk for name, walk in _WALKS.items() if name in formats), None)
    if walk is None:
        return None
    return walk(lambda at, size: os.pread(descriptor, size, at))


Read = Callable[[int, int], bytes]


def _riff(read: Read) -> int | None:
    """WAV and AVI are one RIFF chunk, AVI several in a row where it is large (OpenDML)."""
    at = 0
    for _ in range(MAX_PARTS):
        head = read(at, 8)
        if len(head) < 8 or head[:4] != b"RIFF":
            return at or None
        size = int.from_bytes(head[4:], "little")
        if size in STREAMED_SIZES:
            return None
        at += 8 + size
    return None


def _boxes(read: Read) -> int | None:
    """MP4 is boxes in a row; what follows the last whole one and is no box is left out of account."""
    at = 0
    for _ in range(MAX_PARTS):
        head = read(at, 16)
        if len(head) < 8 or not head[4:8].isalnum():
            return at or None
        size = int.from_bytes(head[8:16]) if head[:4] == b"\0\0\0\1" else int.from_bytes(head[:4])
        if size < 8:
            return None
        at += size
    return None


_WALKS: dict[str, Callable[[Read], int | None]] = {"avi": _riff, "wav": _riff, "mov": _boxes}
