"""News of jobs that other nodes run: looked up in the database for those that someone here listens to."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError

from transcoder.events import EventBus
from transcoder.jobs import Job
from transcoder.progress import ProgressBoard
from transcoder.store import JobStore

LOOK_SECONDS = 0.5
AT_ONCE = 200

logger = logging.getLogger(__name__)


@dataclass
class Relay:
    """What runs here tells its news itself. Lines of logs are not relayed; the log itself is in the shared folder."""

    store: JobStore
    events: EventBus
    board: ProgressBoard
    _seen: dict[str, Job] = field(default_factory=dict)

    async def keep_relaying(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except SQLAlchemyError:
                logger.warning("news of other nodes can't be read; trying again", exc_info=True)

    async def look(self) -> None:
        wanted = [job_id for job_id in self.events.listened() if not self.board.runs(job_id)]
        if self.events.watched:
            # of all jobs: those that run, and those that did at the last look
            wanted += [job_id for job_id in (*await self.store.running(AT_ONCE), *self._seen) if job_id not in wanted]
        jobs = await self.store.read([job_id for job_id in wanted if not self.board.runs(job_id)][:AT_ONCE])
        for job in jobs:
            self._tell(job, self._seen.get(job.id))
        self._seen = {job.id: job for job in jobs if not job.status.ended}

    def _tell(self, job: Job, before: Job | None) -> None:
        if before is None:
            # what changed since the listener read the job is not known
            self.events.publish(job.id, "status", job.model_dump(mode="json"))
            return
        if job.attempts != before.attempts and job.latest_attempt is not None:
            self.events.publish(job.id, "attempt", job.latest_attempt.model_dump(mode="json"))
        if (job.status, job.cancel_requested, job.priority) != (
            before.status,
            before.cancel_requested,
            before.priority,
        ):
            self.events.publish(job.id, "status", job.model_dump(mode="json"))
        if job.stats is not None and job.stats != before.stats:
            self.events.publish(job.id, "progress", job.stats.model_dump(mode="json"))
