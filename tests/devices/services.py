"""Services with GPUs that softva plays, and what is to be told of jobs that ran there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import av

from pipelines.devices import Device, software_device
from pipelines.spec import FileJob
from tests.pipelines.gpus import gpu
from tests.softva.rig import Rig
from tests.transcoder.stubs import ended, settings_for
from transcoder.engine import DeviceState
from transcoder.jobs import Job
from transcoder.service import Service

A, B = "pci-0000:00:02.0", "pci-0000:03:00.0"
WHOLE = "hardware decode, hardware filters, h264_vaapi"
JOB: dict[str, Any] = {"outputs": [{"type": "mp4", "video": {"codec": "h264", "height": 144}}]}
PICTURES = 25


@asynccontextmanager
async def running(
    folder: Path, rig: Rig, clip: Path, *, gpus: int = 2, devices: Sequence[Device] = (), **changes: Any
) -> AsyncGenerator[Service, None]:
    """A service with `devices`, or that many whole ones, and the CPU."""
    found = devices or [gpu(id=id, path=rig.node(number)) for number, id in enumerate((A, B)[:gpus])]
    usual = {
        "media_roots": (clip.parent,), "sandbox": "off", "canary_pause_seconds": 0.1, "gpu_stall_seconds": 1.5,
        "breaker_failures": 2, "shutdown_seconds": 1.0,
    }  # fmt: skip
    settings = settings_for(folder, **{**usual, **changes})
    async with Service(settings, devices=[*found, software_device(2)]) as service:
        yield service


async def run(service: Service, clip: Path, **changes: Any) -> Job:
    spec = FileJob.model_validate({"input": {"path": str(clip)}, **JOB, **changes})
    job, _ = await service.submit(spec)
    return await ended(service, job.id, seconds=60)


def way(job: Job) -> str:
    """How the last attempt went."""
    return job.attempts[-1].reason.rpartition("; ")[2]


def devices_of(job: Job) -> list[str]:
    return [attempt.device for attempt in job.attempts]


def codes(job: Job) -> list[str]:
    return [attempt.error.code for attempt in job.attempts if attempt.error is not None]


def state(service: Service, device: str) -> DeviceState:
    return next(each for each in service.devices() if each.id == device)


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def pictures(service: Service, job: Job) -> int:
    path = service.storage.depot.output_path(job.id, job.published_attempt, job.outputs[0].files[0].path)
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(video=0))
