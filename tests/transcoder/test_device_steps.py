"""Jobs whose GPUs fail, through the service: steps, quarantine, breakers. Children are stubbed, plans are real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipelines.devices import Device, Verdict
from pipelines.errors import (
    BadInput,
    Crashed,
    DeviceFault,
    DeviceLost,
    DeviceUnsupported,
    PipelineError,
    Stalled,
)
from pipelines.plan import plan
from pipelines.rendition import Plan
from pipelines.spec import FileJob
from tests.pipelines.facts import SOFTWARE, source
from tests.pipelines.gpus import gpu
from tests.transcoder.stubs import ended, give_upload, job_for, result_of, settings_for
from transcoder.children.sandbox import Layers
from transcoder.children.watch import ChildEvent, ChildTask
from transcoder.engine import DeviceState
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service

A, B = gpu(id="pci-a", path="/dev/dri/renderD128"), gpu(id="pci-b", path="/dev/dri/renderD129")
Fault = Callable[[Plan], PipelineError | None]


def decoding(made: Plan) -> PipelineError | None:
    """Fails where the GPU decodes."""
    on_gpu = any(step.placement == "hardware" for step in made.decode)
    return fault("decode") if on_gpu else None


def encoding(made: Plan) -> PipelineError | None:
    return fault("encode")


def fault(stage: Any, kind: type[PipelineError] = DeviceFault) -> PipelineError:
    return kind("it broke", stage=stage, device="pci-a", codec="h264", profile=None, bit_depth=8, detail="-5")


@dataclass
class Gpus:
    """Runs children's operations at once; `faults` by device, and what canaries raise, one after the other."""

    faults: dict[str, Fault] = field(default_factory=dict)
    canaries: list[PipelineError] = field(default_factory=list)
    flown: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event | None = None
    tasks: list[ChildTask] = field(default_factory=list)
    layers: Layers = field(default_factory=Layers)

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def execute(
        self,
        task: ChildTask,
        *,
        on_event: Callable[[ChildEvent], None] | None = None,
        cancel: asyncio.Event | None = None,
    ) -> dict[str, Any]:
        self.tasks.append(task)
        await asyncio.sleep(0)
        if task.op == "canary":
            if self.gate is not None:
                await self.gate.wait()
            self.flown.set()
            if self.canaries:
                raise self.canaries.pop(0)
            return {"tried": True}
        made = self._plan(task)
        if task.op == "plan":
            return made.model_dump(mode="json")
        assert on_event is not None
        on_event(ChildEvent("plan", made.model_dump(mode="json")))
        failing = self.faults.get(made.device)
        failure = None if failing is None else failing(made)
        if failure is not None:
            raise failure
        return result_of(task.payload)

    def _plan(self, task: ChildTask) -> Plan:
        told = task.payload
        verdicts = [Verdict.model_validate(each) for each in told.get("verdicts", ())]
        return plan(
            FileJob.model_validate(told["spec"]), source(), Device.model_validate(told["device"]), verdicts=verdicts
        )

    @property
    def ways(self) -> list[tuple[str, str]]:
        """Device and op of each task."""
        return [(task.payload["device"]["id"], task.op) for task in self.tasks]


@asynccontextmanager
async def running(
    folder: Path, gpus: Gpus, devices: tuple[Device, ...] = (A, SOFTWARE), **changes: Any
) -> AsyncGenerator[Service, None]:
    settings = settings_for(folder, **{"canary_pause_seconds": 0.0, "breaker_failures": 2, **changes})
    async with Service(settings, supervisor=gpus, devices=devices) as service:
        yield service


async def run(service: Service, **changes: Any) -> Job:
    job, _ = await service.submit(job_for(await give_upload(service), **changes))
    return await ended(service, job.id)


def file_job(job: Job) -> FileJob:
    assert isinstance(job.spec, FileJob)
    return job.spec


def devices_of(job: Job) -> list[str]:
    return [attempt.device for attempt in job.attempts]


def state(service: Service, device: str) -> DeviceState:
    return next(each for each in service.devices() if each.id == device)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


async def test_job_is_planned_for_the_gpu_and_says_how_it_went(tmp_path: Path) -> None:
    gpus = Gpus()
    async with running(tmp_path, gpus) as service:
        job = await run(service)
    (attempt,) = job.attempts
    assert (job.status, attempt.device) == (JobStatus.COMPLETED, "pci-a")
    assert attempt.reason.endswith("; hardware decode, hardware filters, h264_vaapi")
    (task,) = gpus.tasks
    assert (task.gpu, task.stall_seconds) == ("/dev/dri/renderD128", 30.0)
    assert task.payload["verdicts"] == []


@pytest.mark.slow
async def test_failed_decoder_costs_one_step_on_the_same_device(tmp_path: Path) -> None:
    gpus = Gpus({"pci-a": decoding})
    async with running(tmp_path, gpus, max_attempts=1) as service:
        job = await run(service)
    assert (job.status, devices_of(job)) == (JobStatus.COMPLETED, ["pci-a", "pci-a"])
    first, second = job.attempts
    assert first.error is not None
    assert first.error.facts["on_gpu"]["decode"] is True
    assert second.reason == (
        "h264 failed in decode on pci-a (device_fault): it broke: software decode; "
        "software decode, software filters, h264_vaapi"
    )
    assert job.plan is not None
    assert job.plan["refusals"][0]["reason"] == "h264 failed in decode on pci-a (device_fault): it broke"


@pytest.mark.slow
async def test_failed_encoder_goes_down_step_by_step_to_another_device_and_to_software(tmp_path: Path) -> None:
    gpus = Gpus({"pci-a": encoding, "pci-b": encoding})
    async with running(tmp_path, gpus, (A, B, SOFTWARE), max_attempts=1) as service:
        job = await run(service)
    assert job.status is JobStatus.COMPLETED
    assert devices_of(job) == ["pci-a", "pci-a", "pci-b", "pci-b", "software"]
    assert [attempt.reason.rpartition(": ")[2].partition(";")[0] for attempt in job.attempts[1:]] == [
        "software filters", "another device", "software filters", "software",
    ]  # fmt: skip


@pytest.mark.slow
async def test_one_bad_file_leaves_the_next_job_whole(tmp_path: Path) -> None:
    gpus = Gpus({"pci-a": decoding})
    async with running(tmp_path, gpus) as service:
        await run(service)
        gpus.faults.clear()
        following = await run(service)
    assert following.attempts[0].reason.endswith("hardware decode, hardware filters, h264_vaapi")
    assert len(following.attempts) == 1


@pytest.mark.slow
@pytest.mark.parametrize("failure", [Crashed("SIGSEGV"), Stalled("no progress", stage="run"), DeviceLost("gone")])
async def test_device_that_dies_is_quarantined_until_its_canary_passes(tmp_path: Path, failure: PipelineError) -> None:
    gpus = Gpus({"pci-a": lambda _: failure}, canaries=[DeviceFault("still broken")], gate=asyncio.Event())
    async with running(tmp_path, gpus) as service:
        job = await run(service)
        assert (job.status, devices_of(job)) == (JobStatus.COMPLETED, ["pci-a", "software"])
        gpus.faults.clear()
        held = state(service, "pci-a")
        assert (held.state, failure.code in (held.problem or "")) == ("quarantined", True)
        assert devices_of(await run(service)) == ["software"]
        assert gpus.gate is not None
        gpus.gate.set()
        await until(lambda: state(service, "pci-a").state == "ready")
        assert gpus.ways.count(("pci-a", "canary")) == 2
        assert state(service, "pci-a").problem is None
        assert devices_of(await run(service)) == ["pci-a"]


@pytest.mark.slow
async def test_failed_canary_is_told_of(tmp_path: Path) -> None:
    gpus = Gpus({"pci-a": lambda _: DeviceLost("gone")}, canaries=[DeviceFault("still broken")] * 50)
    async with running(tmp_path, gpus, canary_pause_seconds=0.01) as service:
        await run(service)
        await until(lambda: "still broken" in (state(service, "pci-a").problem or ""))
        assert state(service, "pci-a").state == "quarantined"


@pytest.mark.slow
async def test_after_enough_jobs_the_breaker_keeps_the_next_from_trying(tmp_path: Path) -> None:
    gpus = Gpus({"pci-a": decoding}, gate=asyncio.Event())
    async with running(tmp_path, gpus) as service:
        tries = [len((await run(service)).attempts) for _ in range(3)]
        assert tries == [2, 2, 1]
        last = await run(service)
        assert last.plan is not None
        assert "failed here for 2 jobs in a row" in last.plan["refusals"][0]["reason"]
        assert (await service.plan(file_job(last))).refusals[0].reason == last.plan["refusals"][0]["reason"]
        gpus.faults.clear()
        assert gpus.gate is not None
        gpus.gate.set()
        await until(gpus.flown.is_set)
        whole = await run(service)
    assert whole.attempts[0].reason.endswith("hardware decode, hardware filters, h264_vaapi")
    (canary,) = (task.payload["canary"] for task in gpus.tasks if task.op == "canary")
    assert canary == {"stage": "decode", "codec": "h264", "bit_depth": 8, "api": None}


@pytest.mark.slow
async def test_files_that_fail_in_software_too_open_no_breaker(tmp_path: Path) -> None:
    gpus = Gpus({"pci-a": encoding, "software": lambda _: BadInput("not media")})
    async with running(tmp_path, gpus) as service:
        jobs = [await run(service) for _ in range(3)]
    assert [devices_of(job) for job in jobs] == [["pci-a", "pci-a", "software"]] * 3
    assert {job.error.code for job in jobs if job.error} == {"bad_input"}


@pytest.mark.slow
async def test_hardware_policy_fails_with_the_last_error(tmp_path: Path) -> None:
    gpus = Gpus({"pci-a": encoding})
    async with running(tmp_path, gpus) as service:
        job = await run(service, device={"policy": "hardware"})
    assert (job.status, devices_of(job)) == (JobStatus.FAILED, ["pci-a", "pci-a"])
    assert job.error is not None
    assert (job.error.code, job.error.stage, job.error.device) == ("device_fault", "encode", "pci-a")


@pytest.mark.slow
async def test_without_fallback_the_first_failure_is_the_last(tmp_path: Path) -> None:
    gpus = Gpus({"pci-a": decoding})
    async with running(tmp_path, gpus) as service:
        job = await run(service, device={"fallback": False})
    assert (job.status, devices_of(job)) == (JobStatus.FAILED, ["pci-a"])


@pytest.mark.slow
async def test_what_a_gpu_can_not_encode_goes_to_software_as_no_failure(tmp_path: Path) -> None:
    gpus = Gpus()
    async with running(tmp_path, gpus, max_attempts=1) as service:
        job = await run(service, outputs=[{"type": "mp4", "video": {"codec": "av1"}}])
        shown = await service.plan(file_job(job))
    assert (job.status, devices_of(job)) == (JobStatus.COMPLETED, ["pci-a", "software"])
    assert job.attempts[1].reason == (
        "nothing of this job is for pci-a to encode: "
        "hardware encode of av1 (8 bit): this device does not encode av1: software"
    )
    assert shown.device == "software"
    assert [(refusal.device, refusal.stage) for refusal in shown.refusals] == [("pci-a", "encode")]


@pytest.mark.parametrize("output", [{"type": "audio"}, {"type": "copy"}, {"type": "mp4", "video": "copy"}])
async def test_job_without_pictures_to_encode_never_goes_to_a_gpu(tmp_path: Path, output: dict[str, Any]) -> None:
    gpus = Gpus()
    async with running(tmp_path, gpus) as service:
        job, _ = await service.submit(job_for(await give_upload(service), outputs=[output]))
        await ended(service, job.id)
    assert gpus.ways == [("software", "run")]


@pytest.mark.slow
async def test_retry_by_hand_tries_the_gpu_again(tmp_path: Path) -> None:
    gpus = Gpus({"pci-a": encoding, "software": lambda _: BadInput("not media")})
    async with running(tmp_path, gpus) as service:
        job = await run(service)
        gpus.faults.clear()
        await service.retry(job.id)
        again = await ended(service, job.id)
    assert (again.status, devices_of(again)) == (JobStatus.COMPLETED, ["pci-a", "pci-a", "software", "pci-a"])


@pytest.mark.slow
async def test_task_that_waits_for_a_device_that_drains_goes_elsewhere(tmp_path: Path) -> None:
    started = asyncio.Event()

    def unsupported(made: Plan) -> PipelineError | None:
        started.set()
        return fault("encode", DeviceUnsupported)

    gpus = Gpus({"pci-a": unsupported})
    async with running(tmp_path, gpus, (A, B, SOFTWARE)) as service:
        await service.update_device("pci-b", slots=0, draining=None)
        upload = await give_upload(service)
        job, _ = await service.submit(job_for(upload))
        await until(started.is_set)
        await service.update_device("pci-b", slots=None, draining=True)
        assert (await ended(service, job.id)).status is JobStatus.COMPLETED


@pytest.mark.slow
async def test_stop_of_the_service_ends_canaries(tmp_path: Path) -> None:
    gpus = Gpus({"pci-a": lambda _: DeviceLost("gone")}, gate=asyncio.Event())
    async with asyncio.timeout(5), running(tmp_path, gpus) as service:
        await run(service)
        assert state(service, "pci-a").state == "quarantined"
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("canary")]


@pytest.mark.slow
async def test_step_to_a_device_that_is_gone_after_a_restart_is_forgotten(tmp_path: Path) -> None:
    gpus = Gpus({"pci-a": lambda _: DeviceLost("gone")}, gate=asyncio.Event())
    async with running(tmp_path, gpus, (A, B, SOFTWARE)) as service:
        await service._engine.hold("pci-b", "being looked at")
        spec = job_for(await give_upload(service), device={"policy": "hardware"})
        job, _ = await service.submit(spec)
        await until(lambda: state(service, "pci-a").state == "quarantined" and not state(service, "pci-a").busy)
        assert (await service.get(job.id)).status is JobStatus.QUEUED
    third = gpu(id="pci-c")
    async with running(tmp_path, Gpus(), (third, SOFTWARE)) as service:
        done = await ended(service, job.id)
    assert (done.status, devices_of(done)) == (JobStatus.COMPLETED, ["pci-a", "pci-c"])
