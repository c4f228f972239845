"""What may start now, and where: the policy of the queue, and the one place where attempts begin.

A task's `requirement` says what a device must be; a device satisfies several of them. Higher priorities come first,
then older tasks. Which process runs an attempt is the engine's matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import RowMapping, Select, bindparam, func, insert, or_, select, union_all, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.devices import Device
from pipelines.spec import DevicePolicy
from transcoder.errors import NoDevice
from transcoder.jobs import JobStatus
from transcoder.retry import MAX_BACKOFF_SECONDS
from transcoder.tables import attempts, jobs, tasks
from transcoder.webhooks import outbox

ANY, HARDWARE, SOFTWARE, PINNED = "any", "hardware", "software", "device:"

_BY_POLICY = {"auto": ANY, "hardware": HARDWARE, "software": SOFTWARE}
_REASONS = {
    ANY: "policy auto: the first device with a free slot",
    HARDWARE: "policy hardware: the first hardware device with a free slot",
    SOFTWARE: "policy software",
}


@dataclass(frozen=True)
class FreeSlots:
    """How many tasks a device can take now."""

    device: Device
    count: int


@dataclass(frozen=True)
class Claim:
    """An attempt that has begun: its row is there, its task is running. `attempt` is the fencing token."""

    job_id: str
    tenant: str
    task_id: str
    attempt: int
    device: Device
    spec: dict[str, Any]
    """As stored: an attempt that can't read it fails; the queue goes on."""


def requirement(policy: DevicePolicy, devices: Sequence[Device]) -> str:
    """What a device must be to run a job with this policy; NoDevice when none of `devices` is it."""
    wanted = _BY_POLICY[policy.policy]
    able = [device for device in devices if wanted in satisfied(device)]
    if policy.id is not None:
        able = [device for device in able if device.id == policy.id]
        wanted = f"{PINNED}{policy.id}"
    if not able:
        there = ", ".join(f"{device.id} ({device.kind})" for device in devices) or "none"
        called = "" if policy.id is None else f" called {policy.id!r}"
        raise NoDevice(
            f"no device{called} satisfies the policy {policy.policy!r}; there are: {there}",
            policy=policy.policy,
            device=policy.id,
        )
    return wanted


def satisfied(device: Device) -> tuple[str, ...]:
    """The requirements that a device meets."""
    kind = SOFTWARE if device.kind == "software" else HARDWARE
    return (ANY, kind, f"{PINNED}{device.id}")


async def claim(connection: AsyncConnection, free: Sequence[FreeSlots], now: datetime) -> tuple[Claim, ...]:
    """Begins as many attempts as there are free slots and tasks that fit them, in a write transaction.

    Devices are taken in the order given. From the commit on, each attempt counts, whatever becomes of it.
    """
    placed = _place(await _candidates(connection, free, now), free)
    if not placed:
        return ()
    found = await connection.execute(
        select(jobs.c.id, jobs.c.tenant, jobs.c.spec, jobs.c.started_at).where(
            jobs.c.id.in_([task.job_id for task, _ in placed])
        )
    )
    specs = {row.id: row for row in found}
    claims = tuple(
        Claim(
            job_id=task.job_id,
            tenant=specs[task.job_id].tenant,
            task_id=task.id,
            attempt=task.attempt + 1,
            device=device,
            spec=specs[task.job_id].spec,
        )
        for task, device in placed
    )
    await _begin(connection, claims, [task.number for task, _ in placed], [task.requirement for task, _ in placed], now)
    first = [job_id for job_id, row in specs.items() if row.started_at is None and row.spec.get("webhook")]
    await outbox.record(connection, first, JobStatus.RUNNING, now)
    return claims


async def next_available(connection: AsyncConnection, now: datetime) -> datetime | None:
    """When the next task that waits out its backoff may start."""
    query = select(func.min(tasks.c.available_at)).where(tasks.c.state == "queued", tasks.c.available_at > now)
    moment: datetime | None = (await connection.execute(query)).scalar()
    return moment


@dataclass(frozen=True)
class _Task:
    id: str
    job_id: str
    number: int
    requirement: str
    attempt: int
    priority: int
    queued_at: datetime

    @property
    def order(self) -> tuple[int, datetime, str]:
        return (-self.priority, self.queued_at, self.id)


async def _candidates(connection: AsyncConnection, free: Sequence[FreeSlots], now: datetime) -> list[_Task]:
    """The first tasks of each requirement that can be met: each a short walk along an index, however long the queue."""
    total = sum(slots.count for slots in free)
    wanted = {name for slots in free if slots.count > 0 for name in satisfied(slots.device)}
    if not wanted:
        return []
    query = union_all(*(select(_first(name, total, now).subquery()) for name in sorted(wanted)))
    found = [_task(row) for row in (await connection.execute(query)).mappings()]
    return sorted(found, key=lambda task: task.order)


def _first(name: str, limit: int, now: datetime) -> Select[Any]:
    """A backoff further away than backoffs reach is due as well: the clock was set back."""
    return (
        select(*(tasks.c[field] for field in _Task.__dataclass_fields__))
        .where(
            tasks.c.state == "queued",
            tasks.c.requirement == name,
            or_(tasks.c.available_at <= now, tasks.c.available_at > now + timedelta(seconds=2 * MAX_BACKOFF_SECONDS)),
        )
        .order_by(tasks.c.priority.desc(), tasks.c.queued_at, tasks.c.id)
        .limit(limit)
    )


def _task(row: RowMapping) -> _Task:
    return _Task(**row)


def _place(candidates: Sequence[_Task], free: Sequence[FreeSlots]) -> list[tuple[_Task, Device]]:
    left = [slots.count for slots in free]
    placed = []
    for task in candidates:
        for position, slots in enumerate(free):
            if left[position] > 0 and task.requirement in satisfied(slots.device):
                left[position] -= 1
                placed.append((task, slots.device))
                break
    return placed


async def _begin(
    connection: AsyncConnection,
    claims: Sequence[Claim],
    numbers: Sequence[int],
    requirements: Sequence[str],
    now: datetime,
) -> None:
    await connection.execute(
        update(tasks)
        .where(tasks.c.id == bindparam("its_task"))
        .values(state="running", attempt=bindparam("its_attempt")),
        [{"its_task": claim.task_id, "its_attempt": claim.attempt} for claim in claims],
    )
    await connection.execute(
        insert(attempts),
        [
            {
                "task_id": claim.task_id,
                "number": claim.attempt,
                "job_id": claim.job_id,
                "task": number,
                "device": claim.device.id,
                "status": "running",
                "reason": _REASONS.get(wanted, "the job names this device"),
                "started_at": now,
            }
            for claim, number, wanted in zip(claims, numbers, requirements, strict=True)
        ],
    )
    await connection.execute(
        update(jobs)
        .where(jobs.c.id == bindparam("its_job"))
        .values(status="running", started_at=func.coalesce(jobs.c.started_at, now), progress=None, stats=None),
        [{"its_job": claim.job_id} for claim in claims],
    )
