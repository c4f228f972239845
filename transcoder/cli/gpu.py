"""Work on GPUs for the command line: in children, as the service does it, for a driver may crash or hang."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipelines.devices import Device
from pipelines.errors import DeviceUnsuitable, PipelineError
from pipelines.estimates.estimate import estimated
from pipelines.estimates.work import Pace
from pipelines.opening.input import LocalFile
from pipelines.plan import plan
from pipelines.rendition import Plan, Refusal
from pipelines.result import Progress, Result
from pipelines.source import SourceInfo
from pipelines.spec import DevicePolicy, FileJob
from transcoder.attempts.fallback import ON_GPU, Place, Step, in_order, next_step, reason_for, used_on_gpu, verdicts
from transcoder.children.sandbox import SandboxPolicy
from transcoder.children.supervise import Supervisor
from transcoder.children.watch import ChildEvent, ChildTask
from transcoder.cli.failures import CommandError
from transcoder.cli.local import Way
from transcoder.cli.screen import ProgressView, say
from transcoder.errors import NoDevice
from transcoder.gpus.devices import Devices
from transcoder.jobs import Attempt, ErrorInfo
from transcoder.queueing.requirements import satisfied
from transcoder.settings import Settings

LOOK_SECONDS = 0.1


def wants_gpu(policy: DevicePolicy, settings: Settings) -> bool:
    """Whether GPUs are to be looked at; CommandError where one is asked for and can't be used."""
    if policy.policy == "software" or policy.id == "software":
        return False
    found = Devices.found(settings, _supervisor(settings))
    if any(device.kind != "software" for device in found.usable):
        return True
    if policy.policy == "hardware" or policy.id is not None:
        raise _no_device(policy, found.all)
    return False


def _supervisor(settings: Settings) -> Supervisor:
    return Supervisor(sandbox=SandboxPolicy(settings.sandbox, settings.child_memory_bytes))


def _no_device(policy: DevicePolicy, devices: Sequence[Device]) -> CommandError:
    problems = "; ".join(f"{device.id}: {device.problem}" for device in devices if device.problem is not None)
    there = ", ".join(device.id for device in devices if device.problem is None)
    wanted = "GPU" if policy.id is None else f"device {policy.id!r}"
    message = f"there is no {wanted} to use; there are: {there}"
    return CommandError("no_device", f"{message} ({problems})" if problems else message)


@dataclass(frozen=True)
class Gpus:
    """The machine's devices, measured, and a supervisor for the children that work on them."""

    devices: tuple[Device, ...]
    supervisor: Supervisor
    settings: Settings
    view: ProgressView

    def able(self, policy: DevicePolicy) -> list[Device]:
        """Devices that the policy lets one take, in the order of preference."""
        usable = [device for device in self.devices if device.problem is None]
        try:
            return in_order(policy, usable)
        except NoDevice:
            raise _no_device(policy, self.devices) from None

    def plan(self, spec: FileJob, source: SourceInfo) -> Plan:
        """For the first device that has something to do; with the refusals of those before."""
        refusals: list[Refusal] = []
        able = self.able(spec.device)
        for device in able:
            try:
                made = plan(spec, source, device)
            except DeviceUnsuitable as unsuitable:
                if device is able[-1]:
                    raise
                refusals += map(Refusal.model_validate, unsuitable.facts.get("refusals", ()))
            else:
                cpu = next((each.speeds for each in self.devices if each.kind == "software"), ())
                pace = Pace(cpu=cpu, gpu=() if device.kind == "software" else device.speeds)
                told = made.model_copy(update={"refusals": (*refusals, *made.refusals)})
                return estimated(told, source, pace)
        raise _no_device(spec.device, self.devices)

    async def transcode(
        self,
        spec: FileJob,
        file: LocalFile,
        folder: Path,
        stop: threading.Event,
        way: Way | None = None,
    ) -> Result:
        """Goes on with the next step down where a GPU fails, as far as the job's policy lets it."""
        attempts: list[Attempt] = []
        device = self.able(spec.device)[0]
        while True:
            plans: list[Plan] = []
            try:
                result = await self._attempt(spec, file, folder, stop, device, attempts, plans)
            except PipelineError as error:
                attempts.append(_failed(len(attempts) + 1, device, error, plans))
                following = self._next(spec.device, attempts)
                if following is None:
                    raise
                device = following
                say(f"note: {reason_for(attempts, device.id)}")
            else:
                if way is not None:
                    way.plan, way.device, way.earlier = plans[-1] if plans else None, device, tuple(attempts)
                return result

    async def _attempt(
        self,
        spec: FileJob,
        file: LocalFile,
        folder: Path,
        stop: threading.Event,
        device: Device,
        before: Sequence[Attempt],
        plans: list[Plan],
    ) -> Result:
        known = [verdict.model_dump(mode="json") for verdict in verdicts(before) if verdict.device == device.id]
        gpu = device.kind != "software"
        stall_seconds = self.settings.gpu_stall_seconds if gpu else self.settings.stall_seconds
        task = ChildTask(
            op="run",
            payload={
                "path": str(file.path),
                "name": file.name,
                "beside": {key: str(path) for key, path in file.beside.items()},
                "spec": spec.model_dump(mode="json"),
                "folder": str(folder),
                "limits": self.settings.limits.model_dump(mode="json"),
                "device": device.model_dump(mode="json"),
                "verdicts": known,
            },
            deadline_seconds=self.settings.attempt_timeout_seconds,
            stall_seconds=stall_seconds,
            readable=(file.path, *file.beside.values()),
            writable=(folder,),
            gpu=device.path if gpu else None,
        )

        def hear(event: ChildEvent) -> None:
            if event.kind == "progress":
                self.view.show(Progress.model_validate(event.data))
            elif event.kind == "plan":
                plans.append(Plan.model_validate(event.data))

        cancel = asyncio.Event()
        working = asyncio.create_task(self.supervisor.execute(task, on_event=hear, cancel=cancel))
        while not working.done():
            await asyncio.wait({working}, timeout=LOOK_SECONDS)
            if stop.is_set():
                cancel.set()
        return Result.model_validate(working.result())

    def _next(self, policy: DevicePolicy, attempts: Sequence[Attempt]) -> Device | None:
        """The device to go on with; None where the failure is the end."""
        usable = [device for device in self.devices if device.problem is None]
        places = [Place(device.id, device.kind != "software", ready=True) for device in usable]
        step = next_step(policy, attempts, places)
        if not isinstance(step, Step):
            return None
        return next(device for device in usable if step.requirement in satisfied(device))


@asynccontextmanager
async def opened(settings: Settings, view: ProgressView) -> AsyncGenerator[Gpus, None]:
    """The machine's devices. GPUs that are not known yet are measured first, which takes a moment."""
    async with _supervisor(settings) as supervisor:
        found = Devices.found(settings, supervisor)
        view.note("looking at GPUs")
        await found.measure_all(anew=False)
        await found.time_cpu()
        yield Gpus(found.all, supervisor, settings, view)


def _failed(number: int, device: Device, error: PipelineError, plans: Sequence[Plan]) -> Attempt:
    info = ErrorInfo.model_validate({**error.to_json(), "device": error.device or device.id})
    if plans and device.kind != "software":
        info = info.model_copy(update={"facts": {**info.facts, ON_GPU: used_on_gpu(plans[-1])}})
    return Attempt(number=number, device=device.id, status="failed", started_at=datetime.now(UTC), error=info)
