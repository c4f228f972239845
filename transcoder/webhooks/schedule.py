"""When a webhook is tried again. Pure: it looks at the try and how many there were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GONE = 410


@dataclass(frozen=True)
class Answered:
    """The receiver answered; its body does not matter."""

    status: int

    @property
    def error(self) -> str | None:
        return None if self.taken else "refused"

    @property
    def taken(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True)
class Unanswered:
    """No answer: `error` is a stable word, such as `timeout` or `blocked_address`."""

    error: str
    final: bool = False
    """Whether it would be the same the next time."""

    status: None = None


Outcome = Answered | Unanswered


@dataclass(frozen=True)
class Again:
    after_seconds: float


@dataclass(frozen=True)
class Ended:
    delivered: bool


def decide(outcome: Outcome, tries: int, pauses_seconds: Sequence[float]) -> Again | Ended:
    """What follows the `tries`-th try, which ended with `outcome`. A receiver that is gone (410) is left alone."""
    if isinstance(outcome, Answered):
        if outcome.taken:
            return Ended(delivered=True)
        if outcome.status == GONE:
            return Ended(delivered=False)
    elif outcome.final:
        return Ended(delivered=False)
    return Again(pauses_seconds[tries - 1]) if tries <= len(pauses_seconds) else Ended(delivered=False)
