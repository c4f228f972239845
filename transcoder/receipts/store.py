"""Receipts in the database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.database import Database
from transcoder.errors import JobNotFound, ReceiptNotFound
from transcoder.receipts.tables import receipts
from transcoder.tables import jobs


async def save_receipt(connection: AsyncConnection, job_id: str, attempt: int, body: dict[str, Any]) -> None:
    """In the transaction in which the job is completed."""
    await connection.execute(delete(receipts).where(receipts.c.job_id == job_id))
    await connection.execute(insert(receipts).values(job_id=job_id, attempt=attempt, body=body))


async def read_receipt(database: Database, job_id: str, tenant: str) -> dict[str, Any]:
    """As it was written. JobNotFound; ReceiptNotFound for a job that has not completed, or is a stream's."""
    query = (
        select(jobs.c.status, jobs.c.kind, receipts.c.body)
        .outerjoin(receipts, receipts.c.job_id == jobs.c.id)
        .where(jobs.c.id == job_id, jobs.c.tenant == tenant)
    )
    async with database.read() as connection:
        row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise JobNotFound("there is no such job", job=job_id)
    if row.body is None:
        why = "a stream's job has no receipt" if row.kind == "stream" else "the job has no receipt"
        raise ReceiptNotFound(f"{why}: receipts are of files that are completed", job=job_id, status=row.status)
    return dict(row.body)
