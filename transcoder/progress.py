"""How far running jobs are: in memory for readers, in the database once a second for after a crash."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from pipelines.live.stats import LiveStats
from pipelines.result import Progress
from transcoder.jobs import Job, JobStatus
from transcoder.store import JobStore

SAVE_SECONDS = 1.0

logger = logging.getLogger(__name__)


@dataclass
class Live:
    """What the running attempt of a job said last."""

    progress: Progress | LiveStats = field(default_factory=lambda: Progress(fraction=0.0))
    plan: dict[str, Any] | None = None
    saved: bool = False

    @property
    def stats(self) -> dict[str, Any]:
        return self.progress.model_dump(mode="json")


class ProgressBoard:
    """Live progress by job."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._live: dict[str, Live] = {}

    def begin(self, job_id: str) -> Live:
        live = self._live[job_id] = Live()
        return live

    def end(self, job_id: str, live: Live) -> None:
        if self._live.get(job_id) is live:
            del self._live[job_id]

    def streams(self) -> dict[str, LiveStats]:
        """What the streams of this process said last, by job."""
        said = {job_id: live.progress for job_id, live in self._live.items()}
        return {job_id: progress for job_id, progress in said.items() if isinstance(progress, LiveStats)}

    def runs(self, job_id: str) -> bool:
        """Whether the job runs in this process."""
        return job_id in self._live

    def update(self, live: Live, progress: Progress | LiveStats) -> None:
        live.progress, live.saved = progress, False

    def merged(self, job: Job) -> Job:
        """`job` with what is known since its row was written."""
        live = self._live.get(job.id)
        if live is None or job.status is not JobStatus.RUNNING:
            return job
        progress = live.progress
        return job.model_copy(
            update={
                "progress": progress.fraction,
                "eta_seconds": progress.eta_seconds,
                "stats": progress,
                "state": progress.state if isinstance(progress, LiveStats) else None,
                "plan": live.plan or job.plan,
            }
        )

    async def keep_saving(self) -> None:
        """Writes what changed, once a second, until cancelled."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            try:
                await self._save()
            except SQLAlchemyError:
                logger.warning("progress can't be saved; trying again", exc_info=True)

    async def _save(self) -> None:
        changed = [(job_id, live) for job_id, live in self._live.items() if not live.saved]
        if not changed:
            return
        for _, live in changed:
            live.saved = True
        await self._store.save_progress([(job_id, live.progress.fraction, live.stats) for job_id, live in changed])
