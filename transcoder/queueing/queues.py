"""Queues: resource groups with a weight, limits, a pause and the devices that their tasks may use."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.database import Database
from transcoder.errors import Conflict, QueueNotFound, TooManyQueues
from transcoder.tables import jobs, queues

DEFAULT = "default"
NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,62}$"

MAX_QUEUES = 200
"""Each is looked at whenever a slot is free."""

DeviceId = Annotated[str, Field(min_length=1, max_length=200)]


class QueueSettings(BaseModel):
    """What operators set. Left out of a PUT, a field has its default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: float = Field(1.0, ge=0.01, le=1000, description="its share of busy slots, beside other queues' weights")
    max_running: int | None = Field(None, ge=0, le=100_000, description="most jobs that run at once; null: no limit")
    max_queued: int | None = Field(None, ge=0, le=10_000_000, description="most jobs that wait; null: no limit")
    paused: bool = Field(False, description="start nothing new; what runs ends as usual")
    devices: tuple[DeviceId, ...] | None = Field(
        None, min_length=1, max_length=100, description="ids of the only devices that it may use; null: all"
    )
    default_priority: int = Field(0, ge=-1000, le=1000, description="priority of jobs that name none")


class Queue(QueueSettings):
    """A queue as its row has it."""

    name: str
    created_at: datetime

    def takes(self, device_id: str) -> bool:
        """Whether its tasks may run on the device."""
        return self.devices is None or not set(device_names(device_id)).isdisjoint(self.devices)


def device_names(device_id: str) -> tuple[str, ...]:
    """What jobs and queues may call a device: `software@node-1` by its id, and as any node's `software`."""
    local, _, node = device_id.rpartition("@")
    return (device_id, local) if local and node else (device_id,)


class QueueState(Queue):
    """A queue as users see it, with jobs that wait and run."""

    queued: int
    running: int


class QueueStore:
    """Each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, tenant: str | None = None) -> tuple[QueueState, ...]:
        """By name, with the jobs of all tenants or of one."""
        async with self._database.read() as connection:
            found = await read_queues(connection)
            counts = await _counts(connection, list(found), tenant=tenant)
        return tuple(_state(queue, counts) for queue in found.values())

    async def get(self, name: str, tenant: str | None = None) -> QueueState:
        """QueueNotFound when there is none."""
        async with self._database.read() as connection:
            found = (await read_queues(connection, [name])).get(name)
            if found is None:
                raise QueueNotFound(f"there is no queue {name!r}", queue=name)
            return _state(found, await _counts(connection, [name], tenant=tenant))

    async def put(self, name: str, settings: QueueSettings, now: datetime) -> bool:
        """Makes the queue or changes it; whether it is new. TooManyQueues."""
        values = settings.model_dump() | {"devices": None if settings.devices is None else [*settings.devices]}
        async with self._database.write() as connection:
            changed = await connection.execute(update(queues).where(queues.c.name == name).values(**values))
            if changed.rowcount:
                return False
            if ((await connection.execute(select(func.count()).select_from(queues))).scalar() or 0) >= MAX_QUEUES:
                raise TooManyQueues(f"there are {MAX_QUEUES} queues already", limit=MAX_QUEUES)
            await connection.execute(insert(queues).values(name=name, created_at=now, **values))
        return True

    async def delete(self, name: str) -> None:
        """QueueNotFound; Conflict for the default queue and while jobs wait or run in it."""
        if name == DEFAULT:
            raise Conflict("the default queue stays", queue=name)
        async with self._database.write() as connection:
            active = sum((await _counts(connection, [name])).values())
            if active:
                raise Conflict(f"{active} jobs wait or run in this queue", queue=name, jobs=active)
            if not (await connection.execute(delete(queues).where(queues.c.name == name))).rowcount:
                raise QueueNotFound(f"there is no queue {name!r}", queue=name)


async def read_queues(connection: AsyncConnection, names: Collection[str] | None = None) -> dict[str, Queue]:
    """By name, in order; `names` None: all."""
    query = select(queues).order_by(queues.c.name)
    rows = await connection.execute(query if names is None else query.where(queues.c.name.in_(names)))
    return {row["name"]: queue_from(row) for row in rows.mappings()}


async def queued_counts(connection: AsyncConnection, names: Collection[str]) -> dict[str, int]:
    """Jobs that wait, by queue."""
    found = await _counts(connection, names, ("queued",))
    return {name: count for (name, _), count in found.items()}


async def _counts(
    connection: AsyncConnection,
    names: Collection[str],
    statuses: Collection[str] = ("queued", "running"),
    *,
    tenant: str | None = None,
) -> dict[tuple[str, str], int]:
    query = (
        select(jobs.c.queue, jobs.c.status, func.count())
        .where(jobs.c.status.in_(statuses), jobs.c.queue.in_(names))
        .group_by(jobs.c.status, jobs.c.queue)
    )
    if tenant is not None:
        query = query.where(jobs.c.tenant == tenant)
    return {(row[0], row[1]): row[2] for row in (await connection.execute(query)).all()}


def queue_from(row: Mapping[Any, Any]) -> Queue:
    return Queue.model_validate(dict(row))


def _state(queue: Queue, counts: dict[tuple[str, str], int]) -> QueueState:
    return QueueState(
        **queue.model_dump(),
        queued=counts.get((queue.name, "queued"), 0),
        running=counts.get((queue.name, "running"), 0),
    )
