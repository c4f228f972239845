"""Jobs in the database: adding, reading, listing, and what users may change. Tenants see only their own."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import RowMapping, Select, bindparam, delete, func, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.result import Progress
from transcoder.database import Database
from transcoder.errors import Conflict, InvalidCursor, JobNotFound, ServiceError
from transcoder.ids import ID_PATTERN
from transcoder.job_rows import JobQueries, JobRows
from transcoder.jobs import Job, JobStatus
from transcoder.quotas import Quotas
from transcoder.records import LISTED, attempts_of, job_from
from transcoder.split import family
from transcoder.submission import Added, Idempotency, NewJob, add_jobs
from transcoder.tables import attempts, jobs, tasks
from transcoder.uploads.named import named_by
from transcoder.uploads.uploads import EXPIRED_AT_ONCE, check_upload
from transcoder.webhooks import outbox

__all__ = ["Added", "Idempotency", "JobStore", "NewJob", "Page"]

JOBS_AT_ONCE = 200
"""Most that are added in one transaction."""

T = TypeVar("T")

logger = logging.getLogger(__name__)

_CURSOR = re.compile(rf"j-({ID_PATTERN.pattern})")


@dataclass(frozen=True)
class Page(Generic[T]):
    """`next` is the cursor of the following page; None on the last."""

    items: tuple[T, ...]
    next: str | None


class JobStore:
    """Each method is one transaction."""

    def __init__(self, database: Database, quotas: Quotas | None = None) -> None:
        self._database, self._quotas = database, quotas
        self._queries = JobQueries(database)

    async def add(self, new: Sequence[NewJob]) -> list[Added | ServiceError]:
        """Adds jobs together; for each what became of it. One that is refused does not touch the others."""
        try:
            async with self._database.write() as connection:
                return await add_jobs(connection, new, self._quotas)
        except IntegrityError:
            # another process was quicker with an idempotency key: now its row is there to be seen
            async with self._database.write() as connection:
                return await add_jobs(connection, new, self._quotas)

    async def get(self, job_id: str, tenant: str) -> Job:
        return (await self.rows(job_id, tenant)).job()

    async def rows(self, job_id: str, tenant: str) -> JobRows:
        rows = await self._queries.one(job_id, tenant)
        if rows is None:
            raise _missing(job_id)
        return rows

    async def page(
        self, *, tenant: str, status: JobStatus | None, queue: str | None, limit: int, cursor: str | None
    ) -> Page[JobRows]:
        """Jobs, newest first, without their plans. InvalidCursor for a cursor that no page gave."""
        wanted = {
            "tenant": tenant,
            "status": None if status is None else status.value,
            "queue": queue,
            "before": None if cursor is None else _decode(cursor),
        }
        given = {name: value for name, value in wanted.items() if value is not None}
        rows = await self._queries.listed(limit + 1, **given)
        shown = tuple(rows[:limit])
        return Page(shown, f"j-{shown[-1].id}" if len(rows) > limit and shown else None)

    async def active_counts(self) -> dict[tuple[str, JobStatus], int]:
        """Jobs that wait or run, by queue and status, of all tenants."""
        active = (JobStatus.QUEUED, JobStatus.RUNNING)
        query = (
            select(jobs.c.queue, jobs.c.status, func.count())
            .where(jobs.c.status.in_([status.value for status in active]))
            .group_by(jobs.c.status, jobs.c.queue)
        )
        async with self._database.read() as connection:
            return {(row[0], JobStatus(row[1])): row[2] for row in (await connection.execute(query)).all()}

    async def request_cancel(self, job_id: str, tenant: str, now: datetime) -> JobStatus:
        """Cancels a queued job, marks a running one; the status from before. Conflict when it has ended otherwise."""
        async with self._database.write() as connection:
            status = await _status(connection, job_id, tenant)
            if status in (JobStatus.COMPLETED, JobStatus.FAILED):
                raise _conflict(status, "cancelled")
            if status is JobStatus.QUEUED:
                await _change(connection, job_id, status=JobStatus.CANCELLED, cancel_requested=True, finished_at=now)
                await family.call_off(connection, job_id, "cancelled")
                await outbox.record(connection, [job_id], JobStatus.CANCELLED, now)
            elif status is JobStatus.RUNNING:
                await _change(connection, job_id, cancel_requested=True)
                await family.call_off(connection, job_id, "cancelled")
            return status

    async def requeue(self, job_id: str, tenant: str, now: datetime) -> None:
        """Queues a failed or cancelled job once more, with a fresh budget of attempts; Conflict for others."""
        async with self._database.write() as connection:
            row = await _row(connection, job_id, tenant, select(jobs.c.status, jobs.c.upload_id, jobs.c.spec))
            if row["status"] not in (JobStatus.FAILED, JobStatus.CANCELLED):
                raise _conflict(row["status"], "tried again")
            if row["upload_id"] is not None:
                await check_upload(connection, row["upload_id"], tenant)
            for named in await named_by(connection, job_id):
                await check_upload(connection, named, tenant)
            if self._quotas is not None:
                await self._quotas.check_jobs(connection, tenant)
            await _change(
                connection,
                job_id,
                status=JobStatus.QUEUED,
                cancel_requested=False,
                started_at=None,
                finished_at=None,
                **dict.fromkeys(("progress", "stats", "plan", "outputs", "warnings", "error")),
            )
            await family.reopen(connection, job_id, row["spec"], now)

    async def set_priority(self, job_id: str, priority: int, tenant: str) -> None:
        """Conflict unless the job is queued."""
        async with self._database.write() as connection:
            row = await _row(connection, job_id, tenant, select(jobs.c.status, jobs.c.spec))
            if row["status"] != JobStatus.QUEUED:
                raise _conflict(row["status"], "moved in its queue")
            await _change(connection, job_id, priority=priority, spec={**row["spec"], "priority": priority})
            await connection.execute(update(tasks).where(tasks.c.job_id == job_id).values(priority=priority))

    async def set_stop_at(self, job_id: str, tenant: str, moment: datetime) -> None:
        """A stream is to end then, wherever it runs."""
        async with self._database.write() as connection:
            row = await _row(connection, job_id, tenant, select(jobs.c.spec))
            await _change(connection, job_id, spec={**row["spec"], "stop_at": moment.isoformat()})

    async def delete(self, job_id: str, tenant: str) -> None:
        """Conflict while the job runs."""
        async with self._database.write() as connection:
            status = await _status(connection, job_id, tenant)
            if status is JobStatus.RUNNING:
                raise _conflict(status, "deleted")
            await connection.execute(delete(jobs).where(jobs.c.id == job_id))

    async def expire(self, before: datetime) -> list[str]:
        """Deletes jobs that ended earlier, of any tenant; the ids of at most EXPIRED_AT_ONCE, oldest first."""
        ended = [status.value for status in JobStatus if status.ended]
        async with self._database.write() as connection:
            old = await connection.execute(
                select(jobs.c.id)
                .where(jobs.c.finished_at < before, jobs.c.status.in_(ended))
                .order_by(jobs.c.id)
                .limit(EXPIRED_AT_ONCE)
            )
            ids = list(old.scalars())
            await connection.execute(delete(jobs).where(jobs.c.id.in_(ids)))
            return ids

    async def read(self, job_ids: Sequence[str]) -> list[Job]:
        """Those of the jobs that are there, of any tenant; without their plans."""
        if not job_ids:
            return []
        async with self._database.read() as connection:
            rows = (await connection.execute(select(*LISTED).where(jobs.c.id.in_(job_ids)))).mappings().all()
            tries = await attempts_of(connection, [row["id"] for row in rows])
        return [job_from(row, tries.get(row["id"], ())) for row in rows]

    async def running(self, limit: int) -> list[str]:
        """Jobs that run, of any tenant."""
        query = select(jobs.c.id).where(jobs.c.status == JobStatus.RUNNING.value).limit(limit)
        async with self._database.read() as connection:
            return list((await connection.execute(query)).scalars())

    async def existing(self, job_ids: Sequence[str]) -> set[str]:
        """Those of `job_ids` that are jobs, of any tenant."""
        async with self._database.read() as connection:
            found = await connection.execute(select(jobs.c.id).where(jobs.c.id.in_(job_ids)))
            return set(found.scalars())

    async def answers(self) -> bool:
        """Whether the database does."""
        try:
            await self.existing([])
        except SQLAlchemyError:
            logger.warning("the database does not answer", exc_info=True)
            return False
        return True

    async def attempts_that_count(self, job_ids: Sequence[str]) -> list[tuple[str, int]]:
        """(job, attempt) of these jobs, of attempts that run or have completed."""
        query = select(attempts.c.job_id, attempts.c.number).where(
            attempts.c.job_id.in_(job_ids), attempts.c.task == 0, attempts.c.status.in_(("running", "completed"))
        )
        async with self._database.read() as connection:
            return [(row.job_id, row.number) for row in await connection.execute(query)]

    async def save_progress(self, rows: Sequence[tuple[str, float | None, dict[str, Any]]]) -> None:
        """(job, fraction, stats) of running jobs; those that have ended since are left alone."""
        statement = (
            update(jobs)
            .where(jobs.c.id == bindparam("its_job"), jobs.c.status == JobStatus.RUNNING.value)
            .values(progress=bindparam("its_progress"), stats=bindparam("its_stats", type_=jobs.c.stats.type))
        )
        async with self._database.write() as connection:
            await connection.execute(
                statement,
                [{"its_job": job, "its_progress": share, "its_stats": stats} for job, share, stats in rows],
            )

    async def save_pieces(self, told: Mapping[str, Progress]) -> dict[str, Progress]:
        """What attempts of pieces said, by task; how far the jobs are that the pieces are of."""
        async with self._database.write() as connection:
            return await family.save_told(connection, told)

    async def ended_before(self, job_ids: Sequence[str], moment: datetime) -> set[str]:
        """Those of the jobs that ended earlier, of any tenant, and those that completed whenever."""
        condition = (jobs.c.finished_at < moment) | (jobs.c.status == JobStatus.COMPLETED.value)
        async with self._database.read() as connection:
            found = await connection.execute(select(jobs.c.id).where(jobs.c.id.in_(job_ids), condition))
            return set(found.scalars())


async def _row(connection: AsyncConnection, job_id: str, tenant: str, query: Select[Any]) -> RowMapping:
    found = await connection.execute(query.where(jobs.c.id == job_id, jobs.c.tenant == tenant))
    row: RowMapping | None = found.mappings().one_or_none()
    if row is None:
        raise _missing(job_id)
    return row


def _missing(job_id: str) -> JobNotFound:
    return JobNotFound("there is no such job", job=job_id)


async def _status(connection: AsyncConnection, job_id: str, tenant: str) -> JobStatus:
    return JobStatus((await _row(connection, job_id, tenant, select(jobs.c.status)))["status"])


async def _change(connection: AsyncConnection, job_id: str, **values: Any) -> None:
    await connection.execute(update(jobs).where(jobs.c.id == job_id).values(**values))


def _conflict(status: str, what: str) -> Conflict:
    return Conflict(f"a job that is {JobStatus(status).value} can't be {what}", status=JobStatus(status).value)


def _decode(cursor: str) -> str:
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise InvalidCursor("this is no cursor of a list of jobs")
    return match[1]
