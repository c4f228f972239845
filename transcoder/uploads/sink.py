"""An upload on its way to the disk: hashed while it comes, whole or not there at all."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from transcoder.disk import Fsync, remove
from transcoder.errors import PayloadTooLarge, StorageFull
from transcoder.jobs import Upload

BUFFER_BYTES = 1 << 20
PART_SUFFIX = ".part"


OnBytes = Callable[[int], None]
"""Told how many bytes have come, with each chunk."""


def ignore(count: int) -> None:
    """An OnBytes that takes everything."""


class UploadSink:
    """Takes an upload's bytes in order. `upload` is set once all are safe.

    `keep` takes the file over where uploads are kept, `forget` removes it there.
    """

    def __init__(
        self,
        upload_id: str,
        name: str,
        folder: Path,
        *,
        max_bytes: int,
        fsync: Fsync,
        keep: Callable[[str, Path], Awaitable[None]],
        forget: Callable[[str], Awaitable[None]],
        check_room: Callable[[], None],
        on_bytes: OnBytes = ignore,
    ) -> None:
        self.id = upload_id
        self.size = 0
        self._name = name
        self._part = folder / f"{upload_id}{PART_SUFFIX}"
        self._max_bytes = max_bytes
        self._fsync = fsync
        self._keep, self._forget = keep, forget
        self._kept = False
        self._check_room = check_room
        self._on_bytes = on_bytes
        self._digest = hashlib.sha256()
        self._buffer = bytearray()
        self._descriptor: int | None = None
        self._working: asyncio.Future[None] | None = None
        self._upload: Upload | None = None

    @property
    def upload(self) -> Upload:
        if self._upload is None:
            raise RuntimeError("the upload is not finished")
        return self._upload

    async def write(self, chunk: bytes) -> None:
        """Takes the next bytes. PayloadTooLarge past the limit, StorageFull on a full disk, what `on_bytes` raises."""
        self.size += len(chunk)
        self._on_bytes(len(chunk))
        if self.size > self._max_bytes:
            raise PayloadTooLarge(f"an upload is at most {self._max_bytes} bytes", limit_bytes=self._max_bytes)
        self._buffer += chunk
        if len(self._buffer) >= BUFFER_BYTES:
            await self._done(asyncio.to_thread(self._drain))

    async def finish(self) -> None:
        """Makes the upload durable; again does nothing."""
        if self._upload is not None:
            return
        await self._done(asyncio.to_thread(self._close_durably))
        self._kept = True
        await self._done(self._keep(self.id, self._part))
        self._upload = Upload(
            id=self.id,
            name=self._name,
            size=self.size,
            sha256=self._digest.hexdigest(),
            created_at=datetime.now(UTC),
        )

    async def abandon(self) -> None:
        """Removes all traces; also of a `finish` that failed half way."""
        if self._working is not None:
            # a cancelled write still has the descriptor in its thread
            await asyncio.wait({self._working})
        await asyncio.to_thread(self._discard)
        if self._kept:
            await self._forget(self.id)

    async def _done(self, work: Awaitable[None]) -> None:
        """Waits for it; it goes on when the one who waits is cancelled."""
        self._working = asyncio.ensure_future(work)
        try:
            await asyncio.shield(self._working)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull("there is no room for the upload") from error
            raise

    def _drain(self) -> None:
        self._check_room()
        if self._descriptor is None:
            self._descriptor = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        pending, self._buffer = self._buffer, bytearray()
        self._digest.update(pending)
        view = memoryview(pending)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def _close_durably(self) -> None:
        self._drain()
        assert self._descriptor is not None
        self._fsync(self._descriptor)
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def _discard(self) -> None:
        self._close()
        remove(self._part)
