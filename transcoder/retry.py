"""Whether a failed attempt is followed by another. Pure: it looks at the attempts so far and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transcoder.fallback import is_step
from transcoder.jobs import Attempt, ErrorInfo

KILLS_TO_POISON = 3
"""Attempts that killed their process, after which the job is taken for the cause."""

LOSSES_TO_POISON = 10
"""Attempts that were running when the service died. More are forgiven: mostly it was killed for other reasons."""

MAX_BACKOFF_SECONDS = 300.0

STOPPED = ErrorInfo(code="shutdown", message="the service was stopped while this ran", retryable=True)
LOST = ErrorInfo(code="lost", message="the service died while this ran", retryable=True)


@dataclass(frozen=True)
class RetryPolicy:
    """`max_attempts` counts what failed; what a GPU failed at, or was lost with the service, is not the job's fault."""

    max_attempts: int
    backoff_seconds: float


@dataclass(frozen=True)
class Retry:
    after_seconds: float


@dataclass(frozen=True)
class Fail:
    error: ErrorInfo


def decide(attempts: Sequence[Attempt], policy: RetryPolicy) -> Retry | Fail:
    """What follows the last of `attempts`, which failed or was lost. Earlier ones count, all in order."""
    error = attempts[-1].error or LOST
    kills = _count([attempt for attempt in attempts if not is_step(attempt)], "crashed")
    losses = _count(attempts, LOST.code)
    if kills >= KILLS_TO_POISON or losses >= LOSSES_TO_POISON:
        return Fail(_poisoned(error, kills, losses))
    if attempts[-1].status == "lost":
        return Retry(0.0)
    failures = sum(attempt.status == "failed" and not is_step(attempt) for attempt in attempts)
    if not error.retryable or failures >= policy.max_attempts:
        return Fail(error)
    return Retry(min(policy.backoff_seconds * 2 ** (failures - 1), MAX_BACKOFF_SECONDS))


def _count(attempts: Sequence[Attempt], code: str) -> int:
    return sum(attempt.error is not None and attempt.error.code == code for attempt in attempts)


def _poisoned(error: ErrorInfo, kills: int, losses: int) -> ErrorInfo:
    return error.model_copy(
        update={
            "code": "poisoned",
            "message": f"the job ended its process {kills + losses} times; the last time: {error.message}",
            "retryable": False,
            "facts": {**error.facts, "kills": kills, "losses": losses},
        }
    )
