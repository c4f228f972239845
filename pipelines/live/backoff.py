"""When to try again: pauses that double, up to a bound, and a number of attempts in a row."""

from __future__ import annotations

import time
from collections.abc import Callable

from pipelines.asked.streams import Reconnect


class Backoff:
    """`attempts` counts failures since the last success."""

    def __init__(self, policy: Reconnect, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy, self._clock = policy, clock
        self.attempts = 0
        self._due = 0.0

    @property
    def pause_seconds(self) -> float:
        """After the failures so far."""
        if not self.attempts:
            return 0.0
        doubled = self._policy.first_seconds * 2.0 ** min(self.attempts - 1, 30)
        return min(doubled, max(self._policy.first_seconds, self._policy.longest_seconds))

    def failed(self) -> bool:
        """Whether another attempt is allowed; it is due after the pause."""
        self.attempts += 1
        self._due = self._clock() + self.pause_seconds
        return self._policy.max_attempts is None or self.attempts <= self._policy.max_attempts

    def succeeded(self) -> None:
        self.attempts = 0

    def is_due(self) -> bool:
        return not self.attempts or self._clock() >= self._due
