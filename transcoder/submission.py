"""Adding jobs: the rows of new ones, and idempotency keys in the jobs' own transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.spec import FileJob
from transcoder.errors import IdempotencyConflict, ServiceError
from transcoder.jobs import Job, JobStatus
from transcoder.records import job_from
from transcoder.tables import idempotency, jobs, tasks
from transcoder.uploads import check_upload


@dataclass(frozen=True)
class Idempotency:
    """A client's promise that requests with this key are one request. The hash is of the request's body."""

    key: str
    body_sha256: str


@dataclass(frozen=True)
class NewJob:
    """A job to add. `spec` has its outputs; `preset` is where they came from."""

    id: str
    tenant: str
    spec: FileJob
    preset: str | None
    requirement: str
    created_at: datetime
    idempotency: Idempotency | None = None

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

    def task_row(self) -> dict[str, Any]:
        return {
            "id": f"{self.id}-0",
            "job_id": self.id,
            "number": 0,
            "state": "queued",
            "requirement": self.requirement,
            "priority": self.spec.priority,
            "queued_at": self.created_at,
            "available_at": self.created_at,
            "attempt": 0,
            "budget_from": 0,
        }


_BLANK = dict.fromkeys(("progress", "stats", "started_at", "finished_at", "plan", "outputs", "warnings", "error"))


@dataclass(frozen=True)
class Added:
    """`created` is False when the idempotency key already had this job."""

    job_id: str
    created: bool


async def add_jobs(connection: AsyncConnection, new: Sequence[NewJob]) -> list[Added | ServiceError]:
    """Adds jobs; for each, in order, what became of it."""
    results: list[Added | ServiceError] = []
    fresh: list[NewJob] = []
    keys: dict[tuple[str, str], tuple[str, str]] = {}
    for job in new:
        try:
            known = await _known(connection, job, keys)
            if known is None and job.spec.input.upload is not None:
                await check_upload(connection, job.spec.input.upload, job.tenant)
        except ServiceError as error:
            results.append(error)
            continue
        if known is not None:
            results.append(Added(known, created=False))
            continue
        if job.idempotency is not None:
            keys[job.tenant, job.idempotency.key] = (job.id, job.idempotency.body_sha256)
        fresh.append(job)
        results.append(Added(job.id, created=True))
    if fresh:
        await connection.execute(insert(jobs), [job.row() for job in fresh])
        await connection.execute(insert(tasks), [job.task_row() for job in fresh])
    if keys:
        await connection.execute(
            insert(idempotency),
            [
                {"tenant": tenant, "key": key, "job_id": job_id, "body_sha256": body}
                for (tenant, key), (job_id, body) in keys.items()
            ],
        )
    return results


async def _known(connection: AsyncConnection, job: NewJob, keys: dict[tuple[str, str], tuple[str, str]]) -> str | None:
    """The job that has this one's idempotency key; IdempotencyConflict when it came with another body."""
    if job.idempotency is None:
        return None
    found = keys.get((job.tenant, job.idempotency.key))
    if found is None:
        query = select(idempotency.c.job_id, idempotency.c.body_sha256).where(
            idempotency.c.tenant == job.tenant, idempotency.c.key == job.idempotency.key
        )
        row = (await connection.execute(query)).one_or_none()
        found = None if row is None else (row[0], row[1])
    if found is None:
        return None
    job_id, body_sha256 = found
    if body_sha256 != job.idempotency.body_sha256:
        raise IdempotencyConflict("this idempotency key was used with another body", job=job_id)
    return job_id
