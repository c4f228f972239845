"""Tasks that may start, from the database: each look is a short walk along an index, however long the queues."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, literal, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.attempts.retry import MAX_BACKOFF_SECONDS
from transcoder.queueing.picks import FreeSlots, Waiting
from transcoder.queueing.requirements import ANY, pool_of, satisfied
from transcoder.tables import tasks

WALKS_AT_ONCE = 100
"""Parts of one statement; SQLite takes 500."""

_COLUMNS = [tasks.c[each.name] for each in fields(Waiting)]


async def first_tasks(
    connection: AsyncConnection,
    free: Sequence[FreeSlots],
    queues: Iterable[str],
    now: datetime,
    *,
    wait_for_hardware: bool,
    without: Collection[str],
) -> list[Waiting]:
    """The first tasks of each queue and each requirement that the free devices meet.

    As many of each as there are slots, of tenants that are not `without`. Tasks that wait for hardware are left out
    unless some is free.
    """
    total = sum(each.count for each in free)
    wanted = {name for each in free if each.count > 0 for name in satisfied(each.device)}
    only_hopped = wait_for_hardware and not any(pool_of(each.device) == "hardware" for each in free if each.count > 0)
    walks = [(queue, name) for queue in queues for name in sorted(wanted)]
    there = walks if len(walks) <= WALKS_AT_ONCE else await _existing(connection, walks, now, only_hopped, without)
    found: list[Waiting] = []
    for some in _parts(there):
        parts = (_walk(_where(*walk, now, only_hopped, without), total).subquery() for walk in some)
        rows = await connection.execute(union_all(*(select(part) for part in parts)))
        found += [Waiting(**row) for row in rows.mappings()]
    return found


async def next_available(connection: AsyncConnection, now: datetime, *, hops: bool = False) -> datetime | None:
    """When the next task that waits out its backoff, or (`hops`) waits for hardware, may start without it."""
    available, hop = tasks.c.available_at, tasks.c.hop_at
    moments = [select(func.min(available)).where(tasks.c.state == "queued", available > now)]
    if hops:
        moments.append(select(func.min(hop)).where(tasks.c.state == "queued", hop > now, tasks.c.requirement == ANY))
    found = await connection.execute(union_all(*moments))
    return min((moment for moment in found.scalars() if moment is not None), default=None)


Walk = tuple[str, str]


async def _existing(
    connection: AsyncConnection, walks: Sequence[Walk], now: datetime, only_hopped: bool, without: Collection[str]
) -> list[Walk]:
    """Those of many walks that would find something."""
    found: list[Walk] = []
    for some in _parts(walks):
        conditions = [_where(*walk, now, only_hopped, without) for walk in some]
        parts = (
            select(literal(number)).where(select(tasks.c.id).where(condition).exists())
            for number, condition in enumerate(conditions)
        )
        found += [some[number] for number in (await connection.execute(union_all(*parts))).scalars()]
    return found


def _walk(condition: ColumnElement[bool], limit: int) -> Select[Any]:
    order = (tasks.c.priority.desc(), tasks.c.ready_by, tasks.c.queued_at, tasks.c.id)
    return select(*_COLUMNS).where(condition).order_by(*order).limit(limit)


def _where(
    queue: str, requirement: str, now: datetime, only_hopped: bool, without: Collection[str]
) -> ColumnElement[bool]:
    """A backoff further away than backoffs reach is due as well: the clock was set back. Streams wait."""
    farthest = now + timedelta(seconds=2 * MAX_BACKOFF_SECONDS)
    conditions = [
        tasks.c.state == "queued",
        tasks.c.queue == queue,
        tasks.c.requirement == requirement,
        or_(tasks.c.available_at <= now, and_(tasks.c.kind == "file", tasks.c.available_at > farthest)),
    ]
    if only_hopped and requirement == ANY:
        conditions.append(tasks.c.hop_at <= now)
    if without:
        conditions.append(tasks.c.tenant.not_in(without))
    return and_(*conditions)


def _parts(walks: Sequence[Walk]) -> Iterable[Sequence[Walk]]:
    return (walks[start : start + WALKS_AT_ONCE] for start in range(0, len(walks), WALKS_AT_ONCE))
