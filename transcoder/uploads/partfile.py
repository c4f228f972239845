"""The file of a resumable upload while bytes are added: hashed as they come, or taken back. All of it blocks."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from transcoder.disk import HASH_CHUNK_BYTES, Fsync


class PartFile:
    """Open at `offset`; what lay behind it, never promised to be safe, is cut off."""

    def __init__(self, path: Path, offset: int, digest: hashlib._Hash, fsync: Fsync) -> None:
        self.offset = offset
        self.digest = digest
        self._fsync = fsync
        self._descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        os.ftruncate(self._descriptor, offset)
        os.lseek(self._descriptor, offset, os.SEEK_SET)

    @classmethod
    def open(cls, path: Path, offset: int, digest: hashlib._Hash | None, fsync: Fsync) -> Self:
        """Without a digest the file is read up to `offset` to make one."""
        return cls(path, offset, digest or hash_file(path, offset), fsync)

    def write(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            done = os.write(self._descriptor, view)
            self.digest.update(view[:done])
            self.offset += done
            view = view[done:]

    def sync(self) -> int:
        """Makes everything so far durable; the offset."""
        self._fsync(self._descriptor)
        return self.offset

    def mark(self) -> Mark:
        return Mark(self.offset, self.digest.copy())

    def back_to(self, mark: Mark) -> None:
        """Takes back what was written since."""
        os.ftruncate(self._descriptor, mark.offset)
        os.lseek(self._descriptor, mark.offset, os.SEEK_SET)
        self.offset, self.digest = mark.offset, mark.digest

    def close(self) -> None:
        os.close(self._descriptor)


@dataclass(frozen=True)
class Mark:
    """How far a file was."""

    offset: int
    digest: hashlib._Hash


def hash_file(path: Path, size: int) -> hashlib._Hash:
    """The SHA-256 of the first `size` bytes; EOFError when there are fewer."""
    digest = hashlib.sha256()
    left = size
    with open(path, "rb", buffering=0) as file:
        while left:
            chunk = file.read(min(left, HASH_CHUNK_BYTES))
            if not chunk:
                raise EOFError(f"{left} bytes of a resumable upload are missing")
            digest.update(chunk)
            left -= len(chunk)
    return digest
