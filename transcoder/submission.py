"""Adding jobs: the rows of new ones, and idempotency keys in the jobs' own transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.asked.streams import StreamJob
from pipelines.spec import FileJob
from transcoder.database import current_time
from transcoder.errors import IdempotencyConflict, InputUploadNotFound, NoDevice, QueueFull, ServiceError, UnknownQueue
from transcoder.jobs import Job, JobStatus
from transcoder.queueing.queues import Queue, queued_counts, read_queues
from transcoder.queueing.requirements import SOFTWARE
from transcoder.quotas import Quotas, queued_jobs
from transcoder.records import job_from
from transcoder.stored_outputs import output_bytes
from transcoder.streams.secrets import StreamSecrets, save_secrets
from transcoder.tables import idempotency, jobs, tasks, uploads
from transcoder.uploads.named import save_named, uploads_beside

NO_DEADLINE = datetime(9000, 1, 1, tzinfo=UTC)
"""After all others."""


@dataclass(frozen=True)
class Idempotency:
    """A client's promise that requests with this key are one request. The hash is of the request's body."""

    key: str
    body_sha256: str


@dataclass(frozen=True)
class NewJob:
    """A job to add. `spec` has its outputs; `preset` is where they came from.

    `cost`: slots that it asks for; `wait_seconds`: how long it waits for hardware before software will do.
    """

    id: str
    tenant: str
    spec: FileJob | StreamJob
    preset: str | None
    requirement: str
    created_at: datetime
    idempotency: Idempotency | None = None
    cost: int = 1
    costs: Mapping[str, int] = field(default_factory=dict)
    """On devices whose speeds are known, by their ids: in place of `cost`."""
    wait_seconds: float = 0.0
    secrets: StreamSecrets | None = None
    """What a stream's spec does not say any more."""
    able: tuple[str, ...] | None = None
    """The devices that there are for it; None: not looked at."""
    in_software: bool = False
    """The CPU is the faster place for it, and its policy leaves the choice."""

    @property
    def available_at(self) -> datetime:
        """Not before a stream's own time."""
        begins = self.spec.start_at if isinstance(self.spec, StreamJob) else None
        return max(self.created_at, begins) if begins is not None else self.created_at

    def in_queue(self, queue: Queue) -> NewJob:
        """With the queue's priority where it names none itself, and on the CPU where that is faster and allowed."""
        wanted = SOFTWARE if self.in_software and queue.takes(SOFTWARE) else self.requirement
        spec = self.spec
        if "priority" not in spec.model_fields_set and queue.default_priority != spec.priority:
            spec = spec.model_copy(update={"priority": queue.default_priority})
        return self if (spec, wanted) == (self.spec, self.requirement) else replace(self, spec=spec, requirement=wanted)

    @property
    def uploads(self) -> tuple[str, ...]:
        """All that it uses, its input first."""
        own = self.spec.input.upload
        return (*(() if own is None else (own,)), *sorted(uploads_beside(self.spec)))

    def as_job(self) -> Job:
        """The job as it is in the moment it was added."""
        return job_from({**self.row(), **_BLANK})

    def row(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "tenant": self.tenant,
            "kind": self.spec.kind,
            "status": JobStatus.QUEUED.value,
            "queue": self.spec.queue,
            "priority": self.spec.priority,
            "preset": self.preset,
            "upload_id": self.spec.input.upload,
            "cancel_requested": False,
            "created_at": self.created_at,
            "spec": self.spec.model_dump(mode="json"),
        }

    def task_row(self, now: datetime | None = None) -> dict[str, Any]:
        """`now`: by the database's clock, which may be behind the one that the job was made by."""
        late = self.created_at if now is None else min(self.created_at, now)
        return {
            "id": f"{self.id}-0",
            "job_id": self.id,
            "number": 0,
            "state": "queued",
            "requirement": self.requirement,
            "priority": self.spec.priority,
            "queued_at": self.created_at,
            "available_at": late if self.available_at == self.created_at else self.available_at,
            "attempt": 0,
            "budget_from": 0,
            "queue": self.spec.queue,
            "tenant": self.tenant,
            "kind": self.spec.kind,
            "cost": self.cost,
            "costs": dict(self.costs) or None,
            "ready_by": self.spec.ready_by or NO_DEADLINE,
            "hop_at": self.created_at + timedelta(seconds=self.wait_seconds),
        }


_BLANK = dict.fromkeys(("progress", "stats", "started_at", "finished_at", "plan", "outputs", "warnings", "error"))


@dataclass(frozen=True)
class Added:
    """`job` is the new one; None when the idempotency key already had the job of this id."""

    job_id: str
    job: NewJob | None = None

    @property
    def created(self) -> bool:
        return self.job is not None


async def add_jobs(
    connection: AsyncConnection, new: Sequence[NewJob], quotas: Quotas | None = None
) -> list[Added | ServiceError]:
    """Adds jobs; for each, in order, what became of it."""
    keys = await _known_keys(connection, new)
    stored = await _stored_uploads(connection, new)
    waiting = {} if quotas is None else await queued_jobs(connection, {job.tenant for job in new})
    full = await _full_tenants(connection, new, quotas)
    groups = await _groups(connection, new)
    fresh: list[NewJob] = []
    results: list[Added | ServiceError] = []
    for job in new:
        key = _key(job)
        known = keys.get(key) if key is not None else None
        if known is not None:
            results.append(_replayed(job, known))
        elif (upload := next((u for u in job.uploads if (job.tenant, u) not in stored), None)) is not None:
            results.append(InputUploadNotFound("there is no such upload", upload=upload))
        elif quotas is not None and waiting.get(job.tenant, 0) >= quotas.queued_jobs:
            results.append(quotas.too_many_jobs())
        elif quotas is not None and job.tenant in full:
            results.append(quotas.outputs_full())
        elif (refusal := groups.refusal(job)) is not None:
            results.append(refusal)
        else:
            job = groups.take(job)
            waiting[job.tenant] = waiting.get(job.tenant, 0) + 1
            if key is not None and job.idempotency is not None:
                # the next one in this batch may have the same key
                keys[key] = _Known(job.id, job.idempotency.body_sha256)
            fresh.append(job)
            results.append(Added(job.id, job))
    await _insert(connection, fresh)
    return results


async def _full_tenants(connection: AsyncConnection, new: Sequence[NewJob], quotas: Quotas | None) -> frozenset[str]:
    """Whose outputs hold as much as they may."""
    limit = None if quotas is None else quotas.output_bytes
    if limit is None:
        return frozenset()
    stored = await output_bytes(connection, {job.tenant for job in new})
    return frozenset(tenant for tenant, size in stored.items() if size >= limit)


@dataclass
class _Groups:
    """Queues of a batch, and how many jobs wait in those that have a limit."""

    queues: dict[str, Queue]
    waiting: dict[str, int]

    def refusal(self, job: NewJob) -> ServiceError | None:
        """Why the queue does not take it."""
        name = job.spec.queue
        queue = self.queues.get(name)
        if queue is None:
            return UnknownQueue(f"there is no queue {name!r}", queue=name)
        if queue.max_queued is not None and self.waiting.get(name, 0) >= queue.max_queued:
            return QueueFull(f"{queue.max_queued} jobs wait in the queue {name!r} already", limit=queue.max_queued)
        if job.able and not any(map(queue.takes, job.able)):
            there = ", ".join(job.able)
            return NoDevice(f"the queue {name!r} may use none of the devices that can run it: {there}", queue=name)
        return None

    def take(self, job: NewJob) -> NewJob:
        """The job as it is in its queue."""
        queue = self.queues[job.spec.queue]
        self.waiting[queue.name] = self.waiting.get(queue.name, 0) + 1
        return job.in_queue(queue)


async def _groups(connection: AsyncConnection, new: Sequence[NewJob]) -> _Groups:
    queues = await read_queues(connection, {job.spec.queue for job in new})
    limited = [name for name, queue in queues.items() if queue.max_queued is not None]
    return _Groups(queues, await queued_counts(connection, limited) if limited else {})


@dataclass(frozen=True)
class _Known:
    """What an idempotency key stands for."""

    job_id: str
    body_sha256: str


def _key(job: NewJob) -> tuple[str, str] | None:
    return None if job.idempotency is None else (job.tenant, job.idempotency.key)


def _replayed(job: NewJob, known: _Known) -> Added | ServiceError:
    if job.idempotency is not None and job.idempotency.body_sha256 == known.body_sha256:
        return Added(known.job_id)
    return IdempotencyConflict("this idempotency key was used with another body", job=known.job_id)


async def _known_keys(connection: AsyncConnection, new: Sequence[NewJob]) -> dict[tuple[str, str], _Known]:
    keys = {job.idempotency.key for job in new if job.idempotency is not None}
    if not keys:
        return {}
    rows = await connection.execute(select(idempotency).where(idempotency.c.key.in_(keys)))
    return {(row.tenant, row.key): _Known(row.job_id, row.body_sha256) for row in rows}


async def _stored_uploads(connection: AsyncConnection, new: Sequence[NewJob]) -> set[tuple[str, str]]:
    """(tenant, upload) of the uploads that are there. In the jobs' own transaction, in which none expires."""
    ids = {upload for job in new for upload in job.uploads}
    if not ids:
        return set()
    rows = await connection.execute(select(uploads.c.tenant, uploads.c.id).where(uploads.c.id.in_(ids)))
    return {(row.tenant, row.id) for row in rows}


async def _insert(connection: AsyncConnection, fresh: Sequence[NewJob]) -> None:
    keys = [
        {"tenant": job.tenant, "job_id": job.id, "key": job.idempotency.key, "body_sha256": job.idempotency.body_sha256}
        for job in fresh
        if job.idempotency is not None
    ]
    now = await current_time(connection)
    rows = ((jobs, [job.row() for job in fresh]), (tasks, [job.task_row(now) for job in fresh]), (idempotency, keys))
    for table, values in rows:
        if values:
            await connection.execute(insert(table), values)
    await save_named(connection, {job.id: uploads_beside(job.spec) for job in fresh})
    await save_secrets(connection, {job.id: job.secrets for job in fresh if job.secrets is not None})
