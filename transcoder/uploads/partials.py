"""Resumable uploads that are not whole yet, in the database. `offset` counts what is safe on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from transcoder.database import Database
from transcoder.errors import TooManyUploads, UploadNotFound
from transcoder.jobs import Upload
from transcoder.quotas import Quotas
from transcoder.records import upload_values
from transcoder.tables import partial_uploads, uploads


@dataclass(frozen=True)
class PartialUpload:
    """`details` is what the client said of it, as it said it. `sha256` is there once all bytes are."""

    id: str
    tenant: str
    name: str
    details: str
    size: int
    offset: int
    sha256: str | None
    created_at: datetime
    expires_at: datetime


class PartialStore:
    """Each method is one transaction."""

    def __init__(self, database: Database, quotas: Quotas) -> None:
        self._database, self._quotas = database, quotas

    async def add(self, partial: PartialUpload) -> None:
        """Room for all of it is set aside. TooManyUploads, TenantStorageFull."""
        mine = select(func.count()).where(partial_uploads.c.tenant == partial.tenant)
        async with self._database.write() as connection:
            count = (await connection.execute(mine)).scalar_one()
            limit = self._quotas.open_uploads
            if count >= limit:
                raise TooManyUploads(f"{limit} uploads are not whole yet; finish or delete some", limit=limit)
            await self._quotas.check_storage(connection, partial.tenant, partial.size)
            await connection.execute(insert(partial_uploads).values(asdict(partial)))

    async def get(self, upload_id: str, tenant: str, now: datetime) -> PartialUpload:
        """UploadNotFound also for one whose time is over."""
        found = await self._found(
            partial_uploads.c.id == upload_id, partial_uploads.c.tenant == tenant, partial_uploads.c.expires_at > now
        )
        if not found:
            raise UploadNotFound("there is no such upload", upload=upload_id)
        return found[0]

    async def advance(self, upload_id: str, offset: int, expires_at: datetime, sha256: str | None = None) -> None:
        """UploadNotFound when it was deleted meanwhile."""
        async with self._database.write() as connection:
            done = await connection.execute(
                update(partial_uploads)
                .where(partial_uploads.c.id == upload_id)
                .values(offset=offset, expires_at=expires_at, sha256=sha256)
            )
        if done.rowcount != 1:
            raise UploadNotFound("there is no such upload any more", upload=upload_id)

    async def complete(self, upload: Upload, tenant: str) -> None:
        """Turns it into an upload like any other."""
        async with self._database.write() as connection:
            await connection.execute(delete(partial_uploads).where(partial_uploads.c.id == upload.id))
            await connection.execute(insert(uploads).values(upload_values(upload, tenant)))

    async def delete(self, upload_id: str) -> None:
        async with self._database.write() as connection:
            await connection.execute(delete(partial_uploads).where(partial_uploads.c.id == upload_id))

    async def all(self) -> Sequence[PartialUpload]:
        return await self._found()

    async def expired(self, now: datetime) -> Sequence[PartialUpload]:
        return await self._found(partial_uploads.c.expires_at <= now)

    async def _found(self, *conditions: Any) -> list[PartialUpload]:
        async with self._database.read() as connection:
            rows = await connection.execute(select(partial_uploads).where(*conditions))
            return [PartialUpload(**row) for row in rows.mappings()]
