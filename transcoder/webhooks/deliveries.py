"""Deliveries in the database: what is due, what came of each try, the log that users read, secrets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.asked.webhook import WebhookEvent
from transcoder.database import Database
from transcoder.tables import webhook_tries, webhooks
from transcoder.webhooks.keyring import Keyring
from transcoder.webhooks.schedule import Again, Ended, Outcome

DELETED_AT_ONCE = 1000

State = Literal["pending", "delivered", "failed"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Try(_Record):
    """One request to the receiver."""

    number: int
    started_at: datetime
    seconds: float
    status: int | None = Field(None, description="the HTTP status that was answered")
    error: str | None = Field(None, description="why it does not count: refused, timeout, connection, blocked_address…")


class Delivery(_Record):
    """A webhook on its way. `id` is the `webhook-id` header of all its tries."""

    id: str
    event: WebhookEvent
    url: str
    state: State
    created_at: datetime
    next_try_at: datetime | None = None
    finished_at: datetime | None = None
    tries: tuple[Try, ...] = ()


@dataclass(frozen=True)
class Due:
    """What a courier needs to know. `tries` were made before."""

    id: str
    tenant: str
    url: str
    host: str
    body: str
    tries: int


@dataclass(frozen=True)
class Made:
    """A try that was made."""

    due: Due
    started_at: datetime
    seconds: float
    outcome: Outcome


class DeliveryStore:
    """Each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(
        self, now: datetime, *, farthest: datetime, besides: Collection[str], to_host: int, to_tenant: int, limit: int
    ) -> list[Due]:
        """What should be sent now, the longest due first, hosts and tenants taking turns; at most so many of each.

        What is due after `farthest` is due as well: no pause is that long, so the clock was set back.
        """
        turn = func.row_number().over(
            partition_by=(webhooks.c.tenant, webhooks.c.host), order_by=(webhooks.c.due_at, webhooks.c.id)
        )
        queued = (
            select(webhooks, turn.label("turn"))
            .where(webhooks.c.state == "pending", or_(webhooks.c.due_at <= now, webhooks.c.due_at > farthest))
            .where(webhooks.c.id.not_in(besides))
            .subquery()
        )
        order = (queued.c.turn, queued.c.due_at, queued.c.id)
        tenant_turn = func.row_number().over(partition_by=queued.c.tenant, order_by=order)
        fair = select(queued, tenant_turn.label("tenant_turn")).where(queued.c.turn <= to_host).subquery()
        query = (
            select(*(fair.c[name] for name in Due.__dataclass_fields__))
            .where(fair.c.tenant_turn <= to_tenant)
            .order_by(fair.c.tenant_turn, fair.c.due_at, fair.c.id)
            .limit(limit)
        )
        async with self._database.read() as connection:
            return [Due(**row) for row in (await connection.execute(query)).mappings()]

    async def next_due(self, now: datetime) -> datetime | None:
        """The first moment after `now` at which something is due."""
        query = select(func.min(webhooks.c.due_at)).where(webhooks.c.state == "pending", webhooks.c.due_at > now)
        async with self._database.read() as connection:
            moment: datetime | None = (await connection.execute(query)).scalar()
            return moment

    async def settle(self, made: Made, decision: Again | Ended, now: datetime) -> None:
        """Writes a try and what follows from it. Once only: a try with this number is not written again."""
        changes: dict[str, Any] = {"tries": made.due.tries + 1}
        if isinstance(decision, Again):
            changes["due_at"] = now + timedelta(seconds=decision.after_seconds)
        else:
            changes |= {"state": "delivered" if decision.delivered else "failed", "finished_at": now}
        async with self._database.write() as connection:
            current = (webhooks.c.id == made.due.id, webhooks.c.tries == made.due.tries, webhooks.c.state == "pending")
            if (await connection.execute(update(webhooks).where(*current).values(**changes))).rowcount != 1:
                return
            await connection.execute(
                insert(webhook_tries).values(
                    webhook_id=made.due.id,
                    number=made.due.tries + 1,
                    started_at=made.started_at,
                    seconds=made.seconds,
                    status=made.outcome.status,
                    error=made.outcome.error,
                )
            )

    async def of_job(self, job_id: str, tenant: str) -> tuple[Delivery, ...]:
        """All deliveries of a job that are kept, in the order of their events."""
        mine = (webhooks.c.job_id == job_id, webhooks.c.tenant == tenant)
        async with self._database.read() as connection:
            rows = (await connection.execute(select(webhooks).where(*mine).order_by(webhooks.c.id))).mappings().all()
            tries = await _tries_of(connection, [row["id"] for row in rows])
        return tuple(
            Delivery(
                **{name: row[name] for name in ("id", "event", "url", "state", "created_at", "finished_at")},
                next_try_at=row["due_at"] if row["state"] == "pending" else None,
                tries=tuple(tries.get(row["id"], ())),
            )
            for row in rows
        )

    async def forget(self, before: datetime) -> None:
        """Deletes deliveries that ended before that."""
        old = select(webhooks.c.id).where(webhooks.c.finished_at < before).limit(DELETED_AT_ONCE)
        while True:
            async with self._database.write() as connection:
                gone = await connection.execute(delete(webhooks).where(webhooks.c.id.in_(old)))
            if gone.rowcount < DELETED_AT_ONCE:
                return

    @property
    def keyring(self) -> Keyring:
        return Keyring(self._database)


async def _tries_of(connection: AsyncConnection, ids: Collection[str]) -> dict[str, list[Try]]:
    found: dict[str, list[Try]] = {}
    query = (
        select(webhook_tries)
        .where(webhook_tries.c.webhook_id.in_(ids))
        .order_by(webhook_tries.c.webhook_id, webhook_tries.c.number)
    )
    for row in (await connection.execute(query)).mappings():
        found.setdefault(row["webhook_id"], []).append(Try(**{name: row[name] for name in Try.model_fields}))
    return found
