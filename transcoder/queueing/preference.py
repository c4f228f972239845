"""What a job asks of each device, by the device's own speeds: slots, and whether the CPU is the faster place for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipelines.asked.streams import StreamJob
from pipelines.devices import Device
from pipelines.encoders import SOFTWARE_ENCODERS
from pipelines.estimates.speeds import USUAL, Speeds, same_effort
from pipelines.hardware.encoders import HARDWARE_ENCODERS
from pipelines.spec import DevicePolicy, FileJob
from transcoder.queueing.costs import Wanted, cost_of_all, wanted_pictures
from transcoder.queueing.requirements import pool_of

SpeedsOf = Callable[[str], Speeds]
"""By a device's id."""


@dataclass(frozen=True)
class Preference:
    """`costs`: slots on each device that they can be told of."""

    costs: Mapping[str, int]
    faster_in_software: bool = False

    def ordered(self, policy: DevicePolicy, devices: Sequence[Device]) -> list[Device]:
        """`devices`, those of hardware first, as a job with this policy goes through them."""
        if self.faster_in_software and policy.policy == "auto" and policy.id is None:
            return sorted(devices, key=lambda device: pool_of(device) != "software")
        return list(devices)


def preference(spec: FileJob | StreamJob, devices: Sequence[Device], speeds_of: SpeedsOf) -> Preference:
    """Speeds that are not known leave the usual ratios, and hardware preferred."""
    wanted = wanted_pictures(spec)
    costs: dict[str, int] = {}
    seconds: dict[str, list[float]] = {"software": [], "hardware": []}
    for device in devices:
        speeds = speeds_of(device.id)
        factors = [_factor(each, device, speeds) for each in wanted]
        if wanted and None not in factors:
            costs[device.id] = cost_of_all(wanted, [factor or 1.0 for factor in factors])
        took = _seconds(wanted, device, speeds)
        if took is not None:
            seconds[pool_of(device)].append(took)
    software, hardware = seconds["software"], seconds["hardware"]
    return Preference(costs, bool(software and hardware) and min(software) < min(hardware))


def _factor(wanted: Wanted, device: Device, speeds: Speeds) -> float | None:
    """Work for each pixel, in that of H.264 with the usual effort on this device."""
    unit, own = _speed("h264", USUAL, device, speeds), _speed(wanted.codec, wanted.effort, device, speeds)
    return None if unit is None or own is None else unit / own


def _seconds(wanted: Sequence[Wanted], device: Device, speeds: Speeds) -> float | None:
    """For each second of output; None where something is not known, or nothing is encoded."""
    total = 0.0
    for each in wanted:
        speed = _speed(each.codec, each.effort, device, speeds)
        if speed is None:
            return None
        total += each.pixels_per_second / speed
    return total or None


def _speed(codec: str, effort: str, device: Device, speeds: Speeds) -> float | None:
    """Of the fastest encoder of this codec that the device has."""
    if device.kind == "software":
        names = [SOFTWARE_ENCODERS[codec]] if codec in SOFTWARE_ENCODERS else []
    else:
        names = [name for (each, _), name in HARDWARE_ENCODERS.items() if each == codec and device.encoder(name)]
    found = (speeds.find("encode", name, same_effort(name, effort)) for name in names)
    return max((each.pixels_per_second for each in found if each is not None), default=None)
