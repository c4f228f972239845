"""Rows as the values that users see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import RowMapping, Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.jobs import Attempt, ErrorInfo, Job, JobOutput, JobStatus, Upload
from transcoder.tables import attempts, jobs, uploads

LISTED = [column for column in jobs.c if column.name != "plan"]
"""What a list shows of a job: plans are long, and each job's own page has its."""


async def attempts_of(connection: AsyncConnection, job_ids: Sequence[str]) -> dict[str, tuple[Attempt, ...]]:
    """Attempts by job, in order."""
    return _by_job((await connection.execute(_attempts(job_ids))).mappings())


def _attempts(job_ids: Sequence[str]) -> Select[Any]:
    query = select(attempts).where(attempts.c.job_id.in_(job_ids))
    return query.order_by(attempts.c.job_id, attempts.c.task, attempts.c.number)


def _by_job(rows: Iterable[RowMapping]) -> dict[str, tuple[Attempt, ...]]:
    found: dict[str, list[Attempt]] = defaultdict(list)
    for row in rows:
        found[row["job_id"]].append(attempt_from(row))
    return {job_id: tuple(tries) for job_id, tries in found.items()}


def attempt_from(row: RowMapping | Mapping[str, Any]) -> Attempt:
    return Attempt(
        number=row["number"],
        task=row["task"],
        device=row["device"],
        status=row["status"],
        reason=row["reason"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        error=None if row["error"] is None else ErrorInfo.model_validate(row["error"]),
    )


def job_from(row: RowMapping | Mapping[str, Any], tries: Iterable[Attempt] = ()) -> Job:
    status = JobStatus(row["status"])
    stats = row["stats"]
    return Job.model_validate(
        {
            "id": row["id"],
            "kind": row["kind"],
            "status": status,
            "queue": row["queue"],
            "priority": row["priority"],
            "preset": row["preset"],
            "progress": row["progress"],
            "eta_seconds": stats.get("eta_seconds") if stats and status is JobStatus.RUNNING else None,
            "stats": stats,
            "state": stats.get("state") if stats and status is JobStatus.RUNNING else None,
            "created_at": row["created_at"],
            "started_at": row["started_at"],
            "finished_at": row["finished_at"],
            "cancel_requested": row["cancel_requested"],
            "attempts": tuple(tries),
            "outputs": [JobOutput.model_validate(output) for output in row["outputs"] or ()],
            "warnings": row["warnings"] or (),
            "error": row["error"],
            "plan": row.get("plan"),
            "reused_from": row.get("reused_from"),
            "metadata": row["spec"]["metadata"],
            "spec": row["spec"],
        }
    )


def upload_from(row: RowMapping) -> Upload:
    return Upload(**{name: row[name] for name in Upload.model_fields})


def upload_values(upload: Upload, tenant: str) -> dict[str, object]:
    return {uploads.c.tenant.name: tenant, **upload.model_dump()}
