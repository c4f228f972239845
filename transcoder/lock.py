"""One service per data folder: a lock that the kernel takes back when the process dies, however it dies."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

from transcoder.errors import AlreadyRunning

TRY_SECONDS = 0.1


class FolderLock:
    """Held from `acquire` to `release`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    async def acquire(self, *, wait_seconds: float) -> None:
        """AlreadyRunning when another process has it for longer than the wait (one that stops needs a moment)."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _locked(descriptor):
                if loop.time() >= deadline:
                    raise AlreadyRunning(f"another service runs on the data folder {self._path.parent}")
                await asyncio.sleep(TRY_SECONDS)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
