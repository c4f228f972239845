"""Memory limits by control group: one group for each child, where the kernel lets the service make them.

Both versions of the interface are known (Linux: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst). A
group limits what a process limit can't see: shared memory, page tables, the buffers that a driver takes on its behalf.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PREFIX = "transcoder-"
_MEMBERS = "cgroup.procs"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Files:
    """What a version of the interface calls its files."""

    version: int
    limit: str
    events: str


V1 = Files(1, "memory.limit_in_bytes", "memory.oom_control")
V2 = Files(2, "memory.max", "memory.events")


@dataclass(frozen=True)
class Group:
    """The group of one child."""

    path: Path
    files: Files

    @property
    def kills(self) -> int:
        """Processes of the group that the kernel ended for memory."""
        try:
            lines = (self.path / self.files.events).read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def join(path: Path) -> None:
    """Moves this process into a group. OSError when it may not."""
    (path / _MEMBERS).write_text("0")


@dataclass(frozen=True)
class Groups:
    """Where the service may make groups."""

    parent: Path
    files: Files
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def version(self) -> int:
        return self.files.version

    @contextmanager
    def limited(self, memory_bytes: int) -> Iterator[Group | None]:
        """A group with a limit, gone afterwards; None when it can't be made (the process limit stays)."""
        path = self.parent / f"{PREFIX}{os.getpid()}-{next(self._numbers)}"
        try:
            path.mkdir()
            (path / self.files.limit).write_text(str(memory_bytes))
        except OSError as error:
            logger.warning("no control group for a child: %s", error)
            _remove(path)
            yield None
            return
        try:
            yield Group(path, self.files)
        finally:
            _remove(path)

    def sweep(self) -> None:
        """Removes the groups of services that have died; those in use can't be removed."""
        for left in self.parent.glob(f"{PREFIX}*-*"):
            _remove(left)


def find_groups(root: Path = Path("/sys/fs/cgroup"), process: Path = Path("/proc/self")) -> Groups | None:
    """Where this process may make groups that limit memory; None where it may not."""
    for hierarchy in _hierarchies(process):
        for found in _candidates(root, *hierarchy):
            if _is_usable(found):
                found.sweep()
                return found
    return None


def _hierarchies(process: Path) -> Iterator[tuple[str, str]]:
    """(controllers, path) of each hierarchy that the process is in; version 2 has no controllers there."""
    try:
        lines = (process / "cgroup").read_text().splitlines()
    except OSError:
        return
    parts = [line.split(":", 2) for line in lines]
    for _, controllers, path in sorted(parts, key=lambda part: part[1] != ""):
        if controllers == "" or "memory" in controllers.split(","):
            yield controllers, path


def _candidates(root: Path, controllers: str, path: str) -> Iterator[Groups]:
    below = path.lstrip("/")
    if controllers:
        yield Groups(root / "memory" / below, V1)
        return
    for mount in (root, root / "unified"):
        group = mount / below
        if _hands_memory_down(group):
            yield Groups(group, V2)


def _hands_memory_down(group: Path) -> bool:
    """Whether groups below have a memory limit. Where nobody else is in the group, it is made so.

    Version 2 lets a group either hold processes or hand controllers down: the service moves into a group of its own.
    """
    try:
        if "memory" not in (group / "cgroup.controllers").read_text().split():
            return False
        if "memory" in (group / "cgroup.subtree_control").read_text().split():
            return True
        if set((group / _MEMBERS).read_text().split()) - {str(os.getpid())}:
            return False
        home = group / f"{PREFIX}service"
        home.mkdir(exist_ok=True)
        (home / _MEMBERS).write_text(str(os.getpid()))
        (group / "cgroup.subtree_control").write_text("+memory")
    except OSError:
        return False
    return True


def _is_usable(groups: Groups) -> bool:
    trial = groups.parent / f"{PREFIX}{os.getpid()}-trial"
    try:
        trial.mkdir()
    except OSError:
        return False
    usable = (trial / groups.files.limit).exists() and os.access(trial / _MEMBERS, os.W_OK)
    _remove(trial)
    return usable


def _remove(path: Path) -> None:
    # still in use, or never made
    with suppress(OSError):
        path.rmdir()
