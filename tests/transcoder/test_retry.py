"""What follows a failed attempt."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcoder.attempts.retry import (
    KILLS_TO_POISON,
    LOSSES_TO_POISON,
    LOST,
    MAX_BACKOFF_SECONDS,
    STOPPED,
    Fail,
    Retry,
    RetryPolicy,
    decide,
)
from transcoder.jobs import Attempt, ErrorInfo

POLICY = RetryPolicy(max_attempts=3, backoff_seconds=2.0)
BAD_INPUT = ErrorInfo(code="bad_input", message="not media")
DEVICE_LOST = ErrorInfo(code="device_lost", message="gone", retryable=True)
CRASHED = ErrorInfo(code="crashed", message="died", retryable=True)


def attempts(*errors: ErrorInfo) -> list[Attempt]:
    return [
        Attempt(
            number=number,
            device="software",
            status="lost" if error in (LOST, STOPPED) else "failed",
            started_at=datetime.now(UTC),
            error=error,
        )
        for number, error in enumerate(errors, 1)
    ]


def test_bad_input_is_never_retried() -> None:
    assert decide(attempts(BAD_INPUT), POLICY) == Fail(BAD_INPUT)


def test_backoff_doubles_until_the_attempts_are_used_up() -> None:
    assert decide(attempts(DEVICE_LOST), POLICY) == Retry(2.0)
    assert decide(attempts(*[DEVICE_LOST] * 2), POLICY) == Retry(4.0)
    assert decide(attempts(*[DEVICE_LOST] * 3), POLICY) == Fail(DEVICE_LOST)


def test_three_crashes_poison_whatever_the_policy_allows() -> None:
    generous = RetryPolicy(max_attempts=20, backoff_seconds=0)
    decision = decide(attempts(*[CRASHED] * KILLS_TO_POISON), generous)
    assert isinstance(decision, Fail)
    assert decision.error.code == "poisoned"
    assert decision.error.facts["kills"] == KILLS_TO_POISON


def test_losing_the_service_costs_no_attempt() -> None:
    assert decide(attempts(LOST, LOST, STOPPED, LOST, LOST), POLICY) == Retry(0.0)
    assert decide(attempts(LOST, LOST, LOST, DEVICE_LOST), POLICY) == Retry(2.0)


def test_a_job_under_which_the_service_dies_again_and_again_is_poisoned() -> None:
    decision = decide(attempts(*[LOST] * LOSSES_TO_POISON), POLICY)
    assert isinstance(decision, Fail)
    assert decision.error.code == "poisoned"


def test_orderly_stops_never_poison() -> None:
    assert decide(attempts(*[STOPPED] * 50), POLICY) == Retry(0.0)


@given(
    st.lists(st.sampled_from([DEVICE_LOST, CRASHED, LOST, STOPPED]), min_size=1, max_size=60),
    st.integers(1, 20),
    st.floats(0, 1e6),
)
def test_waits_are_bounded_and_every_history_ends(errors: list[ErrorInfo], most: int, backoff: float) -> None:
    policy = RetryPolicy(max_attempts=most, backoff_seconds=backoff)
    decision = decide(attempts(*errors), policy)
    if isinstance(decision, Retry):
        assert 0 <= decision.after_seconds <= MAX_BACKOFF_SECONDS
        assert sum(error in (DEVICE_LOST, CRASHED) for error in errors) < most or errors[-1] in (LOST, STOPPED)
    else:
        assert decision.error.code in ("poisoned", errors[-1].code)


@pytest.mark.parametrize("most", [1, 2])
def test_fewer_attempts_than_crashes_allowed_fail_as_crashed(most: int) -> None:
    decision = decide(attempts(*[CRASHED] * most), RetryPolicy(max_attempts=most, backoff_seconds=0))
    assert decision == Fail(CRASHED)
