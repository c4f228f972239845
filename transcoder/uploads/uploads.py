"""Uploads in the database. The files are the storage's: a row is made after its file and deleted before it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, delete, exists, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.database import Database
from transcoder.errors import Conflict, InputUploadNotFound, UploadNotFound
from transcoder.jobs import JobStatus, Upload
from transcoder.quotas import Quotas, stored_bytes
from transcoder.records import upload_from, upload_values
from transcoder.tables import jobs, uploads
from transcoder.uploads.named import is_named

EXPIRED_AT_ONCE = 1000

_ACTIVE = (JobStatus.QUEUED.value, JobStatus.RUNNING.value)


class UploadStore:
    """Each method is one transaction."""

    def __init__(self, database: Database, quotas: Quotas | None = None) -> None:
        self._database, self._quotas = database, quotas

    async def add(self, upload: Upload, tenant: str) -> None:
        """TenantStorageFull when the tenant's uploads hold too much with it."""
        async with self._database.write() as connection:
            if self._quotas is not None:
                await self._quotas.check_storage(connection, tenant, upload.size)
            await connection.execute(insert(uploads).values(upload_values(upload, tenant)))

    async def stored_bytes(self, tenant: str) -> int:
        async with self._database.read() as connection:
            return await stored_bytes(connection, tenant)

    async def get(self, upload_id: str, tenant: str) -> Upload:
        async with self._database.read() as connection:
            query = select(uploads).where(uploads.c.id == upload_id, uploads.c.tenant == tenant)
            row = (await connection.execute(query)).mappings().one_or_none()
        if row is None:
            raise UploadNotFound("there is no such upload", upload=upload_id)
        return upload_from(row)

    async def delete(self, upload_id: str, tenant: str) -> None:
        """Conflict while a queued or running job uses it."""
        async with self._database.write() as connection:
            mine = (uploads.c.id == upload_id, uploads.c.tenant == tenant)
            gone = await connection.execute(delete(uploads).where(*mine, ~_in_use()))
            if gone.rowcount == 1:
                return
            if (await connection.execute(select(uploads.c.id).where(*mine))).one_or_none() is None:
                raise UploadNotFound("there is no such upload", upload=upload_id)
            raise Conflict("a job that is queued or running uses this upload", upload=upload_id)

    async def expire(self, before: datetime) -> list[str]:
        """Deletes the rows of uploads that are older and not in use; the ids of at most EXPIRED_AT_ONCE."""
        async with self._database.write() as connection:
            old = await connection.execute(
                select(uploads.c.id).where(uploads.c.created_at < before, ~_in_use()).limit(EXPIRED_AT_ONCE)
            )
            ids = list(old.scalars())
            await connection.execute(delete(uploads).where(uploads.c.id.in_(ids)))
            return ids

    async def existing(self, upload_ids: Sequence[str]) -> set[str]:
        """Those of `upload_ids` that are uploads, of any tenant."""
        async with self._database.read() as connection:
            found = await connection.execute(select(uploads.c.id).where(uploads.c.id.in_(upload_ids)))
            return set(found.scalars())


async def check_upload(connection: AsyncConnection, upload_id: str, tenant: str) -> None:
    """InputUploadNotFound when the tenant has no such upload. In a job's own transaction: none expires in it."""
    query = select(uploads.c.id).where(uploads.c.id == upload_id, uploads.c.tenant == tenant)
    if (await connection.execute(query)).one_or_none() is None:
        raise InputUploadNotFound("there is no such upload", upload=upload_id)


def _in_use() -> ColumnElement[bool]:
    return or_(exists().where(jobs.c.upload_id == uploads.c.id, jobs.c.status.in_(_ACTIVE)), is_named(_ACTIVE))
