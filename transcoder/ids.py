"""Ids of jobs and uploads: sortable by time of creation, and impossible to guess."""

from __future__ import annotations

import re
import secrets
import threading
import time

_TIME_DIGITS, _RANDOM_DIGITS = 14, 20
ID_PATTERN = re.compile(rf"[0-9a-f]{{{_TIME_DIGITS + _RANDOM_DIGITS}}}")


class IdMaker:
    """Microseconds since 1970 and 80 random bits, in hex. Ids of one maker rise even if the clock does not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self) -> str:
        with self._lock:
            self._last = max(time.time_ns() // 1000, self._last + 1)
            moment = self._last
        return f"{moment:0{_TIME_DIGITS}x}{secrets.token_hex(_RANDOM_DIGITS // 2)}"


new_id = IdMaker()


def waited_seconds(id_: str) -> float:
    """How long ago an id was made, by the clock of the machine that made it."""
    return max(0.0, time.time() - int(id_[:_TIME_DIGITS], 16) / 1_000_000)
