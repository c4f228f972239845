"""Queued jobs that no device can run any more: a GPU is gone after a start, or could nothing when it was measured.

Submitting such a job is refused (`no_device`); one that was taken before fails with the same code, rather than wait for
ever, or goes on in software where its policy says so. For one process, which knows all its devices; among several
nodes one that has the device may come yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.engine import DeviceState
from transcoder.errors import NoDevice
from transcoder.jobs import ErrorInfo, JobStatus
from transcoder.news import News
from transcoder.queueing.requirements import SOFTWARE, policy_of, requirement, satisfied
from transcoder.tables import jobs, tasks
from transcoder.webhooks import outbox

LOOK_SECONDS = 1.0
"""Between looks at the devices, which are in memory."""
AGAIN_LOOKS = 30
"""Looks after which the queue is read though no device has changed: jobs come back by hand."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stranded:
    """`devices`: as they are now. `wake`: is called when a job may start elsewhere."""

    database: Database
    news: News
    devices: Callable[[], Sequence[DeviceState]]
    wake: Callable[[], None]

    async def keep_ending(self) -> None:
        """Until cancelled."""
        known: tuple[str, ...] | None = None
        looks = 0
        while True:
            usable = [state for state in self.devices() if state.state != "unusable"]
            names = tuple(state.id for state in usable)
            if usable and (names != known or looks >= AGAIN_LOOKS):
                try:
                    await self.end(usable)
                    known, looks = names, 0
                except SQLAlchemyError:
                    logger.warning("the queue can't be looked through for jobs without a device", exc_info=True)
            looks += 1
            await asyncio.sleep(LOOK_SECONDS)

    async def end(self, usable: Sequence[DeviceState]) -> None:
        """Ends or moves the queued jobs that none of `usable` can run."""
        met = {each for device in usable for each in satisfied(device)}
        async with self.database.write() as connection:
            rows = await connection.execute(
                select(tasks.c.id, tasks.c.job_id, jobs.c.tenant, jobs.c.spec)
                .join(jobs, jobs.c.id == tasks.c.job_id)
                .where(tasks.c.state == "queued", tasks.c.requirement.not_in(met))
            )
            ended = []
            for row in rows.all():
                policy = policy_of(row.spec)
                if policy.policy == "auto" and policy.fallback and SOFTWARE in met:
                    await connection.execute(update(tasks).where(tasks.c.id == row.id).values(requirement=SOFTWARE))
                    logger.warning("job %s goes on in software: the device that it asks for is not there", row.job_id)
                    continue
                try:
                    wanted = requirement(policy, usable)
                except NoDevice as error:
                    await _fail(connection, row.job_id, ErrorInfo(code=error.code, message=str(error)))
                    ended.append((row.job_id, row.tenant))
                else:
                    # a step had led it to a device that is no more
                    await connection.execute(update(tasks).where(tasks.c.id == row.id).values(requirement=wanted))
        for job_id, tenant in ended:
            logger.warning("job %s failed: no device can run it", job_id)
            await self.news.job_ended(job_id, tenant)
        self.wake()


async def _fail(connection: AsyncConnection, job_id: str, error: ErrorInfo) -> None:
    now = utc_now()
    await connection.execute(
        update(jobs)
        .where(jobs.c.id == job_id)
        .values(status=JobStatus.FAILED, finished_at=now, error=error.model_dump(mode="json"))
    )
    left = (tasks.c.job_id == job_id, tasks.c.state != "completed")
    await connection.execute(update(tasks).where(*left).values(state="failed"))
    await outbox.record(connection, [job_id], JobStatus.FAILED, now)
