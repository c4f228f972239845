"""News of playlists as they are replaced on the disk: the system tells, and where it can't they are looked at."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from asyncinotify import Inotify, Mask, Watch

from transcoder.streams.edge import Edge

LOOK_SECONDS = 0.2
"""Between two looks at what is waited for: a file system of another machine tells of no changes."""

logger = logging.getLogger(__name__)


@dataclass
class Folder:
    """A folder that someone watches, and the files in it that are waited for."""

    path: Path
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    watch: Watch | None = None
    looking: asyncio.Task[None] | None = None
    watchers: dict[str, int] = field(default_factory=dict)
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    reads: dict[str, asyncio.Future[Edge | None]] = field(default_factory=dict)

    async def edge(self, name: str, read: Callable[[], Awaitable[Edge | None]]) -> Edge | None:
        """What is read of a file: once for all who wait, until it changes."""
        task = self.reads.get(name)
        if task is None:
            task = self.reads[name] = asyncio.ensure_future(read())
        # one who leaves takes it from nobody
        return await asyncio.shield(task)

    def tell(self) -> None:
        """Wakes who waits now; who waits from now on waits for what comes next."""
        self.reads.clear()
        self.changed.set()
        self.changed = asyncio.Event()


class Watching:
    """One for all folders. Each is watched as long as someone wants it."""

    def __init__(self) -> None:
        self._folders: dict[Path, Folder] = {}
        self._inotify: Inotify | None = None
        self._reading: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def folder(self, path: Path, name: str) -> AsyncGenerator[Folder, None]:
        """The folder, which tells of changes of the file `name` in it."""
        folder = self._folders.get(path)
        if folder is None:
            folder = self._folders[path] = Folder(path)
            folder.watch = self._watch(path)
            folder.looking = asyncio.create_task(_keep_looking(folder))
        folder.watchers[name] = folder.watchers.get(name, 0) + 1
        try:
            yield folder
        finally:
            folder.watchers[name] -= 1
            if not folder.watchers[name]:
                del folder.watchers[name]
                folder.seen.pop(name, None)
            if not folder.watchers:
                del self._folders[path]
                self._leave(folder)

    def _watch(self, path: Path) -> Watch | None:
        try:
            if self._inotify is None:
                self._inotify = Inotify()
                self._reading = asyncio.create_task(self._read(self._inotify))
            return self._inotify.add_watch(path, Mask.MOVED_TO | Mask.DELETE_SELF | Mask.ONLYDIR)
        except OSError as error:
            logger.info("%s is looked at, as the system does not tell of changes: %s", path.name, error.strerror)
            return None

    def _leave(self, folder: Folder) -> None:
        if folder.looking is not None:
            folder.looking.cancel()
        if self._inotify is not None and folder.watch is not None:
            # the folder may be gone, and its watch with it
            with suppress(OSError, KeyError):
                self._inotify.rm_watch(folder.watch)
        if not self._folders and self._reading is not None and self._inotify is not None:
            # its number may be another descriptor's as soon as it is closed: the loop has to have let go of it by then
            inotify = self._inotify
            self._reading.add_done_callback(lambda _: inotify.close())
            self._reading.cancel()
            self._inotify = self._reading = None

    async def _read(self, inotify: Inotify) -> None:
        async for event in inotify:
            watch = event.watch
            folder = None if watch is None else self._folders.get(Path(watch.path))
            if folder is not None and (event.name is None or str(event.name) in folder.watchers):
                folder.tell()


async def _keep_looking(folder: Folder) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        found = await asyncio.to_thread(_looks, folder.path, tuple(folder.watchers))
        if any(folder.seen.get(name, facts) != facts for name, facts in found.items()):
            folder.tell()
        folder.seen.update((name, facts) for name, facts in found.items() if name in folder.watchers)


def _looks(folder: Path, names: tuple[str, ...]) -> Mapping[str, tuple[int, int]]:
    """When each file was changed, and which one it is; zeros for none."""
    found = {}
    for name in names:
        try:
            facts = folder.joinpath(name).stat()
        except OSError:
            found[name] = (0, 0)
        else:
            found[name] = (facts.st_mtime_ns, facts.st_ino)
    return found
