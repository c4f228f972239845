"""Warnings of a run, collected from all its threads: each code once, counted, with the time it was first seen."""

from __future__ import annotations

from threading import Lock

from pipelines.result import Warning


class WarningLog:
    def __init__(self, known: tuple[Warning, ...] = ()) -> None:
        self._planned = known
        self._seen: dict[str, Warning] = {}
        self._lock = Lock()

    def add(self, code: str, message: str, seconds: float | None = None) -> None:
        """Counts one more of `code`; the first message and time are kept."""
        with self._lock:
            known = self._seen.get(code)
            if known is None:
                rounded = None if seconds is None else round(seconds, 3)
                self._seen[code] = Warning(code=code, message=message, first_seconds=rounded)
            else:
                self._seen[code] = known.model_copy(update={"count": known.count + 1})

    def count(self, code: str) -> int:
        with self._lock:
            return self._seen[code].count if code in self._seen else 0

    def all(self) -> tuple[Warning, ...]:
        with self._lock:
            return (*self._planned, *self._seen.values())
