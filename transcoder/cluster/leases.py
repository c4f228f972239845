"""Who works on what, where there are several nodes: claims are taken, kept by beats, and taken away when these stop.

All times are by the database's clock. An attempt that is taken away is settled as lost, and its task goes on elsewhere;
the one who had it finds that a beat changes nothing, and ends its child.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.devices import Device
from transcoder.attempts import settlement
from transcoder.attempts.retry import RetryPolicy
from transcoder.attempts.settlement import Lost, Ticket
from transcoder.database import Database, current_time
from transcoder.jobs import ErrorInfo, JobStatus
from transcoder.queueing.admission import Claim
from transcoder.split.family import CALLED_OFF
from transcoder.tables import jobs, tasks

TAKE_IN_LEASE = 3
"""So many times sooner than a beat a claim has to be taken."""

Held = tuple[str, int]
"""A task, and the number of its attempt."""


@dataclass(frozen=True)
class Ended:
    """An attempt that was taken away; and what became of its job."""

    ticket: Ticket
    tenant: str
    status: JobStatus


@dataclass(frozen=True)
class Leases:
    """Of one node. A claim that was not taken, or not heard of, for `lease_seconds` goes to another."""

    database: Database
    node: str
    lease_seconds: float
    policy: RetryPolicy

    async def take(self, held: Held, devices: Mapping[str, Device]) -> Claim | None:
        """A claim that was made for this node; None when it is no longer its, or was taken before."""
        task_id, attempt = held
        async with self.database.write() as connection:
            now = await current_time(connection)
            taken = await connection.execute(
                update(tasks).where(*self._mine(held), tasks.c.beat_at.is_(None)).values(beat_at=now)
            )
            if taken.rowcount != 1:
                return None
            row = (await connection.execute(_CLAIM.where(tasks.c.id == task_id))).one()
        device = devices.get(row.device)
        if device is None:
            return None
        place = (row.job_id, row.tenant, task_id, attempt, device, row.spec, row.held, row.kind, self.node)
        return Claim(*place, row.number)

    async def beat(self, held: Held) -> bool:
        """Tells that the attempt goes on; False when it was taken away."""
        async with self.database.touch() as connection:
            now = await current_time(connection)
            kept = await connection.execute(update(tasks).where(*self._mine(held)).values(beat_at=now))
            return kept.rowcount == 1

    async def look(self, task_ids: Collection[str]) -> dict[str, tuple[int, bool]]:
        """The attempt that is under way of each of these tasks here, and whether its job is called off."""
        async with self.database.read() as connection:
            rows = await connection.execute(
                select(tasks.c.id, tasks.c.attempt, CALLED_OFF.label("called_off"))
                .join(jobs, jobs.c.id == tasks.c.job_id)
                .where(tasks.c.id.in_(task_ids), tasks.c.state == "running", tasks.c.node == self.node)
            )
            return {row.id: (row.attempt, row.called_off) for row in rows}

    def _mine(self, held: Held) -> Sequence[ColumnElement[bool]]:
        task_id, attempt = held
        running = (tasks.c.state == "running", tasks.c.node == self.node)
        return (tasks.c.id == task_id, tasks.c.attempt == attempt, *running)

    async def expired(self) -> bool:
        """Whether there is something to reap."""
        async with self.database.read() as connection:
            condition = _expired(await current_time(connection), self.lease_seconds)
            return (await connection.execute(select(tasks.c.id).where(condition).limit(1))).first() is not None

    async def reap(self, error: ErrorInfo) -> list[Ended]:
        """Ends attempts whose leases are over, of whatever node."""
        async with self.database.write() as connection:
            now = await current_time(connection)
            return await self._end(connection, _expired(now, self.lease_seconds), error, now)

    async def give_back(self, error: ErrorInfo) -> list[Ended]:
        """Ends all attempts of this node, which works on none of them."""
        async with self.database.write() as connection:
            now = await current_time(connection)
            mine = (tasks.c.state == "running") & (tasks.c.node == self.node)
            return await self._end(connection, mine, error, now)

    async def _end(
        self, connection: AsyncConnection, which: ColumnElement[bool], error: ErrorInfo, now: datetime
    ) -> list[Ended]:
        ended = []
        rows = await connection.execute(
            select(tasks.c.id, tasks.c.job_id, tasks.c.attempt, tasks.c.tenant, tasks.c.number).where(which)
        )
        for row in rows.all():
            ticket = Ticket(row.job_id, row.id, row.attempt, row.number)
            status = await settlement.settle(connection, ticket, Lost(error), self.policy, now)
            if status is not None:
                await connection.execute(_FORGET, {"task": row.id, "attempt": str(row.attempt)})
                ended.append(Ended(ticket, row.tenant, status))
        return ended


_CLAIM = select(
    tasks.c.job_id, tasks.c.tenant, tasks.c.device, tasks.c.held, tasks.c.kind, tasks.c.number, jobs.c.spec
).join(jobs, jobs.c.id == tasks.c.job_id)

# messages of the engine that nobody has fetched
_FORGET = text(
    "DELETE FROM procrastinate_jobs WHERE task_name = 'attempt' AND status = 'todo'"
    " AND args ->> 'task_id' = :task AND args ->> 'attempt' = :attempt"
)


def _expired(now: datetime, lease_seconds: float) -> ColumnElement[bool]:
    """A claim that is not taken soon was made for a node that died, which was not known then."""
    lease = timedelta(seconds=lease_seconds)
    untaken = tasks.c.beat_at.is_(None) & (tasks.c.claimed_at < now - lease / TAKE_IN_LEASE)
    return (tasks.c.state == "running") & ((tasks.c.beat_at < now - lease) | untaken)
