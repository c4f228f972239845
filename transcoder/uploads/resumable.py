"""Resumable uploads: made with their size, filled in pieces, and uploads like any other once they are whole.

partial/<id>    the file while it grows; at the end it is renamed into the uploads under the same id

What is promised to a client is on the disk before: an offset is written to the database after its bytes were synced,
and at the end first the hash, then the renamed file, then the upload's row. Whichever step a service dies after, the
next one goes on from there.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from transcoder.clock import utc_now
from transcoder.disk import Fsync, fsync_folder, remove
from transcoder.errors import (
    OffsetMismatch,
    PayloadTooLarge,
    StorageFull,
    UploadLocked,
    UploadNotFound,
)
from transcoder.ids import new_id
from transcoder.jobs import Upload
from transcoder.names import display_name
from transcoder.storage import Storage
from transcoder.uploads.partfile import Mark, PartFile, hash_file
from transcoder.uploads.partials import PartialStore, PartialUpload
from transcoder.uploads.pieces import Checksum, Piece, room

EXPIRY_SECONDS = 600.0

logger = logging.getLogger(__name__)


class Resumable:
    """One process owns all of them: who fills one holds it."""

    def __init__(
        self,
        storage: Storage,
        store: PartialStore,
        *,
        max_bytes: int,
        ttl_seconds: float,
        fsync: Fsync = os.fsync,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._storage, self._store = storage, store
        self._folder = storage.data_dir / "partial"
        self._max_bytes, self._ttl = max_bytes, timedelta(seconds=ttl_seconds)
        self._fsync, self._clock = fsync, clock
        self._held: set[str] = set()
        # digests of what has come, so that a whole file need not be read again
        self._marks: dict[str, Mark] = {}

    async def create(self, name: str, details: str, size: int, tenant: str) -> PartialUpload:
        """PayloadTooLarge, TooManyUploads, TenantStorageFull."""
        if size > self._max_bytes:
            raise PayloadTooLarge(f"an upload is at most {self._max_bytes} bytes", limit_bytes=self._max_bytes)
        now = self._clock()
        partial = PartialUpload(new_id(), tenant, display_name(name), details, size, 0, None, now, now + self._ttl)
        await self._store.add(partial)
        try:
            await asyncio.to_thread(self._touch, partial.id)
        except (OSError, StorageFull):
            await self._drop(partial)
            raise
        if size == 0:
            await self._complete(partial, hashlib.sha256().hexdigest())
        return partial

    async def get(self, upload_id: str, tenant: str) -> PartialUpload:
        """As far as it is safe. UploadNotFound for one that is whole: it is an upload then."""
        partial = await self._store.get(upload_id, tenant, self._clock())
        if partial.offset == partial.size and upload_id not in self._held:
            with self._holding(upload_id):
                await self._complete(partial, partial.sha256)
            raise UploadNotFound("the upload is whole", upload=upload_id)
        return partial

    @asynccontextmanager
    async def appending(
        self, upload_id: str, tenant: str, offset: int, checksum: Checksum | None = None
    ) -> AsyncGenerator[Piece, None]:
        """Takes the bytes from `offset` on; keeps what came, also when the sender breaks off.

        UploadLocked while another request does so, OffsetMismatch where bytes would be missing or there twice.
        """
        with self._holding(upload_id):
            partial = await self._store.get(upload_id, tenant, self._clock())
            if offset != partial.offset:
                raise OffsetMismatch(f"the upload goes on at {partial.offset}", offset=partial.offset)
            known = self._marks.pop(upload_id, None)
            digest = known.digest if known is not None and known.offset == offset else None
            file = await asyncio.to_thread(PartFile.open, self._path(upload_id), offset, digest, self._fsync)
            piece = Piece(file, partial, checksum, self._storage.check_room)
            piece.on_safe = lambda safe: self._advance(upload_id, safe)
            try:
                try:
                    yield piece
                except BaseException:
                    await asyncio.shield(self._keep(piece, whole=False))
                    raise
                await asyncio.shield(self._keep(piece, whole=True))
            finally:
                file.close()

    async def _keep(self, piece: Piece, *, whole: bool) -> None:
        upload_id = piece.partial.id
        try:
            await asyncio.to_thread(piece.end, whole=whole)
        finally:
            self._marks[upload_id] = piece.file.mark()
        if piece.file.offset == piece.partial.size:
            await self._complete(piece.partial, piece.file.digest.hexdigest())
        else:
            await self._advance(upload_id, piece.file.offset)

    async def _advance(self, upload_id: str, offset: int, sha256: str | None = None) -> None:
        await self._store.advance(upload_id, offset, self._clock() + self._ttl, sha256)

    async def _complete(self, partial: PartialUpload, sha256: str | None) -> None:
        """Each step may have been done by a service that died then."""
        path = self._path(partial.id)
        if sha256 is None:
            sha256 = (await asyncio.to_thread(hash_file, path, partial.size)).hexdigest()
        await self._advance(partial.id, partial.size, sha256)
        await self._storage.depot.keep_upload(partial.id, path)
        upload = Upload(id=partial.id, name=partial.name, size=partial.size, sha256=sha256, created_at=self._clock())
        await self._store.complete(upload, partial.tenant)
        self._marks.pop(partial.id, None)

    async def terminate(self, upload_id: str, tenant: str) -> None:
        """UploadNotFound, UploadLocked."""
        with self._holding(upload_id):
            await self._drop(await self._store.get(upload_id, tenant, self._clock()))

    async def expire(self) -> None:
        """Deletes those whose time is over and that nobody fills."""
        for partial in await self._store.expired(self._clock()):
            if partial.id not in self._held:
                with self._holding(partial.id):
                    await self._drop(partial)

    async def keep_expiring(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(min(EXPIRY_SECONDS, max(1.0, self._ttl.total_seconds() / 4)))
            try:
                await self.expire()
            except SQLAlchemyError:
                logger.warning("resumable uploads can't be swept; trying again", exc_info=True)

    async def prepare(self) -> None:
        """Makes the folder."""
        await asyncio.to_thread(self._folder.mkdir, mode=0o700, parents=True, exist_ok=True)

    async def recover(self) -> None:
        """Finishes what a dead service was finishing; drops files without a row and rows without a file.

        Before uploads are swept, and before anything runs.
        """
        await self.prepare()
        known = await self._store.all()
        for partial in known:
            if not await self._has_file(partial):
                logger.warning("the file of the resumable upload %s is gone", partial.id)
                await self._drop(partial)
            elif partial.offset == partial.size:
                await self._complete(partial, partial.sha256)
        ids = {partial.id for partial in known}
        for path in await asyncio.to_thread(lambda: list(self._folder.iterdir())):
            if path.name not in ids:
                await asyncio.to_thread(remove, path)

    async def _has_file(self, partial: PartialUpload) -> bool:
        if await asyncio.to_thread(_holds, self._path(partial.id), partial.offset):
            return True
        # it is moved only after its hash was written
        return partial.sha256 is not None and await self._storage.depot.holds_upload(partial.id, partial.offset)

    async def _drop(self, partial: PartialUpload) -> None:
        await self._store.delete(partial.id)
        await asyncio.to_thread(remove, self._path(partial.id))
        self._marks.pop(partial.id, None)

    @contextmanager
    def _holding(self, upload_id: str) -> Iterator[None]:
        if upload_id in self._held:
            raise UploadLocked("another request fills this upload")
        self._held.add(upload_id)
        try:
            yield
        finally:
            self._held.discard(upload_id)

    def _path(self, upload_id: str) -> Path:
        return self._folder / upload_id

    def _touch(self, upload_id: str) -> None:
        with room():
            os.close(os.open(self._path(upload_id), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            fsync_folder(self._folder, self._fsync)


def _holds(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size >= size


def finished(upload: Upload, tenant: str) -> PartialUpload:
    """A whole upload as the one that it was."""
    return PartialUpload(
        upload.id,
        tenant,
        upload.name,
        "",
        upload.size,
        upload.size,
        upload.sha256,
        upload.created_at,
        upload.created_at,
    )
