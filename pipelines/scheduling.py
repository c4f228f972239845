"""Threads of encoders among all others of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_REAL_TIME = (os.SCHED_FIFO, os.SCHED_RR)


@contextmanager
def ordinary_threads() -> Iterator[None]:
    """What happens within leaves no thread of this process above all others.

    SVT-AV1 4.1 gives its threads, and the one that opens it, real-time priority where it may, as root: they then keep
    every other process from running. A process that was real-time before is its owner's choice and is left so.
    """
    chosen = os.sched_getscheduler(0) in _REAL_TIME
    try:
        yield
    finally:
        if not chosen:
            _make_ordinary()


def _make_ordinary() -> None:
    for task in Path("/proc/self/task").iterdir():
        # it may have ended meanwhile
        with suppress(ProcessLookupError):
            if os.sched_getscheduler(int(task.name)) in _REAL_TIME:
                os.sched_setscheduler(int(task.name), os.SCHED_OTHER, os.sched_param(0))
