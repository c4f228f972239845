"""Encoded pictures in a file: packets in decode order with their exact times, and nothing else.

Each is a head and its bytes. Containers would round times, or keep their own idea of them; what a decoder has to know
besides is the same for all pieces, and is kept with what is told of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import IO, NamedTuple

from pipelines.errors import OutputFailed

_HEAD = Struct(">qqQB")


class Head(NamedTuple):
    """`pts` and `duration` in the encoder's ticks; `size` in bytes."""

    pts: int
    duration: int
    size: int
    is_keyframe: bool


def put(file: IO[bytes], head: Head, data: bytes) -> None:
    file.write(_HEAD.pack(*head))
    file.write(data)


def size_of(count: int, data_bytes: int) -> int:
    """Bytes of a file with so many packets that hold so much."""
    return count * _HEAD.size + data_bytes


def heads(path: Path) -> Iterator[Head]:
    """Without the bytes between them. OutputFailed when the file was cut."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while (head := _next(file, path)) is not None:
            if file.seek(head.size, os.SEEK_CUR) > size:
                raise _cut(path)
            yield head


def packets(path: Path) -> Iterator[tuple[Head, bytes]]:
    """All of it. OutputFailed when the file was cut."""
    with path.open("rb") as file:
        while (head := _next(file, path)) is not None:
            data = file.read(head.size)
            if len(data) != head.size:
                raise _cut(path)
            yield head, data


def _next(file: IO[bytes], path: Path) -> Head | None:
    raw = file.read(_HEAD.size)
    if not raw:
        return None
    if len(raw) != _HEAD.size:
        raise _cut(path)
    pts, duration, size, is_keyframe = _HEAD.unpack(raw)
    return Head(pts, duration, size, bool(is_keyframe))


def _cut(path: Path) -> OutputFailed:
    return OutputFailed(f"{path.name} ends in the middle of a packet", stage="mux", path=path.name)
