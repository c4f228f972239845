"""What follows when a stream's attempt ends otherwise than it should."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from transcoder.attempts.retry import (
    KILLS_TO_POISON,
    LONG_RUN_SECONDS,
    LONGEST_STREAM_PAUSE_SECONDS,
    LOST,
    STOPPED,
    Fail,
    Retry,
    RetryPolicy,
    decide_stream,
)
from transcoder.jobs import Attempt, ErrorInfo

POLICY = RetryPolicy(max_attempts=3, backoff_seconds=2.0)
CRASHED = ErrorInfo(code="crashed", message="died", retryable=True)
BLOCKED = ErrorInfo(code="blocked_address", message="no")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def attempts(*ends: tuple[ErrorInfo, float]) -> list[Attempt]:
    """Each with how it ended and how many seconds it lasted."""
    return [
        Attempt(
            number=number,
            device="software",
            status="lost" if error in (LOST, STOPPED) else "failed",
            started_at=NOW,
            finished_at=NOW + timedelta(seconds=seconds),
            error=error,
        )
        for number, (error, seconds) in enumerate(ends, 1)
    ]


@pytest.mark.parametrize("error", [LOST, STOPPED])
def test_what_was_lost_with_the_service_starts_again_at_once_any_number_of_times(error: ErrorInfo) -> None:
    assert decide_stream(attempts(*[(error, 1)] * 50), POLICY) == Retry(0.0)


def test_crashes_days_apart_never_poison_a_stream() -> None:
    long = LONG_RUN_SECONDS + 1
    assert decide_stream(attempts(*[(CRASHED, long)] * 20), POLICY) == Retry(POLICY.backoff_seconds)


def test_crashes_soon_after_each_start_do() -> None:
    assert isinstance(decide_stream(attempts(*[(CRASHED, 1)] * (KILLS_TO_POISON - 1)), POLICY), Retry)
    decision = decide_stream(attempts(*[(CRASHED, 1)] * KILLS_TO_POISON), POLICY)
    assert isinstance(decision, Fail)
    assert decision.error.code == "poisoned"


def test_what_can_not_work_is_not_tried_again() -> None:
    assert decide_stream(attempts((CRASHED, 100), (BLOCKED, 1)), POLICY) == Fail(BLOCKED)


def test_pauses_grow_up_to_their_bound() -> None:
    error = ErrorInfo(code="output_failed", message="gone", retryable=True)
    pauses = [decide_stream(attempts(*[(error, 1)] * count), POLICY) for count in range(1, 12)]
    assert pauses[:3] == [Retry(2.0), Retry(4.0), Retry(8.0)]
    assert pauses[-1] == Retry(LONGEST_STREAM_PAUSE_SECONDS)
