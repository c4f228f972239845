"""Whether a failed attempt is followed by another. Pure: it looks at the attempts so far and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transcoder.attempts.fallback import is_step
from transcoder.jobs import Attempt, ErrorInfo

KILLS_TO_POISON = 3
"""Attempts that killed their process, after which the job is taken for the cause."""

LOSSES_TO_POISON = 10
"""Attempts that were running when the service died. More are forgiven: mostly it was killed for other reasons."""

MAX_BACKOFF_SECONDS = 300.0
LONGEST_STREAM_PAUSE_SECONDS = 60.0
LONG_RUN_SECONDS = 60.0
"""A stream that ran for longer was well: what ended it counts as the first failure."""

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


def decide_stream(attempts: Sequence[Attempt], policy: RetryPolicy) -> Retry | Fail:
    """The same for a stream, which has no number of attempts: it goes on until it is stopped.

    What was lost with the service starts again at once. What fails soon after each start is given up.
    """
    last = attempts[-1]
    if last.status == "lost":
        return Retry(0.0)
    error = last.error or LOST
    brief = 0
    for attempt in reversed(attempts):
        if attempt.status != "failed" or is_step(attempt) or _lasted(attempt) > LONG_RUN_SECONDS:
            break
        brief += 1
    crashed = _count(attempts[len(attempts) - brief :], "crashed")
    if crashed >= KILLS_TO_POISON:
        return Fail(_poisoned(error, crashed, 0))
    if not error.retryable:
        return Fail(error)
    return Retry(min(policy.backoff_seconds * 2 ** max(0, min(brief, 30) - 1), LONGEST_STREAM_PAUSE_SECONDS))


def _lasted(attempt: Attempt) -> float:
    return 0.0 if attempt.finished_at is None else (attempt.finished_at - attempt.started_at).total_seconds()


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
