"""How many bytes the outputs of completed jobs hold, by tenant. A row goes with its job."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import BigInteger, Column, ForeignKey, Index, PrimaryKeyConstraint, String, Table, func, insert, select
from sqlalchemy import literal as constant
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.jobs import JobOutput
from transcoder.tables import jobs, metadata

stored_outputs = Table(
    "stored_outputs",
    metadata,
    Column("job_id", String(64), ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("tenant", String(100), nullable=False),
    Column("size", BigInteger, nullable=False),
    PrimaryKeyConstraint("job_id"),
    Index("stored_outputs_by_tenant", "tenant", "size"),
)


async def record(connection: AsyncConnection, job_id: str, outputs: Sequence[JobOutput]) -> None:
    """In the transaction in which the job completes, which it does once."""
    size = sum(file.size for output in outputs for file in output.files)
    row = select(jobs.c.id, jobs.c.tenant, constant(size)).where(jobs.c.id == job_id)
    await connection.execute(insert(stored_outputs).from_select(["job_id", "tenant", "size"], row))


async def output_bytes(connection: AsyncConnection, tenants: Collection[str]) -> dict[str, int]:
    found = await connection.execute(
        select(stored_outputs.c.tenant, func.sum(stored_outputs.c.size))
        .where(stored_outputs.c.tenant.in_(tenants))
        .group_by(stored_outputs.c.tenant)
    )
    return {row[0]: int(row[1]) for row in found}
