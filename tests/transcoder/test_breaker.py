"""When a GPU is no longer asked for what it fails at."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.pipelines.facts import source, video
from tests.pipelines.test_plan_hardware import job, planned
from transcoder.gpus.breaker import Breaker, Circuit, circuits_in, circuits_of
from transcoder.jobs import Attempt, ErrorInfo

ENCODE = Circuit("pci-a", "encode", "h264")
DECODE = Circuit("pci-a", "decode", "hevc", "Main 10", 10)


def attempt(code: str = "device_fault", stage: str | None = "decode", device: str = "pci-a") -> Attempt:
    facts = {"codec": "hevc", "profile": "Main 10", "bit_depth": 10}
    error = ErrorInfo(code=code, message="it broke", stage=stage, facts=facts)
    return Attempt(number=1, device=device, status="failed", started_at=datetime.now(UTC), error=error)


def test_breaker_opens_after_enough_jobs_and_is_a_verdict_then() -> None:
    breaker = Breaker(3)
    assert [breaker.failed(DECODE, job_id) for job_id in ("a", "b", "b", "c", "d")] == [
        False,
        False,
        False,
        True,
        False,
    ]
    (verdict,) = breaker.verdicts("pci-a")
    assert (verdict.stage, verdict.codec, verdict.profile, verdict.bit_depth) == ("decode", "hevc", "Main 10", 10)
    assert "failed here for 4 jobs in a row" in verdict.reason
    assert breaker.verdicts("pci-b") == ()


def test_one_job_never_opens_it() -> None:
    breaker = Breaker(2)
    assert not any(breaker.failed(ENCODE, "a") for _ in range(20))


def test_success_between_starts_the_count_anew() -> None:
    breaker = Breaker(2)
    breaker.failed(ENCODE, "a")
    breaker.succeeded(ENCODE)
    assert not breaker.failed(ENCODE, "b")


def test_success_of_another_kind_counts_for_nothing() -> None:
    breaker = Breaker(2)
    breaker.failed(DECODE, "a")
    for other in (
        Circuit("pci-b", "decode", "hevc", "Main 10", 10),
        Circuit("pci-a", "encode", "hevc", None, 10),
        Circuit("pci-a", "decode", "hevc", "Main", 8),
        Circuit("pci-a", "decode", "hevc", "Rext", 10),
    ):
        breaker.succeeded(other)
    assert breaker.failed(DECODE, "b")


def test_half_closed_one_more_failure_opens_it_again() -> None:
    breaker = Breaker(3)
    for job_id in ("a", "b", "c"):
        breaker.failed(ENCODE, job_id)
    breaker.half_close(ENCODE)
    assert breaker.verdicts("pci-a") == ()
    assert breaker.failed(ENCODE, "d")


@pytest.mark.parametrize("code", ["device_lost", "device_oom", "stalled", "crashed", "bad_input", "device_unsuitable"])
def test_only_what_a_stage_did_wrong_counts(code: str) -> None:
    assert circuits_of(attempt()) == (DECODE,)
    assert circuits_of(attempt(code)) == ()


def test_failure_without_a_stage_or_on_the_cpu_counts_against_nothing() -> None:
    assert circuits_of(attempt(stage="run")) == ()
    assert circuits_of(attempt(device="software")) == ()


def test_circuits_of_a_plan_are_what_it_does_on_the_gpu() -> None:
    of = source(video(codec="hevc", profile="Main 10", pixel_format="yuv420p10le", bit_depth=10))
    made = planned(job({"type": "mp4", "video": {"codec": "h264"}}, {"type": "mkv", "video": {"codec": "av1"}}), of)
    assert circuits_in(made) == {
        Circuit(made.device, "decode", "hevc", "Main 10", 10),
        Circuit(made.device, "filter", "hevc", "Main 10", 10),
        Circuit(made.device, "encode", "h264", None, 8),
    }
