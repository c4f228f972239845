"""Uploads that jobs name beside their (first) input, such as images: kept for as long as a job may need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import (
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    String,
    Table,
    exists,
    insert,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.asked.streams import StreamJob
from pipelines.opening.beside import files_beside
from pipelines.spec import FileJob
from transcoder.tables import jobs, metadata, uploads

# those that are a job's input are in its own row
named_uploads = Table(
    "named_uploads",
    metadata,
    Column("job_id", String(64), ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("upload_id", String(64), nullable=False),
    PrimaryKeyConstraint("job_id", "upload_id"),
    Index("named_uploads_by_upload", "upload_id"),
)


def uploads_beside(spec: FileJob | StreamJob) -> frozenset[str]:
    """Ids of the uploads that a job names beside its input."""
    if isinstance(spec, StreamJob):
        return frozenset()
    named = {file.upload for file in files_beside(spec)} | {source.upload for source in spec.all_inputs[1:]}
    return frozenset(upload for upload in named if upload is not None and upload != spec.input.upload)


async def save_named(connection: AsyncConnection, named: Mapping[str, frozenset[str]]) -> None:
    """By job."""
    rows = [{"job_id": job, "upload_id": upload} for job, ids in named.items() for upload in sorted(ids)]
    if rows:
        await connection.execute(insert(named_uploads), rows)


async def named_by(connection: AsyncConnection, job_id: str) -> Sequence[str]:
    query = select(named_uploads.c.upload_id).where(named_uploads.c.job_id == job_id)
    return list((await connection.execute(query)).scalars())


def is_named(active: Sequence[str]) -> ColumnElement[bool]:
    """Of a row of uploads: whether a job with one of these statuses names it."""
    return exists().where(
        named_uploads.c.upload_id == uploads.c.id, named_uploads.c.job_id == jobs.c.id, jobs.c.status.in_(active)
    )
