"""What may start now, and where: the one place where attempts begin, in one transaction with all that they count for.

`candidates` finds what waits, `picks` decides, `shares` keeps the queues' accounts. Which process runs an attempt is
the engine's matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.devices import Device
from pipelines.spec import DevicePolicy
from transcoder.jobs import JobStatus
from transcoder.queueing.candidates import first_tasks, next_available
from transcoder.queueing.picks import FreeSlots, Picker, Placement, Rules
from transcoder.queueing.requirements import ANY, HARDWARE, SOFTWARE, policy_of, pool_of, requirement, satisfied
from transcoder.queueing.shares import read_accounts, read_running, save_accounts
from transcoder.reuse.roles import release
from transcoder.tables import attempts, jobs, tasks
from transcoder.webhooks import outbox

__all__ = ["Claim", "FreeSlots", "Rules", "claim", "next_available", "requirement", "satisfied"]


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
    held: int = 1
    """Slots that it takes of the device."""
    kind: str = "file"
    node: str | None = None
    number: int = 0
    """Of the task: 0 is the job's own, others are pieces of it."""


async def claim(
    connection: AsyncConnection,
    free: Sequence[FreeSlots],
    now: datetime,
    rules: Rules = Rules(),  # noqa: B008 - frozen
) -> tuple[Claim, ...]:
    """Begins as many attempts as there are free slots and tasks that fit them, in a write transaction.

    Devices are taken in the order given. From the commit on, each attempt counts, whatever becomes of it.
    """
    await release(connection)
    claims: list[Claim] = []
    without: frozenset[str] = frozenset()
    while any(each.count > 0 for each in free):
        placed, without, held_up = await _round(connection, free, now, rules, without)
        claims += await _begin(connection, placed, now, rules)
        if not placed or not (held_up or rules.wait_for_hardware):
            break
        free = _less(free, placed)
    return tuple(claims)


async def _round(
    connection: AsyncConnection, free: Sequence[FreeSlots], now: datetime, rules: Rules, without: frozenset[str]
) -> tuple[list[Placement], frozenset[str], bool]:
    """Placements, tenants that are full with them, and whether that held others up."""
    queues, accounts = await read_accounts(connection)
    running = await read_running(connection)
    picker = Picker(queues, accounts, running, now, rules)
    without |= picker.full_tenants()
    open_queues = [name for name, queue in queues.items() if not queue.paused]
    waiting = await first_tasks(
        connection, free, open_queues, now, wait_for_hardware=rules.wait_for_hardware, without=without
    )
    placed = picker.pick(waiting, free)
    for pool, levels in picker.levels.items():
        await save_accounts(connection, accounts[pool], levels)
    return placed, without | picker.full_tenants(), picker.held_up


def _less(free: Sequence[FreeSlots], placed: Sequence[Placement]) -> list[FreeSlots]:
    """What is left free."""
    left = []
    for each in free:
        mine = [placement for placement in placed if placement.device.id == each.device.id]
        files = sum(placement.held for placement in mine if placement.task.kind == "file")
        for_files = None if each.for_files is None else each.for_files - files
        left.append(replace(each, count=each.count - sum(placement.held for placement in mine), for_files=for_files))
    return left


async def _begin(connection: AsyncConnection, placed: Sequence[Placement], now: datetime, rules: Rules) -> list[Claim]:
    """Writes the attempts of these placements."""
    if not placed:
        return []
    columns = (jobs.c.id, jobs.c.spec, jobs.c.started_at)
    found = await connection.execute(select(*columns).where(jobs.c.id.in_([each.task.job_id for each in placed])))
    rows = {row.id: row for row in found}
    await connection.execute(
        update(tasks)
        .where(tasks.c.id == bindparam("its_task"))
        .values(state="running", claimed_at=now, beat_at=None, **{name: bindparam(f"its_{name}") for name in _PLACE}),
        [_task_values(each) for each in placed],
    )
    await connection.execute(
        insert(attempts),
        [_attempt_values(each, now, _reason(each, rules, policy_of(rows[each.task.job_id].spec))) for each in placed],
    )
    await connection.execute(
        update(jobs)
        .where(jobs.c.id == bindparam("its_job"))
        .values(status="running", started_at=func.coalesce(jobs.c.started_at, now)),
        [{"its_job": job_id} for job_id in rows],
    )
    first = [job_id for job_id, row in rows.items() if row.started_at is None and row.spec.get("webhook")]
    await outbox.record(connection, first, JobStatus.RUNNING, now)
    return [
        Claim(
            job_id=each.task.job_id,
            tenant=each.task.tenant,
            task_id=each.task.id,
            attempt=each.task.attempt + 1,
            device=each.device,
            spec=rows[each.task.job_id].spec,
            held=each.held,
            kind=each.task.kind,
            node=each.node,
            number=each.task.number,
        )
        for each in placed
    ]


_PLACE = ("attempt", "pool", "device", "node", "held")


def _task_values(placed: Placement) -> dict[str, Any]:
    return {
        "its_task": placed.task.id,
        "its_attempt": placed.task.attempt + 1,
        "its_pool": pool_of(placed.device),
        "its_device": placed.device.id,
        "its_node": placed.node,
        "its_held": placed.held,
    }


def _attempt_values(placed: Placement, now: datetime, reason: str) -> dict[str, Any]:
    return {
        "task_id": placed.task.id,
        "number": placed.task.attempt + 1,
        "job_id": placed.task.job_id,
        "task": placed.task.number,
        "device": placed.device.id,
        "status": "running",
        "reason": reason,
        "started_at": now,
    }


_REASONS = {
    (ANY, "hardware"): "policy auto: hardware has a free slot",
    (ANY, "software"): "policy auto: there is no hardware",
    (HARDWARE, "hardware"): "policy hardware",
    (SOFTWARE, "software"): "policy software",
}


def _reason(placed: Placement, rules: Rules, policy: DevicePolicy) -> str:
    if placed.task.number:
        return f"piece {placed.task.number}: a slot is free"
    if placed.task.requirement == ANY and pool_of(placed.device) == "software" and rules.wait_for_hardware:
        waited = max(0.0, (placed.task.hop_at - placed.task.queued_at).total_seconds())
        return f"policy auto: no hardware slot became free within {waited:g} s, so software does it"
    if (placed.task.requirement, policy.policy) == (SOFTWARE, "auto"):
        return "policy auto: the CPU was found the place for it (no pictures to encode, or none that a GPU does faster)"
    return _REASONS.get((placed.task.requirement, pool_of(placed.device)), "the job names this device")
