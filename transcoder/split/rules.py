"""Whether a job is worth cutting, from what is known before its input is opened. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.spec import FileJob
from pipelines.stitch.cuts import spec_refusal
from pipelines.stitch.tasks import CutRules
from transcoder.engine import DeviceState
from transcoder.queueing.requirements import requested, satisfied
from transcoder.settings import Settings
from transcoder.split.family import piece_requirement
from transcoder.split.modes import SplitMode


@dataclass(frozen=True)
class SplitSettings:
    """`live_slots`: slots of each device that no file job gets."""

    mode: SplitMode
    least_seconds: float
    piece_seconds: float
    live_slots: int = 0


def split_settings(settings: Settings) -> SplitSettings:
    # pieces are found in the folder that nodes share, and with a bucket there is none
    mode: SplitMode = settings.split if settings.bucket_url is None else "off"
    return SplitSettings(mode, settings.split_least_seconds, settings.split_piece_seconds, settings.reserve_live)


def cut_rules(
    spec: FileJob,
    device_id: str,
    states: Sequence[DeviceState],
    settings: SplitSettings,
    allowed: Callable[[str], bool] = lambda device_id: True,
) -> CutRules | None:
    """How to cut a job that starts on this device, one of a CPU; None: it stays whole.

    `allowed`: whether the job's queue may use a device.
    """
    if settings.mode == "off" or spec.split == "never" or spec_refusal(spec) is not None:
        return None
    if spec.split == "always":
        return CutRules(least_seconds=0, piece_seconds=settings.piece_seconds)
    requirement = piece_requirement(requested(spec.model_dump(mode="json", include={"device"})))
    able = [
        state
        for state in states
        if state.kind == "software"
        and state.state == "ready"
        and requirement in satisfied(state)
        and allowed(state.id)
        and state.slots - settings.live_slots > state.busy
    ]
    if settings.mode == "nodes":
        able = [state for state in able if state.id != device_id]
    if not able:
        return None
    return CutRules(least_seconds=settings.least_seconds, piece_seconds=settings.piece_seconds)
