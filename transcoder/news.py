"""Telling what became of jobs: events for who listens, figures for who measures."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from transcoder.errors import JobNotFound
from transcoder.events import EventBus
from transcoder.observer import Observer
from transcoder.progress import ProgressBoard
from transcoder.store import JobStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class News:
    """Reads a job after its transaction and tells. The record is the database: news that can't be told are logged."""

    store: JobStore
    events: EventBus
    board: ProgressBoard
    observer: Observer
    on_change: Callable[[], None] = lambda: None
    """Told of every change of a job's status."""

    async def job_changed(self, job_id: str, tenant: str, *, attempt: bool = False) -> None:
        """The job's status has changed; with `attempt`, its latest attempt has begun or ended."""
        self.on_change()
        if self.events.wanted(job_id):
            await self._tell(job_id, tenant, attempt=attempt, ended=False)

    async def job_ended(self, job_id: str, tenant: str, *, attempt: bool = False) -> None:
        self.on_change()
        await self._tell(job_id, tenant, attempt=attempt, ended=True)

    async def _tell(self, job_id: str, tenant: str, *, attempt: bool, ended: bool) -> None:
        try:
            job = self.board.merged(await self.store.get(job_id, tenant))
        except JobNotFound:
            # deleted meanwhile
            return
        except SQLAlchemyError:
            logger.warning("news of job %s can't be told", job_id, exc_info=True)
            return
        if attempt and job.latest_attempt is not None:
            self.events.publish(job_id, "attempt", job.latest_attempt.model_dump(mode="json"))
        self.events.publish(job_id, "status", job.model_dump(mode="json"))
        if ended:
            self.observer.job_finished(job)
