"""What follows a failure on a GPU."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.spec import DevicePolicy
from transcoder.attempts.fallback import (
    MAX_STEPS,
    ON_GPU,
    NoStep,
    Place,
    Step,
    is_step,
    next_step,
    reason_for,
    verdicts,
)
from transcoder.attempts.retry import Fail, Retry, RetryPolicy, decide
from transcoder.jobs import Attempt, ErrorInfo

A, B, CPU = Place("pci-a", True, True), Place("pci-b", True, True), Place("software", False, True)
AUTO = DevicePolicy()
WHOLE = {"decode": True, "filter": True, "encode": [{"codec": "h264", "bit_depth": 8}]}


def error(code: str = "device_fault", stage: str | None = "encode", **facts: Any) -> ErrorInfo:
    given = {"codec": "h264", "bit_depth": 8, "profile": None, ON_GPU: WHOLE, **facts}
    return ErrorInfo(code=code, message="it broke", stage=stage, device="pci-a", retryable=True, facts=given)


def failed(*errors: ErrorInfo, device: str = "pci-a") -> list[Attempt]:
    now = datetime.now(UTC)
    return [
        Attempt(number=number, device=device, status="failed", started_at=now, error=each)
        for number, each in enumerate(errors, 1)
    ]


def stages(attempts: list[Attempt]) -> list[tuple[str, str]]:
    return [(verdict.stage, verdict.codec) for verdict in verdicts(attempts)]


def test_a_fault_of_the_encoder_is_first_taken_for_one_of_how_the_pictures_came() -> None:
    once, twice = failed(error()), failed(error(), error(**{ON_GPU: {**WHOLE, "filter": False}}))
    assert (stages(once), next_step(AUTO, once, (A, B, CPU))) == ([("filter", "*")], Step("device:pci-a"))
    assert stages(twice) == [("filter", "*"), ("encode", "h264")]
    assert next_step(AUTO, twice, (A, B, CPU)) == Step("device:pci-b")
    assert next_step(AUTO, twice, (A, CPU)) == Step("software")


def test_what_the_encoder_does_not_support_is_not_tried_again_another_way() -> None:
    assert stages(failed(error("device_unsupported"))) == [("encode", "h264")]


def test_verdict_has_the_codec_profile_and_depth_of_its_error() -> None:
    (verdict,) = verdicts(failed(error(stage="decode", codec="hevc", profile="Main 10", bit_depth=10)))
    assert (verdict.device, verdict.stage, verdict.codec) == ("pci-a", "decode", "hevc")
    assert (verdict.profile, verdict.bit_depth) == ("Main 10", 10)
    assert verdict.reason == "hevc failed in decode on pci-a (device_fault): it broke"


def test_other_renditions_keep_the_device() -> None:
    both = {**WHOLE, "filter": False, "encode": [*WHOLE["encode"], {"codec": "hevc", "bit_depth": 8}]}
    assert next_step(AUTO, failed(error(**{ON_GPU: both})), (A, B, CPU)) == Step("device:pci-a")


def test_failing_twice_at_the_same_spends_the_device() -> None:
    attempts = failed(*[error(stage="decode", codec="h264")] * 2)
    assert stages(attempts) == [("decode", "h264"), ("encode", "*")]
    assert next_step(AUTO, attempts, (A, B, CPU)) == Step("device:pci-b")


@pytest.mark.parametrize("code", ["device_lost", "crashed", "stalled", "verify_failed", "device_unsuitable"])
def test_failure_of_no_stage_spends_the_device(code: str) -> None:
    attempts = failed(error(code, "run"))
    assert stages(attempts) == [("encode", "*")]
    assert next_step(AUTO, attempts, (A, B, CPU)) == Step("device:pci-b")


def test_a_job_brings_down_two_devices_at_most() -> None:
    attempts = [*failed(error("crashed", None)), *failed(error("stalled", "run"), device="pci-b")]
    third = Place("pci-c", True, True)
    assert next_step(AUTO, attempts, (A, B, third, CPU)) == Step("software")


def test_device_that_takes_no_tasks_is_passed_over() -> None:
    held = Place("pci-b", True, False)
    assert next_step(AUTO, failed(error("device_lost", None)), (A, held, CPU)) == Step("software")


def test_hardware_policy_never_goes_to_software_and_waits_for_a_device_rather_than_fail() -> None:
    policy, attempts = DevicePolicy(policy="hardware"), failed(error("device_lost", None))
    assert next_step(policy, attempts, (A, CPU)) == NoStep()
    assert next_step(policy, attempts, (A, Place("pci-b", True, False), CPU)) == Step("device:pci-b")


def test_without_fallback_a_failure_is_the_end_and_the_wrong_device_is_not() -> None:
    policy = DevicePolicy(fallback=False)
    assert next_step(policy, failed(error(stage="decode")), (A, B, CPU)) == NoStep()
    assert next_step(policy, failed(error("device_unsuitable", "plan")), (A, CPU)) == Step("software")
    pinned = DevicePolicy(id="pci-a", fallback=False)
    assert next_step(pinned, failed(error("device_unsuitable", "plan")), (A, CPU)) == NoStep()


def test_named_device_is_left_for_software_only() -> None:
    assert next_step(DevicePolicy(id="pci-a"), failed(error("device_lost", None)), (A, B, CPU)) == Step("software")


@pytest.mark.parametrize("code", ["bad_input", "unsupported", "disk_full", "oom", "timeout", "cancelled"])
def test_failure_that_is_no_devices_is_no_step(code: str) -> None:
    assert next_step(AUTO, failed(error(code)), (A, B, CPU)) is None


def test_cpu_takes_no_steps() -> None:
    attempts = failed(error("crashed", None), device="software")
    assert next_step(AUTO, attempts, (A, CPU)) is None
    assert not is_step(failed(error("device_lost", None), device="software@node-1")[0])


def test_steps_cost_no_attempt_and_no_wait() -> None:
    policy = RetryPolicy(max_attempts=2, backoff_seconds=1.0)
    lost = ErrorInfo(code="device_lost", message="gone", retryable=True)
    steps = failed(*[error("crashed", None)] * 9)
    assert decide([*steps, *failed(lost, device="software")], policy) == Retry(1.0)
    assert decide([*steps, *failed(lost, lost, device="software")], policy) == Fail(lost)


def test_reason_says_what_failed_and_what_is_done_instead() -> None:
    encode = failed(error())
    assert reason_for(encode, "pci-a") == "h264 failed in encode on pci-a (device_fault): it broke: software filters"
    decode = failed(error(stage="decode"))
    assert reason_for(decode, "pci-a") == "h264 failed in decode on pci-a (device_fault): it broke: software decode"
    assert (reason_for(decode, "pci-b") or "").endswith(": another device")
    assert (reason_for(decode, "software") or "").endswith(": software")
    assert reason_for([], "pci-a") is None
    assert reason_for(failed(error("bad_input")), "software") is None


CODES = ("device_fault", "device_unsupported", "device_oom", "device_lost", "crashed", "stalled", "internal")
errors = st.builds(
    error, st.sampled_from(CODES), st.sampled_from(("decode", "filter", "encode", "run", None)),
    codec=st.sampled_from(("h264", "hevc", None)), bit_depth=st.sampled_from((8, 10)),
)  # fmt: skip


@given(st.data(), st.sampled_from((AUTO, DevicePolicy(policy="hardware"))))
def test_every_chain_of_failures_ends_and_only_where_the_policy_lets_it(data: st.DataObject, policy: Any) -> None:
    attempts: list[Attempt] = []
    device = "pci-a"
    while True:
        attempts += failed(data.draw(errors), device=device)
        step = next_step(policy, attempts, (A, B, CPU))
        assert len(attempts) <= MAX_STEPS + 1
        if not isinstance(step, Step) or step.requirement == "software":
            break
        device = step.requirement.removeprefix("device:")
        against = {(v.stage, v.codec, v.bit_depth) for v in verdicts(attempts) if v.device == device}
        assert against.isdisjoint({("encode", "*", 8), ("encode", "h264", 8)})
    assert step == (Step("software") if policy is AUTO else NoStep())
