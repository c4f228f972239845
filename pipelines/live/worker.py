"""A thread of a stream that works on what others hand it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Worker(ABC):
    """What is handed over is guarded by `_changed`; `_finishing` says that no more comes."""

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._finishing = False
        self.working_since: float | None = None
        """When it took what it works on, by the monotonic clock; None while it waits for more."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """No more comes: what waits is worked on still."""
        with self._changed:
            self._finishing = True
            self._changed.notify()

    def join(self, seconds: float) -> bool:
        """Whether it has ended within that time. One that was never started has."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    @abstractmethod
    def _work(self) -> None:
        """The thread's body."""
