"""Jobs that ask for a device which turns out to be none fail, or go on where their policy lets them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipelines.capabilities import Support
from transcoder.children.watch import ChildEvent, ChildTask
from transcoder.gpus import devices as devices_module
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service

from .stubs import StubExecutor, ended, give_upload, job_for, settings_for


@dataclass
class Machine(StubExecutor):
    """Children that try a GPU wait for `measure`; nothing works on it unless `works`."""

    works: bool = False
    measure: asyncio.Event = field(default_factory=asyncio.Event)

    async def execute(
        self,
        task: ChildTask,
        *,
        on_event: Callable[[ChildEvent], None] | None = None,
        cancel: asyncio.Event | None = None,
    ) -> dict[str, Any]:
        if task.op != "check":
            return await super().execute(task, on_event=on_event, cancel=cancel)
        if task.payload["check"]["kind"] == "open":
            return {"works": True, "driver": "a driver"}
        await self.measure.wait()
        return {"works": self.works, "rate_controls": ["cqp"] if self.works else []}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(devices_module, "support", lambda: Support(vaapi=True, graphs=True))
    path = tmp_path / "renderD128"
    path.touch()
    return str(path)


async def submitted(service: Service, **device: Any) -> Job:
    job, _ = await service.submit(job_for(await give_upload(service), device=device))
    return job


HARDWARE = [{"policy": "hardware"}, {"policy": "hardware", "id": "node-renderD128"}]


@pytest.mark.slow
@pytest.mark.parametrize("device", [*HARDWARE, {"id": "node-renderD128", "fallback": False}])
async def test_a_job_fails_when_its_gpu_turns_out_to_be_none(tmp_path: Path, node: str, device: dict[str, Any]) -> None:
    machine = Machine()
    async with Service(settings_for(tmp_path, devices=(node,)), supervisor=machine) as service:
        job = await submitted(service, **device)
        assert job.status is JobStatus.QUEUED
        machine.measure.set()
        job = await ended(service, job.id)
    assert job.status is JobStatus.FAILED
    assert job.error is not None
    assert (job.error.code, job.error.retryable) == ("no_device", False)
    assert machine.runs == 0


async def test_a_job_that_may_fall_back_goes_on_in_software(tmp_path: Path, node: str) -> None:
    machine = Machine()
    async with Service(settings_for(tmp_path, devices=(node,)), supervisor=machine) as service:
        job = await submitted(service, id="node-renderD128")
        machine.measure.set()
        job = await ended(service, job.id)
    assert (job.status, job.attempts[-1].device) == (JobStatus.COMPLETED, "software")


@pytest.mark.slow
@pytest.mark.parametrize("device", HARDWARE)
async def test_a_job_waits_for_a_gpu_that_is_measured(tmp_path: Path, node: str, device: dict[str, Any]) -> None:
    machine = Machine(works=True)
    async with Service(settings_for(tmp_path, devices=(node,)), supervisor=machine) as service:
        job = await submitted(service, **device)
        machine.measure.set()
        job = await ended(service, job.id)
    assert (job.status, job.attempts[-1].device) == (JobStatus.COMPLETED, "node-renderD128")


@pytest.mark.slow
async def test_a_gpu_that_is_gone_at_the_next_start_takes_its_jobs_along(tmp_path: Path, node: str) -> None:
    async with Service(settings_for(tmp_path, devices=(node,)), supervisor=Machine()) as service:
        job = await submitted(service, policy="hardware")
    async with Service(settings_for(tmp_path, devices="none"), supervisor=Machine()) as service:
        job = await ended(service, job.id)
    assert job.error is not None
    assert job.error.code == "no_device"
