"""How attempts end: one transaction that only the current attempt of a task gets through.

The fence is `UPDATE tasks … WHERE id = :task AND attempt = :number AND state = 'running'`. An attempt that was taken
away updates nothing, and its result is dropped; so a job ends once. A job in pieces ends with the last of its tasks
that runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.result import Warning
from transcoder import stored_outputs
from transcoder.attempts.fallback import NoStep, Place, Step, is_step, next_step
from transcoder.attempts.retry import LOST, Fail, Retry, RetryPolicy, decide, decide_stream
from transcoder.jobs import Attempt, ErrorInfo, JobOutput, JobStatus
from transcoder.queueing import shares
from transcoder.queueing.queues import read_queues
from transcoder.queueing.requirements import PINNED, policy_of, requested
from transcoder.receipts.store import save_receipt
from transcoder.records import attempt_from
from transcoder.reuse.roles import Follow
from transcoder.split import family
from transcoder.split.values import Cut, Encoded
from transcoder.tables import attempts, jobs, tasks
from transcoder.webhooks import outbox


@dataclass(frozen=True)
class Completed:
    """Everything is published."""

    outputs: tuple[JobOutput, ...]
    warnings: tuple[Warning, ...]
    receipt: dict[str, Any] | None = None
    way: str | None = None
    """How it went, where that is to be said."""
    joined: bool = False
    """Its pictures were encoded by other attempts."""
    reused_from: str | None = None
    """The job whose result it is; `plan` is that one's."""
    plan: dict[str, Any] | None = None


@dataclass(frozen=True)
class Failed:
    error: ErrorInfo


@dataclass(frozen=True)
class Cancelled:
    """The user's wish, or the job was given up when another of its pieces failed."""

    error: ErrorInfo


@dataclass(frozen=True)
class Lost:
    """The service ended, in order (`shutdown`) or not (`lost`)."""

    error: ErrorInfo


Good = Completed | Cut | Encoded | Follow
Outcome = Good | Failed | Cancelled | Lost

ATTEMPT_STATUS: dict[type[Outcome], str] = {
    Completed: "completed",
    Cut: "completed",
    Encoded: "completed",
    Follow: "completed",
    Failed: "failed",
    Cancelled: "cancelled",
    Lost: "lost",
}


@dataclass(frozen=True)
class Ticket:
    """An attempt, by what the fence looks at. `number`: the task's, 0 for the job's own."""

    job_id: str
    task_id: str
    attempt: int
    number: int = 0


async def settle(
    connection: AsyncConnection,
    ticket: Ticket,
    outcome: Outcome,
    policy: RetryPolicy,
    now: datetime,
    *,
    plan: dict[str, Any] | None = None,
    stats: dict[str, Any] | None = None,
    places: Sequence[Place] = (),
    way: str | None = None,
) -> JobStatus | None:
    """Writes an attempt's end and what follows from it; the job's new status, or None when the fence was closed.

    A wish to cancel that came before a failure was settled wins over a retry. `places`: where else a job may go that a
    GPU failed; `way`: how the attempt went, added to its reason.
    """
    error = None if isinstance(outcome, Good) else outcome.error
    ended = await connection.execute(
        update(attempts)
        .where(attempts.c.task_id == ticket.task_id, attempts.c.number == ticket.attempt)
        .where(
            select(tasks.c.id)
            .where(tasks.c.id == ticket.task_id, tasks.c.attempt == ticket.attempt, tasks.c.state == "running")
            .exists()
        )
        .values(
            status=ATTEMPT_STATUS[type(outcome)],
            finished_at=now,
            error=None if error is None else error.model_dump(mode="json"),
            **({} if way is None else {"reason": attempts.c.reason + f"; {way}"}),
        )
    )
    if ended.rowcount != 1:
        return None
    await shares.charge(connection, ticket.task_id, now)
    change = await _change(connection, ticket, outcome, policy, now, places)
    fenced = await connection.execute(
        update(tasks)
        .where(tasks.c.id == ticket.task_id, tasks.c.attempt == ticket.attempt, tasks.c.state == "running")
        .values(change.task)
    )
    if fenced.rowcount != 1:
        raise RuntimeError(f"task {ticket.task_id} changed hands within a transaction")
    if ticket.number or isinstance(outcome, Cut):
        change = await _with_family(connection, ticket, change, now)
        plan = stats = None
    kept = {"plan": plan, "stats": stats} if change.status.ended else {"plan": plan}
    values = {**change.job, **{name: value for name, value in kept.items() if value is not None}}
    await connection.execute(update(jobs).where(jobs.c.id == ticket.job_id).values(status=change.status, **values))
    if isinstance(outcome, Completed) and outcome.receipt is not None:
        await save_receipt(connection, ticket.job_id, ticket.attempt, outcome.receipt)
    if change.status.ended:
        await outbox.record(connection, [ticket.job_id], change.status, now)
    return change.status


async def _with_family(connection: AsyncConnection, ticket: Ticket, change: _Change, now: datetime) -> _Change:
    """What the end of one task of a job in pieces is for the job."""
    if change.status.ended:
        await family.call_off(connection, ticket.job_id, change.status.value)
        if not await family.runs(connection, ticket.job_id):
            return change
        # who is the last one to end finds the error, and ends the job with it
        return _Change(JobStatus.RUNNING, {}, {name: change.job[name] for name in ("error",) if name in change.job})
    await family.advance(connection, ticket.job_id, now)
    await family.tell(connection, [ticket.job_id])
    return _Change(JobStatus.RUNNING if await family.runs(connection, ticket.job_id) else JobStatus.QUEUED, {}, {})


async def give_reason(connection: AsyncConnection, ticket: Ticket, reason: str) -> None:
    """Why the attempt is where it is, in place of what the queue knew."""
    mine = (attempts.c.task_id == ticket.task_id, attempts.c.number == ticket.attempt)
    await connection.execute(update(attempts).where(*mine).values(reason=reason))


async def unpin(connection: AsyncConnection, device_id: str | None = None) -> None:
    """Tasks that a step sent to this device (None: to any), which takes none now, go where their jobs let them."""
    pinned = tasks.c.requirement.startswith(PINNED, autoescape=True)
    waiting = await connection.execute(
        select(tasks.c.id, jobs.c.spec)
        .join(jobs, jobs.c.id == tasks.c.job_id)
        .where(tasks.c.state == "queued")
        .where(pinned if device_id is None else tasks.c.requirement == f"{PINNED}{device_id}")
    )
    for row in waiting.all():
        wanted = requested(row.spec)
        await connection.execute(update(tasks).where(tasks.c.id == row.id).values(requirement=wanted))


async def recover(connection: AsyncConnection, policy: RetryPolicy, now: datetime) -> list[tuple[str, JobStatus]]:
    """Settles what a service that died left running, as lost; jobs and their new status.

    Steps are forgotten, for the devices may be others now: their verdicts are kept by the attempts.
    """
    running = await connection.execute(
        select(tasks.c.job_id, tasks.c.id, tasks.c.attempt, tasks.c.number).where(tasks.c.state == "running")
    )
    settled: dict[str, JobStatus] = {}
    for row in running.all():
        ticket = Ticket(row.job_id, row.id, row.attempt, row.number)
        status = await settle(connection, ticket, Lost(LOST), policy, now)
        if status is not None:
            settled[row.job_id] = status
    await unpin(connection)
    return list(settled.items())


@dataclass(frozen=True)
class _Change:
    status: JobStatus
    task: dict[str, Any]
    job: dict[str, Any]


async def _change(
    connection: AsyncConnection,
    ticket: Ticket,
    outcome: Outcome,
    policy: RetryPolicy,
    now: datetime,
    places: Sequence[Place],
) -> _Change:
    if isinstance(outcome, Completed):
        await stored_outputs.record(connection, ticket.job_id, outcome.outputs)
        return _end(
            JobStatus.COMPLETED,
            now,
            progress=1.0,
            outputs=[output.model_dump(mode="json") for output in outcome.outputs],
            warnings=[warning.model_dump(mode="json") for warning in outcome.warnings],
            reused_from=outcome.reused_from,
            **({} if outcome.plan is None else {"plan": outcome.plan}),
        )
    if isinstance(outcome, Encoded):
        await family.keep(connection, ticket.task_id, ticket.attempt, outcome.result)
    wished = select(jobs.c.cancel_requested, jobs.c.error.is_not(None)).where(jobs.c.id == ticket.job_id)
    cancelled, failed = (await connection.execute(wished)).one()
    if isinstance(outcome, Cancelled) or cancelled or failed:
        end = _end(JobStatus.FAILED if failed and not cancelled else JobStatus.CANCELLED, now)
        return _made(end) if isinstance(outcome, Encoded) else end
    if isinstance(outcome, Encoded):
        return _made(_Change(JobStatus.QUEUED, {}, {}))
    if isinstance(outcome, Follow):
        return _Change(JobStatus.QUEUED, {"state": "waiting"}, {"progress": None, "stats": None})
    if isinstance(outcome, Cut):
        return _Change(JobStatus.QUEUED, await family.found(connection, ticket.task_id, outcome, now), {})
    if ticket.number:
        await family.forget_told(connection, ticket.task_id)
    history = await counted(connection, ticket)
    step = await _step(connection, ticket, history, places)
    if isinstance(step, Step):
        return _again(now, requirement=step.requirement)
    decision = Fail(outcome.error) if isinstance(step, NoStep) else await _decided(connection, ticket, history, policy)
    if isinstance(decision, Fail):
        return _end(JobStatus.FAILED, now, error=decision.error.model_dump(mode="json"))
    return _again(now + timedelta(seconds=decision.after_seconds))


async def _decided(
    connection: AsyncConnection, ticket: Ticket, history: Sequence[Attempt], policy: RetryPolicy
) -> Retry | Fail:
    kind = (await connection.execute(select(tasks.c.kind).where(tasks.c.id == ticket.task_id))).scalar_one()
    return decide_stream(history, policy) if kind == "stream" else decide(history, policy)


def _again(available_at: datetime, **task: Any) -> _Change:
    return _Change(
        JobStatus.QUEUED, {"state": "queued", "available_at": available_at, **task}, {"progress": None, "stats": None}
    )


def _made(change: _Change) -> _Change:
    """With a piece that is made, whatever becomes of the job."""
    return _Change(change.status, {"state": "completed"}, change.job)


def _end(status: JobStatus, now: datetime, **values: Any) -> _Change:
    return _Change(status, {"state": status.value}, {"finished_at": now, **values})


async def _step(
    connection: AsyncConnection, ticket: Ticket, history: Sequence[Attempt], places: Sequence[Place]
) -> Step | NoStep | None:
    """Where a job goes on that a GPU failed, of the places that its queue may use."""
    if not is_step(history[-1]):
        return None
    found = await connection.execute(select(jobs.c.spec, jobs.c.queue).where(jobs.c.id == ticket.job_id))
    job = found.one()
    queue = (await read_queues(connection, [job.queue])).get(job.queue)
    allowed = [place for place in places if queue is None or queue.takes(place.id)]
    return next_step(policy_of(job.spec), history, allowed)


async def counted(connection: AsyncConnection, ticket: Ticket) -> list[Attempt]:
    """The task's attempts since it was last queued by hand, up to the ticket's."""
    rows = await connection.execute(
        select(attempts)
        .join(tasks, tasks.c.id == attempts.c.task_id)
        .where(attempts.c.task_id == ticket.task_id, attempts.c.number > tasks.c.budget_from)
        .where(attempts.c.number <= ticket.attempt)
        .order_by(attempts.c.number)
    )
    return [attempt_from(row) for row in rows.mappings()]
