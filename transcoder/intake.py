"""What a request for a job becomes: the job to add, or the reason why it can't work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.asked.streams import StreamJob
from pipelines.devices import Device
from pipelines.errors import UnsupportedSpec
from pipelines.opening.beside import files_beside
from pipelines.planning.placement import encodes_pictures
from pipelines.presets import Preset, resolve
from pipelines.spec import FileJob
from pipelines.stitch.cuts import spec_refusal
from transcoder.clock import utc_now
from transcoder.errors import DeadlineImpossible
from transcoder.ids import new_id
from transcoder.inputs import Inputs
from transcoder.masks import check_keys
from transcoder.network.addresses import Network
from transcoder.queueing.costs import SlotCost, cost_of
from transcoder.queueing.deadlines import Foretell, check_not_over, check_reachable
from transcoder.queueing.preference import SpeedsOf, preference
from transcoder.queueing.requirements import ANY, SOFTWARE, requirement, satisfied
from transcoder.settings import Settings
from transcoder.streams.secrets import StreamSecrets, without_secrets
from transcoder.submission import Idempotency, NewJob
from transcoder.webhooks.send import check_url


@dataclass(frozen=True)
class Intake:
    """`wait_seconds`: how long jobs that do not say so wait for hardware."""

    presets: Mapping[str, Preset]
    inputs: Inputs
    allowed_networks: tuple[Network, ...]
    slot_cost: SlotCost
    wait_seconds: float
    speeds_of: SpeedsOf
    foretell: Foretell

    async def prepare(
        self, spec: FileJob | StreamJob, tenant: str, idempotency: Idempotency | None, devices: Sequence[Device]
    ) -> NewJob:
        """UnknownPreset, UnsupportedSpec, MaskedKey, NoDevice, DeadlineImpossible, PathNotAllowed, InputNotFound,
        BlockedAddress.
        """
        if isinstance(spec, StreamJob):
            return self._stream(spec, tenant, idempotency, devices)
        resolved = resolve(spec, self.presets)
        check_keys(resolved)
        wanted = _wanted(resolved, devices)
        now = utc_now()
        check_not_over(spec.ready_by, now)
        await self.inputs.check_all(spec.all_inputs)
        await self.inputs.check_beside(files_beside(resolved))
        if spec.webhook is not None:
            check_url(spec.webhook.url, self.allowed_networks)
        refusal = spec_refusal(resolved) if spec.split == "always" else None
        if refusal is not None:
            raise UnsupportedSpec(f"the job can't be cut into pieces: {refusal}", stage="plan")
        await check_reachable(resolved, tenant, devices, now, self.foretell)
        preferred = preference(resolved, devices, self.speeds_of)
        wait_seconds = spec.device.max_wait_seconds
        return NewJob(
            id=new_id(),
            tenant=tenant,
            spec=resolved,
            preset=spec.preset,
            requirement=wanted,
            created_at=now,
            idempotency=idempotency,
            cost=cost_of(resolved, self.slot_cost),
            costs=preferred.costs if self.slot_cost == "work" else {},
            wait_seconds=self.wait_seconds if wait_seconds is None else wait_seconds,
            able=_able(wanted, devices),
            in_software=wanted == ANY and preferred.faster_in_software,
        )

    def _stream(
        self, spec: StreamJob, tenant: str, idempotency: Idempotency | None, devices: Sequence[Device]
    ) -> NewJob:
        """Its addresses are looked up when it runs, each time anew; its secrets are put aside here."""
        now = utc_now()
        if spec.stop_at is not None and spec.stop_at <= now:
            raise DeadlineImpossible("`stop_at` is over already", stop_at=spec.stop_at.isoformat(), now=now.isoformat())
        if spec.webhook is not None:
            check_url(spec.webhook.url, self.allowed_networks)
        wait_seconds = spec.device.max_wait_seconds
        wanted = _wanted(spec, devices)
        preferred = preference(spec, devices, self.speeds_of)
        return NewJob(
            id=new_id(),
            tenant=tenant,
            spec=without_secrets(spec),
            preset=None,
            requirement=wanted,
            created_at=now,
            idempotency=idempotency,
            cost=cost_of(spec, self.slot_cost),
            costs=preferred.costs if self.slot_cost == "work" else {},
            in_software=wanted == ANY and preferred.faster_in_software,
            able=_able(wanted, devices),
            wait_seconds=self.wait_seconds if wait_seconds is None else wait_seconds,
            secrets=StreamSecrets.of(spec),
        )


def intake_for(
    settings: Settings, presets: Mapping[str, Preset], inputs: Inputs, speeds_of: SpeedsOf, foretell: Foretell
) -> Intake:
    wait_seconds = settings.hardware_wait_seconds
    networks, cost = settings.allowed_networks, settings.slot_cost
    return Intake(presets, inputs, networks, cost, wait_seconds, speeds_of, foretell)


def _wanted(spec: FileJob | StreamJob, devices: Sequence[Device]) -> str:
    """Of a device: what the policy says; the CPU where there is nothing for a GPU to encode."""
    wanted = requirement(spec.device, devices)
    idle = wanted == ANY and not encodes_pictures(spec) and any(device.kind == "software" for device in devices)
    return SOFTWARE if idle else wanted


def _able(wanted: str, devices: Sequence[Device]) -> tuple[str, ...]:
    return tuple(device.id for device in devices if wanted in satisfied(device))
