"""An upload on its way to the disk: hashed while it comes, whole or not there at all."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from transcoder.disk import Fsync, remove
from transcoder.errors import PayloadTooLarge, StorageFull
from transcoder.jobs import Upload

BUFFER_BYTES = 1 << 20
"""An upload holds two of these: one is filled while the other is written."""

COPIED_BYTES = 16 << 10
"""Smaller chunks are put together: a client that sends single bytes would have each of them take fifty."""

MAX_PARTS = 1024
"""The kernel's limit on one writev."""

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
        self._parts: list[bytes | bytearray] = []
        self._held = 0
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
        self._take(chunk)
        if self._held >= BUFFER_BYTES:
            await self._settled()
            # hashed and written while the next bytes come
            self._working = asyncio.ensure_future(asyncio.to_thread(self._drain, self._taken()))

    def _take(self, chunk: bytes) -> None:
        self._held += len(chunk)
        if len(chunk) >= COPIED_BYTES:
            self._parts.append(chunk)
        elif self._parts and isinstance(self._parts[-1], bytearray):
            self._parts[-1] += chunk
        else:
            self._parts.append(bytearray(chunk))

    def _taken(self) -> list[bytes | bytearray]:
        parts, self._parts, self._held = self._parts, [], 0
        return parts

    async def finish(self) -> None:
        """Makes the upload durable; again does nothing."""
        if self._upload is not None:
            return
        await self._settled()
        self._working = asyncio.ensure_future(asyncio.to_thread(self._close_durably))
        await self._settled()
        self._kept = True
        self._working = asyncio.ensure_future(self._keep(self.id, self._part))
        await self._settled()
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
            if not self._working.cancelled():
                # what becomes of it matters no more
                self._working.exception()
        await asyncio.to_thread(self._discard)
        if self._kept:
            await self._forget(self.id)

    async def _settled(self) -> None:
        """Waits for what was begun last; that goes on when the one who waits is cancelled."""
        if self._working is None:
            return
        try:
            await asyncio.shield(self._working)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull("there is no room for the upload") from error
            raise

    def _drain(self, parts: list[bytes | bytearray]) -> None:
        self._check_room()
        if self._descriptor is None:
            self._descriptor = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        for part in parts:
            self._digest.update(part)
        write_all(self._descriptor, parts)

    def _close_durably(self) -> None:
        self._drain(self._taken())
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


def write_all(descriptor: int, parts: Sequence[bytes | bytearray]) -> None:
    """In order, and whole: where the kernel takes less than all, it is asked again with the rest."""
    left = [memoryview(part) for part in parts if part]
    while left:
        done = os.writev(descriptor, left[:MAX_PARTS])
        while left and done >= len(left[0]):
            done -= len(left.pop(0))
        if done:
            left[0] = left[0][done:]
