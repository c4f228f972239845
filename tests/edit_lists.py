"""Edit lists written into generated MP4 files (whose index comes last, so that nothing else moves)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tests.measure import find_boxes

Edit = tuple[int, int]
"""Milliseconds shown, and the media time in the track's ticks at which they start; -1: nothing is shown."""


def set_edit_list(path: Path, track: int, edits: Sequence[Edit]) -> None:
    """Gives track number `track` this edit list in place of its own."""
    data = path.read_bytes()
    moov = data.index(b"moov") - 4
    assert moov + int.from_bytes(data[moov : moov + 4]) == len(data), "the index must come last"
    # FFmpeg's muxer counts in 1/1000 s up to version 8, and as its tracks do from 9 on
    movie = int(struct.unpack_from(">I", find_boxes(path, "moov/mvhd")[0].body, 12)[0])
    entries = b"".join(struct.pack(">Iihh", length * movie // 1000, media, 1, 0) for length, media in edits)
    elst = _box(b"elst", struct.pack(">II", 0, len(edits)) + entries)
    body, number = b"", 0
    for name, child in _children(data[moov + 8 :]):
        if name == b"trak":
            if number == track:
                parts = [(n, c) for n, c in _children(child) if n != b"edts"]
                parts.insert(1, (b"edts", elst))
                child = b"".join(_box(n, c) for n, c in parts)
            number += 1
        body += _box(name, child)
    path.write_bytes(data[:moov] + _box(b"moov", body))


def track_ticks(path: Path, track: int) -> int:
    """Ticks per second of a track."""
    return int(struct.unpack_from(">I", find_boxes(path, "mdia/mdhd")[track].body, 12)[0])


def first_media_time(path: Path, track: int) -> int:
    """The media time that the track's own edit list starts at (what B-frames or priming push up)."""
    entries = find_boxes(path, "edts/elst")
    return int(struct.unpack_from(">i", entries[track].body, 12)[0])


def _box(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body) + 8) + name + body


def _children(data: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4])
        found.append((data[at + 4 : at + 8], data[at + 8 : at + size]))
        at += size
    return found
