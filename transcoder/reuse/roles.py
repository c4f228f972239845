"""Who does a piece of work, who has done it, who waits for it. Everything here is within another's transaction.

Of the jobs of a tenant with one key at most one leads. Those that come meanwhile follow: their task waits, without a
slot, until the one that leads has ended, or does not work on it any more; then each looks again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.jobs import JobStatus
from transcoder.reuse.tables import works
from transcoder.tables import jobs, tasks


@dataclass(frozen=True)
class Follow:
    """How an attempt ends whose work another job does already."""

    leader: str

    @property
    def way(self) -> str:
        return f"job {self.leader} does the same: its result is waited for"


@dataclass(frozen=True)
class Work:
    """What a job is about to do."""

    job_id: str
    tenant: str
    key: str


async def seek(connection: AsyncConnection, work: Work, *, without: Collection[str] = ()) -> str | Follow | None:
    """A job whose result can be taken (not one `without`); one to follow; None: this one leads."""
    others = (
        select(works.c.job_id)
        .join(jobs, jobs.c.id == works.c.job_id)
        .where(works.c.tenant == work.tenant, works.c.key == work.key, works.c.follows.is_(None))
        .where(works.c.job_id != work.job_id)
    )
    done = others.where(jobs.c.status == JobStatus.COMPLETED.value, works.c.job_id.not_in(without))
    donor = (await connection.execute(done.order_by(works.c.job_id.desc()).limit(1))).scalar()
    leader = None
    if donor is None:
        leader = (await connection.execute(others.where(_works_on(works.c.job_id)).limit(1))).scalar()
    await connection.execute(delete(works).where(works.c.job_id == work.job_id))
    await connection.execute(insert(works).values(job_id=work.job_id, tenant=work.tenant, key=work.key, follows=leader))
    return donor or (None if leader is None else Follow(leader))


async def release(connection: AsyncConnection) -> None:
    """Queues followers whose leader has ended."""
    over = (
        select(works.c.job_id)
        .where(works.c.follows.is_not(None), ~_works_on(works.c.follows))
        .join(tasks, tasks.c.job_id == works.c.job_id)
        .where(tasks.c.number == 0, tasks.c.state == "waiting")
    )
    freed = list((await connection.execute(over)).scalars())
    if freed:
        await connection.execute(
            update(tasks).where(tasks.c.job_id.in_(freed), tasks.c.number == 0).values(state="queued")
        )


def _works_on(job_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether the job runs, or goes on in pieces."""
    active = (JobStatus.QUEUED.value, JobStatus.RUNNING.value)
    lead, part = jobs.alias("lead"), tasks.alias("part")
    return (
        select(lead.c.id)
        .join(part, part.c.job_id == lead.c.id)
        .where(lead.c.id == job_id, lead.c.status.in_(active), or_(part.c.state == "running", part.c.number > 0))
        .exists()
    )
