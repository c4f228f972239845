"""What FFmpeg and drivers say on stderr, and what can be read out of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import av

MAX_REASON = 200

_MAX_LOG_BYTES = 1 << 20
_CONSTRAINTS = re.compile(r"constraints: width (\d+)-(\d+) height (\d+)-(\d+)")
_PREFIX = re.compile(r"^\[[^\]]+ @ 0x[0-9a-f]+\] ")
_OTHERS = ("libva", "x265", "Svt", "Failed setup for format")
"""Beginnings of lines that are not about why something failed."""


@contextmanager
def library_log() -> Iterator[Callable[[], str]]:
    """What FFmpeg and the driver write to stderr meanwhile; it goes to the true stderr in the end.

    Not by PyAV's own callback: it takes the GIL, which FFmpeg's threads may wait for.
    """
    av.logging.set_libav_level(av.logging.ERROR)
    av.logging.restore_default_callback()
    with os.fdopen(os.memfd_create("log"), "r+b") as file:
        stderr = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield lambda: os.pread(file.fileno(), _MAX_LOG_BYTES, 0).decode(errors="replace")
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            os.write(2, os.pread(file.fileno(), _MAX_LOG_BYTES, 0))


def constraints(text: str) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    told = _CONSTRAINTS.findall(text)
    if not told:
        return None, None
    least_width, most_width, least_height, most_height = map(int, told[-1])
    return (least_width, least_height), (most_width, most_height)


def reason(text: str) -> str | None:
    """FFmpeg's first words about the matter: what follows from it comes after."""
    lines = (_PREFIX.sub("", line).strip() for line in text.splitlines())
    told = [line for line in lines if line and not line.startswith(_OTHERS)]
    return told[0][:MAX_REASON] if told else None
