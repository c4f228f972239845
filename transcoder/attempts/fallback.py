"""What follows a failure on a GPU: a step down there, another GPU, or the CPU. Pure.

A job's attempts are its memory: what they failed at are verdicts, which hold for this job alone. Each step is planned
around them, so that no two attempts do the same; a step costs the job no attempt and no wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pipelines.devices import Device, HardwareApi, Stage, Verdict
from pipelines.planning.placement import ANY_CODEC
from pipelines.rendition import Plan, VideoRendition
from pipelines.spec import DevicePolicy
from transcoder.jobs import Attempt, ErrorInfo
from transcoder.queueing.queues import device_names
from transcoder.queueing.requirements import PINNED, SOFTWARE, requirement, satisfied

MAX_STEPS = 12
"""Steps of one job; the next one is to the CPU."""
MAX_CASUALTIES = 2
"""GPUs that one job may bring down; the next step is to the CPU."""

STAGES = ("decode", "filter", "encode")
UNSUITABLE = "device_unsuitable"
_OF_A_STAGE = ("device_error", "device_unsupported", "device_fault", "device_oom")
_OF_THE_DEVICE = (UNSUITABLE, "device_lost", "stalled", "crashed")
_OF_THE_WAY = ("encoder_rejected", "verify_failed", "internal")
"""Failures that the GPU's way through the engine may have brought about, whatever the device had to do with them."""
CASUALTIES = ("device_lost", "stalled", "crashed")
"""Failures after which a GPU takes nothing until it has shown that it works."""
_PASSING = ("device_fault", "device_oom")
"""Failures that may be of how the pictures came, and not of what the encoder can do."""

ON_GPU = "on_gpu"
"""The fact of an attempt's error that says what of its plan was on the GPU."""

_LESS: dict[Stage, str] = {"decode": "software decode", "filter": "software filters", "encode": "software encode"}


@dataclass(frozen=True)
class Place:
    """A device as a step looks at it. `ready`: it takes tasks now."""

    id: str
    is_gpu: bool
    ready: bool


@dataclass(frozen=True)
class Step:
    """The next attempt is at once, on a device that meets this."""

    requirement: str


@dataclass(frozen=True)
class NoStep:
    """The failure is a device's, and the job's policy leaves no other way."""


def in_order(policy: DevicePolicy, devices: Sequence[Device]) -> list[Device]:
    """The devices that a job with this policy may go through, first those that it asks for; NoDevice without any."""
    wanted = requirement(policy, devices)
    asked = [device for device in devices if wanted in satisfied(device)]
    rest = devices if policy.policy == "auto" and policy.fallback else ()
    return [*asked, *(device for device in rest if device.kind == "software" and device not in asked)]


def is_software(device_id: str) -> bool:
    """Whether it is the CPU, of whatever node."""
    return "software" in device_names(device_id)


def is_step(attempt: Attempt) -> bool:
    """Whether the attempt failed on a GPU and by it, so that it says nothing against the job."""
    if attempt.status != "failed" or attempt.error is None or is_software(attempt.device):
        return False
    return attempt.error.code in (*_OF_A_STAGE, *_OF_THE_DEVICE, *_OF_THE_WAY)


def next_step(policy: DevicePolicy, attempts: Sequence[Attempt], places: Sequence[Place]) -> Step | NoStep | None:
    """What follows the last of `attempts`; None where its failure is no device's."""
    last = attempts[-1]
    if not is_step(last):
        return None
    misplaced = last.error is not None and last.error.code == UNSUITABLE
    if not policy.fallback and not (misplaced and policy.id is None):
        return NoStep()
    for wanted in _candidates(policy, attempts, places):
        return Step(wanted)
    return NoStep()


def _candidates(policy: DevicePolicy, attempts: Sequence[Attempt], places: Sequence[Place]) -> Iterator[str]:
    steps = [attempt for attempt in attempts if is_step(attempt)]
    casualties = [each for each in steps if each.error is not None and each.error.code in CASUALTIES]
    if len(steps) < MAX_STEPS and len(casualties) < MAX_CASUALTIES:
        found = verdicts(attempts)
        spent = {verdict.device for verdict in found if _is_whole(verdict)}
        spent |= {step.device for step in steps if not _leaves_something(step, found)}
        last = attempts[-1].device
        asked = [place for place in places if policy.id is None or policy.id in device_names(place.id)]
        gpus = [place for place in asked if place.is_gpu and place.id not in spent]
        ready = [place for place in gpus if place.ready]
        # who asked for a GPU waits for one rather than fail
        usable = ready or (gpus if policy.policy == "hardware" else [])
        yield from (f"{PINNED}{place.id}" for place in sorted(usable, key=lambda place: place.id != last))
    if policy.policy == "auto" and any(not place.is_gpu for place in places):
        yield SOFTWARE


def verdicts(attempts: Sequence[Attempt]) -> tuple[Verdict, ...]:
    """What the attempts show that the devices can't do for this job."""
    found: list[Verdict] = []
    for attempt in filter(is_step, attempts):
        assert attempt.error is not None
        verdict = _verdict(attempt.device, attempt.error)
        known = any(_same(verdict, other) for other in found)
        if known and not _is_whole(verdict):
            # it failed there although nothing was planned there: the device is not to be understood
            verdict = verdict.model_copy(update={"stage": "encode", "codec": ANY_CODEC})
        if not any(_same(verdict, other) for other in found):
            found.append(verdict)
    return tuple(found)


def _verdict(device: str, error: ErrorInfo) -> Verdict:
    reason, facts = described(error), error.facts
    if error.code not in _OF_A_STAGE or error.stage not in STAGES:
        return Verdict(device=device, stage="encode", codec=ANY_CODEC, reason=reason)
    used = facts.get(ON_GPU)
    api = encode_api(error)
    passing = error.code in _PASSING and error.stage == "encode" and api is None
    if error.stage == "filter" or (passing and _filtered(used)):
        return Verdict(device=device, stage="filter", codec=ANY_CODEC, reason=reason)
    return Verdict(
        device=device,
        stage=cast("Stage", error.stage),
        codec=facts.get("codec") or ANY_CODEC,
        profile=facts.get("profile"),
        bit_depth=facts.get("bit_depth") or 8,
        api=api,
        reason=reason,
    )


def encode_api(error: ErrorInfo) -> HardwareApi | None:
    """The API that a failure of encoding is about: QSV's is its own, VAAPI's is QSV's too, which is built on it."""
    return "qsv" if error.stage == "encode" and error.facts.get("api") == "qsv" else None


def _filtered(used: Any) -> bool:
    return isinstance(used, dict) and bool(used.get("filter"))


def _same(one: Verdict, other: Verdict) -> bool:
    return one.model_copy(update={"reason": ""}) == other.model_copy(update={"reason": ""})


def _is_whole(verdict: Verdict) -> bool:
    return (verdict.stage, verdict.codec) == ("encode", ANY_CODEC)


def _leaves_something(attempt: Attempt, found: Sequence[Verdict]) -> bool:
    """Whether the attempt's device still encodes something of the job; where it isn't known, it is tried."""
    used = attempt.error.facts.get(ON_GPU) if attempt.error is not None else None
    if not isinstance(used, dict):
        return True
    whole = (v for v in found if v.device == attempt.device and v.stage == "encode" and v.api is None)
    gone = {(v.codec, v.bit_depth) for v in whole}
    return any((each["codec"], each["bit_depth"]) not in gone for each in used["encode"])


def described(error: ErrorInfo) -> str:
    """Such as `h264 failed in encode (device_fault): …`."""
    what = error.facts.get("encoder") or error.facts.get("codec") or "it"
    where = f" in {error.stage}" if error.stage in STAGES else ""
    return f"{what} failed{where} on {error.device} ({error.code}): {error.message}"


def reason_for(before: Sequence[Attempt], device: str) -> str | None:
    """Why an attempt on `device` follows those `before` it; None where no step led to it."""
    told = [attempt for attempt in before if attempt.status != "lost"]
    if not told or not is_step(told[-1]):
        return None
    last = told[-1]
    assert last.error is not None
    if is_software(device):
        way = "software"
    elif device != last.device:
        way = "another device"
    else:
        verdict = verdicts(told)[-1]
        way = _LESS[verdict.stage] if verdict.api is None else "VAAPI's encoder"
    if last.error.code == UNSUITABLE:
        return f"{last.error.message}: {way}"
    return f"{described(last.error)}: {way}"


def used_on_gpu(plan: Plan) -> dict[str, Any]:
    """What of a plan is on the GPU, as a fact of an attempt's error."""
    renditions = list(_video(plan))
    encoded = {(each.codec, bit_depth_of(each)) for each in renditions if each.placement == "hardware"}
    return {
        "decode": any(step.placement == "hardware" for step in plan.decode),
        "filter": any(each.filter_placement == "hardware" for each in renditions),
        "encode": [{"codec": codec, "bit_depth": bit_depth} for codec, bit_depth in sorted(encoded)],
    }


def way_of(plan: Plan) -> str:
    """Such as `hardware decode, software filters, h264_vaapi`."""
    renditions = list(_video(plan))
    decode = {step.placement for step in plan.decode if step.kind == "video"}
    filters = {each.filter_placement for each in renditions if each.placement == "hardware"}
    encoders = sorted({each.encoder for each in renditions})
    return ", ".join([f"{_word(decode)} decode", f"{_word(filters)} filters", *encoders])


def _word(placements: set[Any]) -> str:
    return " and ".join(sorted(placements)) or "software"


def _video(plan: Plan) -> Iterator[VideoRendition]:
    return (each for output in plan.outputs for each in output.renditions if isinstance(each, VideoRendition))


def bit_depth_of(rendition: VideoRendition) -> int:
    return 10 if "10" in rendition.pixel_format else 8
