"""Dolby Vision as containers declare it: FFmpeg knows, PyAV does not tell. Reads headers only, within bounds.

The record is that of ETSI TS 103 572: version, profile (7 bits), level (6), three flags, and the number of the format
that the base layer is compatible with; 0: none, as with profile 5, whose pictures are in a colour space of their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from pipelines.source import DolbyVision

MOV_FORMATS = frozenset({"mov", "mp4"})
MATROSKA_FORMATS = frozenset({"matroska", "webm"})
_NAMES = (b"dvcC", b"dvvC", b"dvwC")
_SAMPLE_ENTRY_BYTES = 86
"""Of a visual sample entry, its own header among them: boxes follow."""
_HEADER_BYTES = 1 << 20
"""Of a Matroska file, in which its tracks are looked for."""
_MOST_INDEX_BYTES = 64 << 20
_MOST_BOXES = 1000
_ID_TYPE = b"\x41\xe7\x84"
"""BlockAddIDType of four bytes."""
_EXTRA_DATA = b"\x41\xed"
"""BlockAddIDExtraData."""


def record(data: bytes) -> DolbyVision | None:
    if len(data) < 5 or data[0] == 0:
        return None
    return DolbyVision(profile=data[2] >> 1, compatible=data[4] >> 4)


def declared(descriptor: int, formats: set[str]) -> dict[int, DolbyVision]:
    """By the track's place among all tracks of an MP4; -1 for a Matroska file's, which has one picture."""
    if formats & MOV_FORMATS:
        return _of_mov(descriptor)
    if formats & MATROSKA_FORMATS:
        found = _of_matroska(os.pread(descriptor, _HEADER_BYTES, 0))
        return {} if found is None else {-1: found}
    return {}


def _of_matroska(head: bytes) -> DolbyVision | None:
    for name in _NAMES:
        at = head.find(_ID_TYPE + name)
        if at >= 0:
            extra = head.find(_EXTRA_DATA, at, at + 64)
            # the size that follows is of one byte: the record has 24
            return None if extra < 0 else record(head[extra + 3 : extra + 27])
    return None


def _of_mov(descriptor: int) -> dict[int, DolbyVision]:
    at, found = 0, {}
    for _ in range(_MOST_BOXES):
        head = os.pread(descriptor, 16, at)
        size = int.from_bytes(head[:4])
        if size == 1:
            size = int.from_bytes(head[8:16])
        if len(head) < 8 or size < 8:
            break
        if head[4:8] == b"moov" and size <= _MOST_INDEX_BYTES:
            index = os.pread(descriptor, size, at)
            tracks = (body for name, body in _boxes(index[8:]) if name == b"trak")
            for number, track in enumerate(tracks):
                made = _of_track(track)
                if made is not None:
                    found[number] = made
            break
        at += size
    return found


def _of_track(track: bytes) -> DolbyVision | None:
    body = track
    for wanted in (b"mdia", b"minf", b"stbl", b"stsd"):
        body = next((inner for name, inner in _boxes(body) if name == wanted), b"")
    # version, flags and a count come before the entries
    entry = body[8:]
    size = min(int.from_bytes(entry[:4]), len(entry))
    for name, inner in _boxes(entry[_SAMPLE_ENTRY_BYTES:size]):
        if name in _NAMES:
            return record(inner)
    return None


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    for _ in range(_MOST_BOXES):
        size, header = int.from_bytes(data[at : at + 4]), 8
        if size == 1:
            size, header = int.from_bytes(data[at + 8 : at + 16]), 16
        if size < header or at + size > len(data):
            return
        yield data[at + 4 : at + 8], data[at + header : at + size]
        at += size
