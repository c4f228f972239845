"""Whether a file is as long as its own structure says: a sharper test for a cut than any duration in a header."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

MAX_PARTS = 10_000
STREAMED_SIZES = (0, 0xFFFFFFFF)
"""What writers leave in the size field when they can't go back to fill it in."""


def is_whole(path: Path, formats: set[str]) -> bool | None:
    """None where the format has no such structure, or its writer left it open."""
    walk = next((walk for name, walk in _WALKS.items() if name in formats), None)
    if walk is None:
        return None
    with path.open("rb") as stream:
        return walk(stream, os.fstat(stream.fileno()).st_size)


def _riff(stream: BinaryIO, length: int) -> bool | None:
    """AVI is one RIFF chunk, or several in a row where it is large (OpenDML)."""
    at = 0
    for _ in range(MAX_PARTS):
        stream.seek(at)
        head = stream.read(8)
        if len(head) < 8 or head[:4] != b"RIFF":
            return at > 0
        size = int.from_bytes(head[4:], "little")
        if size in STREAMED_SIZES:
            return None
        at += 8 + size
        if at > length:
            return False
        at += size % 2
    return None


def _boxes(stream: BinaryIO, length: int) -> bool | None:
    """MP4 is boxes in a row; what follows the last whole one and is no box is left out of account."""
    at = 0
    for _ in range(MAX_PARTS):
        stream.seek(at)
        head = stream.read(16)
        if len(head) < 8 or not head[4:8].isalnum():
            return at > 0
        size = int.from_bytes(head[8:16]) if head[:4] == b"\0\0\0\1" else int.from_bytes(head[:4])
        if size < 8:
            return None
        at += size
        if at >= length:
            return at == length
    return None


_WALKS: dict[str, Callable[[BinaryIO, int], bool | None]] = {"avi": _riff, "mov": _boxes}
