"""File operations that the storage is made of: durable, or loud. All of them block; call them in a thread."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.errors import Cancelled, DiskFull, LimitExceeded, OutputFailed, PipelineError, VerifyFailed, cause

Fsync = Callable[[int], None]
"""os.fsync, or a test's."""

HASH_CHUNK_BYTES = 1 << 20
DEFAULT_FLOOR_BYTES = 1 << 30

# no link is followed, and a FIFO does not hang
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

logger = logging.getLogger(__name__)


def inside(folder: Path, path: str) -> Path:
    """`path` in `folder`. VerifyFailed when it leads elsewhere: a process that was taken over may claim any file."""
    place = folder / path
    if os.path.realpath(place) != f"{os.path.realpath(folder)}{os.sep}{path}":
        raise VerifyFailed("an output is not in its folder", stage="publish", file=path)
    return place


def settle_file(path: Path, fsync: Fsync, stopped: Callable[[], bool]) -> tuple[int, str]:
    """Size and SHA-256 of a regular file, after its bytes are on the disk. Links are refused.

    Cancelled when `stopped` says so between two chunks.
    """
    digest = hashlib.sha256()
    with open(os.open(path, _OPEN), "rb", buffering=0) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise VerifyFailed("an output is not a regular file", stage="publish", file=path.name)
        fsync(file.fileno())
        while chunk := file.read(HASH_CHUNK_BYTES):
            if stopped():
                raise Cancelled("cancelled while publishing", stage="publish")
            digest.update(chunk)
    return facts.st_size, digest.hexdigest()


def fsync_folder(path: Path, fsync: Fsync) -> None:
    """Makes the entries of a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Deletes a file or a folder with all in it, if it is there. What resists is logged: a sweep comes by again."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        # someone else was quicker
        return
    except OSError:
        logger.warning("%s can't be removed", path, exc_info=True)


def remove_empty(folder: Path) -> None:
    """Deletes a folder that has nothing in it."""
    try:
        folder.rmdir()
    except OSError:
        # something is in it, or it is gone
        return


def check_room(folder: Path, min_free_bytes: int | None) -> None:
    """OSError(ENOSPC) when the disk has less free; None: less than 1 % of it, or 1 GiB where that is less."""
    facts = os.statvfs(folder)
    floor = (
        min(facts.f_blocks * facts.f_frsize // 100, DEFAULT_FLOOR_BYTES) if min_free_bytes is None else min_free_bytes
    )
    if facts.f_bavail * facts.f_frsize < floor:
        raise OSError(errno.ENOSPC, f"less than {floor} bytes are free")


@contextmanager
def publishing() -> Iterator[None]:
    """Turns what the file system says while an output is published into an error with a code."""
    try:
        yield
    except OSError as error:
        raise _publish_error(error) from error


def _publish_error(error: OSError) -> PipelineError:
    reason = cause(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no room on the disk: {reason}", stage="publish")
    if error.errno == errno.EFBIG:
        return LimitExceeded("limit_output", f"an output is too large for the disk: {reason}", stage="publish")
    if error.errno in (errno.ELOOP, errno.ENOENT):
        return VerifyFailed(f"an output is not where it was written: {reason}", stage="publish")
    return OutputFailed(f"publishing failed: {reason}", stage="publish", errno=error.errno)
