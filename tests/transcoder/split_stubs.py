"""A service whose children cut and join without media: four pieces of ten seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.errors import PipelineError
from pipelines.result import Progress
from pipelines.stitch.packets import Head, put
from pipelines.stitch.piece import PieceResult, PieceSpec, Seen, pieces_of
from pipelines.stitch.tasks import Cutting
from tests.transcoder.stubs import StubExecutor, give_upload, job_for, result_of, settings_for, software
from transcoder.children.watch import ChildEvent, ChildTask
from transcoder.jobs import Job
from transcoder.service import Service

DATA = b"picture"
PIECES = 4
SPLIT: dict[str, Any] = {
    "outputs": [{"type": "mp4", "video": {"codec": "h264"}}],
    "split": "always",
}


def cutting() -> dict[str, Any]:
    made = Cutting(pieces=pieces_of((10, 20, 30)), seconds=(10.0,) * PIECES)  # type: ignore[arg-type]
    return {"cutting": made.model_dump(mode="json"), "result": None}


def piece_result(number: int, folder: Path) -> dict[str, Any]:
    with (folder / "piece").open("wb") as file:
        put(file, Head(number, 1, len(DATA), True), DATA)
    seen = Seen(frames=1, errors=0, packets=1, first=None, end=None, done=True)
    result = PieceResult(
        encoder="libx264", parameters="", time_base="1/25", frames=250, packets=1, bytes=len(DATA),  # type: ignore[arg-type]
        first=number, end=number + 1, seen=seen,
    )  # fmt: skip
    return result.model_dump(mode="json")


def number_of(task: ChildTask) -> int:
    """Of the piece that a child is to make; 0 for other operations."""
    if task.op != "piece":
        return 0
    start = PieceSpec.model_validate(task.payload["piece"]).start
    return 1 if start is None else 1 + int(start) // 10


@dataclass
class SplitExecutor(StubExecutor):
    """`fail` says which children raise what; `hold` which of them wait until they are stopped, or `gate` opens."""

    fail: Callable[[ChildTask], PipelineError | None] = lambda task: None
    hold: Callable[[ChildTask], bool] = lambda task: False
    held: asyncio.Queue[ChildTask] = field(default_factory=asyncio.Queue)

    async def execute(
        self,
        task: ChildTask,
        *,
        on_event: Callable[[ChildEvent], None] | None = None,
        cancel: asyncio.Event | None = None,
    ) -> dict[str, Any]:
        assert on_event is not None
        assert cancel is not None
        self.tasks.append(task)
        on_event(ChildEvent("progress", Progress(frames=1, fraction=0.5).model_dump(mode="json")))
        error = self.fail(task)
        if error is not None:
            raise error
        if self.hold(task):
            self.held.put_nowait(task)
            self.gate = self.gate or asyncio.Event()
            await self._wait(cancel)
        if task.op == "cut":
            return cutting()
        if task.op == "piece":
            return piece_result(number_of(task), Path(task.payload["folder"]))
        return result_of(task.payload)

    @property
    def ops(self) -> list[str]:
        return [task.op for task in self.tasks]


@asynccontextmanager
async def splitting_service(
    folder: Path, executor: SplitExecutor, *, slots: int = 2, **changes: Any
) -> AsyncGenerator[Service, None]:
    settings = settings_for(folder, **changes)
    async with Service(settings, supervisor=executor, devices=[software(slots)]) as service:
        yield service


async def submit_split(service: Service, **changes: Any) -> Job:
    job, _ = await service.submit(job_for(await give_upload(service), **{**SPLIT, **changes}))
    return job


def by_task(job: Job) -> dict[int, list[str]]:
    """How the attempts of each task ended."""
    tasks: dict[int, list[str]] = {}
    for attempt in job.attempts:
        tasks.setdefault(attempt.task, []).append(attempt.status)
    return tasks
