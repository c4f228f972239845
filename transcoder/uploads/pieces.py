"""What one request adds to a resumable upload."""

from __future__ import annotations

import asyncio
import errno
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from transcoder.errors import ChecksumMismatch, PayloadTooLarge, StorageFull
from transcoder.uploads.partfile import Mark, PartFile
from transcoder.uploads.partials import PartialUpload

BUFFER_BYTES = 1 << 20
SAFE_BYTES = 16 << 20
"""How much a piece may grow before it is made safe: what a service that dies may lose of it."""


@dataclass(frozen=True)
class Checksum:
    """What a client says of one piece. `algorithm` is one of hashlib's."""

    algorithm: str
    digest: bytes


class Piece:
    """Takes the bytes of one request. With a checksum nothing is kept unless all of it came and fits."""

    def __init__(
        self, file: PartFile, partial: PartialUpload, checksum: Checksum | None, check_room: Callable[[], None]
    ) -> None:
        self.file, self.partial, self._checksum, self._check_room = file, partial, checksum, check_room
        self.begin: Mark = file.mark()
        self._check = None if checksum is None else hashlib.new(checksum.algorithm)
        self._buffer = bytearray()
        self._safe = file.offset
        self.on_safe: Callable[[int], Any] | None = None

    async def write(self, chunk: bytes) -> None:
        """StorageFull when the disk is, PayloadTooLarge past the size that was announced."""
        self._buffer += chunk
        if self.file.offset + len(self._buffer) > self.partial.size:
            self._buffer.clear()
            raise PayloadTooLarge(f"the upload has {self.partial.size} bytes", limit_bytes=self.partial.size)
        if len(self._buffer) >= BUFFER_BYTES:
            await asyncio.to_thread(self._drain)
        if self._check is None and self.file.offset - self._safe >= SAFE_BYTES and self.on_safe is not None:
            await self.on_safe(await asyncio.to_thread(self.file.sync))
            self._safe = self.file.offset

    def _drain(self) -> None:
        pending, self._buffer = bytes(self._buffer), bytearray()
        with room():
            if pending:
                self._check_room()
            self.file.write(pending)
        if self._check is not None:
            self._check.update(pending)

    def end(self, *, whole: bool) -> None:
        """Makes durable what counts. ChecksumMismatch when the piece is `whole` and not what was said."""
        try:
            self._drain()
            if self._check is not None and self._checksum is not None:
                fits = self._check.digest() == self._checksum.digest
                if not (whole and fits):
                    self.file.back_to(self.begin)
                if whole and not fits:
                    raise ChecksumMismatch("the bytes do not have the checksum that was announced")
        finally:
            with room():
                self.file.sync()


@contextmanager
def room() -> Iterator[None]:
    """Turns a full disk into StorageFull."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull("there is no room for the upload") from error
        raise
