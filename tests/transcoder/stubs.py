"""A service without media: children are stubbed, the rest is real."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.devices import Device, software_device
from pipelines.errors import Cancelled, PipelineError
from pipelines.result import Progress
from pipelines.spec import FileJob
from transcoder.children.sandbox import Layers
from transcoder.children.watch import ChildEvent, ChildTask
from transcoder.jobs import Job, Upload
from transcoder.service import Service
from transcoder.settings import Settings
from transcoder.storage import Storage

CONTENT = b"finished"
PLAN = {"device": "software"}


def software(slots: int = 2) -> Device:
    return software_device(slots)


def result_of(payload: dict[str, Any]) -> dict[str, Any]:
    """What a child says after it wrote its outputs; and the files."""
    outputs = []
    for output in payload["spec"]["outputs"]:
        path = f"{output['name']}.{output['type']}"
        Path(payload["folder"], path).write_bytes(CONTENT)
        outputs.append(
            {
                "name": output["name"],
                "type": output["type"],
                "path": path,
                "size": len(CONTENT),
                "duration_seconds": 1.0,
                "renditions": [],
            }
        )
    return {"outputs": outputs}


def answer_to(task: ChildTask, result: dict[str, Any]) -> dict[str, Any]:
    """What a child tells; asked to cut, it does the job in one."""
    return {"cutting": {"reason": "it is a stub"}, "result": result} if task.op == "cut" else result


@dataclass
class StubExecutor:
    """Runs every task at once, or when `gate` opens; raises `failures` first, one for each run."""

    gate: asyncio.Event | None = None
    failures: list[PipelineError] = field(default_factory=list)
    on_run: Callable[[ChildTask], None] = lambda task: None
    running: int = 0
    most_running: int = 0
    runs: int = 0
    tasks: list[ChildTask] = field(default_factory=list)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
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
        assert on_event is not None
        assert cancel is not None
        self.runs += 1
        self.tasks.append(task)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.entered.set()
        try:
            on_event(ChildEvent("plan", PLAN))
            on_event(ChildEvent("progress", Progress(frames=1, fraction=0.5).model_dump(mode="json")))
            self.on_run(task)
            await self._wait(cancel)
            if self.failures:
                raise self.failures.pop(0)
            return answer_to(task, result_of(task.payload))
        finally:
            self.running -= 1

    async def _wait(self, cancel: asyncio.Event) -> None:
        if self.gate is None:
            await asyncio.sleep(0)
        else:
            waits = [asyncio.create_task(self.gate.wait()), asyncio.create_task(cancel.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        if cancel.is_set():
            raise Cancelled("cancelled", stage="run")


def settings_for(folder: Path, **changes: Any) -> Settings:
    return Settings(
        data_dir=folder / "data",
        **{"retry_backoff_seconds": 0.01, "shutdown_seconds": 0.0, "software_slots": 2} | changes,
    )


@asynccontextmanager
async def running_service(
    folder: Path,
    executor: StubExecutor | None = None,
    *,
    slots: int = 2,
    fsync: Callable[[int], None] = os.fsync,
    **changes: Any,
) -> AsyncGenerator[Service, None]:
    settings = settings_for(folder, **changes)
    async with Service(
        settings,
        supervisor=executor or StubExecutor(),
        devices=[software(slots)],
        storage=None
        if settings.bucket_url is not None
        else Storage(settings.data_dir, max_upload_bytes=settings.max_upload_bytes, fsync=fsync),
    ) as service:
        yield service


async def give_upload(service: Service, content: bytes = b"media", tenant: str = "default") -> Upload:
    async with service.receive("clip.mp4", tenant) as sink:
        await sink.write(content)
    return sink.upload


def job_for(upload: Upload, **changes: Any) -> FileJob:
    return FileJob.model_validate({"input": {"upload": upload.id}, "outputs": [{"type": "mp4"}], **changes})


async def ended(service: Service, job_id: str, tenant: str = "default", seconds: float = 10.0) -> Job:
    """The job, as soon as it has ended."""
    async with asyncio.timeout(seconds), service.events.subscribe(job_id) as events:
        job = await service.get(job_id, tenant)
        while not job.status.ended:
            await anext(events)
            job = await service.get(job_id, tenant)
        return job
