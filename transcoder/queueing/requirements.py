"""What a device must be to run a task: a small closed vocabulary, and what each device is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from pipelines.devices import Device
from pipelines.spec import DevicePolicy
from transcoder.errors import NoDevice
from transcoder.queueing.queues import device_names
from transcoder.queueing.shares import Pool

ANY, HARDWARE, SOFTWARE, PINNED = "any", "hardware", "software", "device:"

_BY_POLICY = {"auto": ANY, "hardware": HARDWARE, "software": SOFTWARE}


def policy_of(spec: Mapping[str, Any]) -> DevicePolicy:
    """A stored job's; one that is not understood leaves no choice."""
    try:
        return DevicePolicy.model_validate(spec.get("device", {}))
    except ValidationError:
        return DevicePolicy(fallback=False)


def requested(spec: Mapping[str, Any]) -> str:
    """What a stored job asks of a device, whichever there are."""
    policy = policy_of(spec)
    return _BY_POLICY[policy.policy] if policy.id is None else f"{PINNED}{policy.id}"


def requirement(policy: DevicePolicy, devices: Sequence[Device]) -> str:
    """What a device must be to run a job with this policy; NoDevice when none of `devices` is it."""
    wanted = _BY_POLICY[policy.policy]
    able = [device for device in devices if wanted in satisfied(device)]
    if policy.id is not None:
        able = [device for device in able if f"{PINNED}{policy.id}" in satisfied(device)]
        wanted = f"{PINNED}{policy.id}"
    if not able:
        there = ", ".join(f"{device.id} ({device.kind})" for device in devices) or "none"
        called = "" if policy.id is None else f" called {policy.id!r}"
        raise NoDevice(
            f"no device{called} satisfies the policy {policy.policy!r}; there are: {there}",
            policy=policy.policy,
            device=policy.id,
        )
    return wanted


def satisfied(device: Device) -> tuple[str, ...]:
    """The requirements that a device meets."""
    kind = SOFTWARE if device.kind == "software" else HARDWARE
    return (ANY, kind, *(f"{PINNED}{name}" for name in device_names(device.id)))


def pool_of(device: Device) -> Pool:
    return "software" if device.kind == "software" else "hardware"
