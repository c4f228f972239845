"""What happens to a tenant's jobs, gathered for readers that show many of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from transcoder.events import EventBus, EventKind

GATHER_SECONDS = 0.5
MAX_CHANGED = 200
"""Jobs whose change one batch tells. A reader that is told of more reads its list again."""

MAX_KNOWN = 10_000


@dataclass
class Batch:
    """`jobs`: as they are now, without plans. `progress`: of running jobs, by id. `missed`: there was more to tell."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    progress: dict[str, dict[str, Any]] = field(default_factory=dict)
    missed: bool = False

    def __bool__(self) -> bool:
        return bool(self.jobs or self.progress or self.missed)


class Feed:
    """Batches of news, at most one in `gather_seconds`. Progress is the latest one only, so none pile up."""

    def __init__(self, is_own: Callable[[str], Awaitable[bool]], gather_seconds: float = GATHER_SECONDS) -> None:
        self._is_own = is_own
        self._gather_seconds = gather_seconds
        self._own: dict[str, bool] = {}
        self._batch = Batch()
        self._something = asyncio.Event()
        self._closed = False

    async def batches(self, bus: EventBus) -> AsyncIterator[Batch]:
        """An empty batch as soon as it listens, then what happens until the bus closes."""
        with bus.watching(self._hear, self._close):
            yield Batch()
            while not self._closed:
                await self._something.wait()
                await asyncio.sleep(self._gather_seconds)
                batch, self._batch = self._batch, Batch()
                self._something.clear()
                yield await self._of_own(batch)

    def _hear(self, job_id: str, kind: EventKind, data: dict[str, Any]) -> None:
        if kind == "progress":
            self._batch.progress[job_id] = data
        elif kind == "status":
            if len(self._batch.jobs) >= MAX_CHANGED and job_id not in self._batch.jobs:
                self._batch.missed = True
            else:
                self._batch.jobs[job_id] = data | {"plan": None}
                self._batch.progress.pop(job_id, None)
        else:
            return
        self._something.set()

    def _close(self) -> None:
        self._closed = True
        self._something.set()

    async def _of_own(self, batch: Batch) -> Batch:
        if len(self._own) >= MAX_KNOWN:
            self._own.clear()
        for job_id in {*batch.jobs, *batch.progress} - self._own.keys():
            self._own[job_id] = await self._is_own(job_id)
        return Batch(
            {job_id: job for job_id, job in batch.jobs.items() if self._own[job_id]},
            {job_id: told for job_id, told in batch.progress.items() if self._own[job_id]},
            batch.missed,
        )
