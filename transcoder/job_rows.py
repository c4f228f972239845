"""Jobs as their rows, read by prepared queries: what a job looks like is only worked out where its rows are new."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Select, bindparam, select

from transcoder.database import Database
from transcoder.jobs import Job
from transcoder.prepared import Prepared, Raw
from transcoder.records import LISTED, attempt_from, job_from
from transcoder.tables import attempts, jobs


@dataclass(frozen=True)
class _Tables:
    """How rows of both tables are read."""

    jobs: Prepared
    attempts: Prepared


@dataclass(frozen=True)
class JobRows:
    """What the database has of one job. Equal rows make equal jobs."""

    id: str
    row: Raw
    attempts: tuple[Raw, ...]
    tables: _Tables

    def job(self) -> Job:
        tries = (attempt_from(self.tables.attempts.read(raw)) for raw in self.attempts)
        return job_from(self.tables.jobs.read(self.row), tuple(tries))


class JobQueries:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._listings: dict[frozenset[str], _Tables] = {}

    async def one(self, job_id: str, tenant: str) -> JobRows | None:
        asked = {"id": job_id, "tenant": tenant}
        found, tries = await self._database.glance((self._one.jobs, asked), (self._one.attempts, {"id": job_id}))
        return JobRows(job_id, found[0], tries, self._one) if found else None

    async def listed(self, limit: int, **wanted: str) -> list[JobRows]:
        """Newest first, without their plans. `wanted`: tenant, and of status, queue and before (an id) what counts."""
        tables = self._listings.get(frozenset(wanted))
        if tables is None:
            tables = self._listings[frozenset(wanted)] = self._listing(frozenset(wanted))
        values = {**wanted, "limit": limit}
        rows, tries = await self._database.look(
            lambda connection: (tables.jobs.rows(connection, values), tables.attempts.rows(connection, values))
        )
        by_job: dict[str, list[Raw]] = defaultdict(list)
        for raw in tries:
            by_job[raw[_ATTEMPT_JOB]].append(raw)
        return [JobRows(raw[0], raw, tuple(by_job[raw[0]]), tables) for raw in rows]

    @cached_property
    def _one(self) -> _Tables:
        prepare = self._database.prepare
        mine = (jobs.c.id == bindparam("id"), jobs.c.tenant == bindparam("tenant"))
        return _Tables(
            prepare(select(jobs).where(*mine)),
            prepare(_in_order(select(attempts).where(attempts.c.job_id == bindparam("id")))),
        )

    def _listing(self, wanted: frozenset[str]) -> _Tables:
        conditions = [condition for name, condition in _CONDITIONS.items() if name in wanted]

        def page(columns: Sequence[Any]) -> Select[Any]:
            query = select(*columns).where(*conditions).order_by(jobs.c.id.desc())
            return query.limit(bindparam("limit", type_=_INTEGER))

        shown = page([jobs.c.id]).subquery()
        tries = select(attempts).join(shown, shown.c.id == attempts.c.job_id)
        return _Tables(self._database.prepare(page(LISTED)), self._database.prepare(_in_order(tries)))


_CONDITIONS = {
    "tenant": jobs.c.tenant == bindparam("tenant"),
    "status": jobs.c.status == bindparam("status"),
    "queue": jobs.c.queue == bindparam("queue"),
    "before": jobs.c.id < bindparam("before"),
}
_INTEGER = attempts.c.number.type
_ATTEMPT_JOB = list(attempts.c).index(attempts.c.job_id)


def _in_order(query: Select[Any]) -> Select[Any]:
    return query.order_by(attempts.c.job_id, attempts.c.task, attempts.c.number)
