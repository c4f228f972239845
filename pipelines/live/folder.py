"""Files that others read while they are written: each appears whole, by a rename."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

PART_PREFIX = ".part-"
"""Of names that nobody lists: what is not whole yet, and what a stream remembers."""


def write_whole(path: Path, data: bytes) -> None:
    """`path` with `data`, which replaces what was there in one step. OSError leaves the old one, and no rest."""
    part = path.with_name(f"{PART_PREFIX}{path.name}")
    try:
        with part.open("wb") as file:
            file.write(data)
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def remove(path: Path) -> None:
    """Without complaint when it is gone already."""
    path.unlink(missing_ok=True)


def free_bytes(folder: Path) -> int:
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize
