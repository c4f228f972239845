"""Requests that are answered once a low-latency stream has what they ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.live.parted import PART_NAME
from transcoder.errors import ServiceUnavailable
from transcoder.streams.edge import Edge, Wanted, edge_of
from transcoder.streams.files import open_published
from transcoder.streams.watching import Folder, Watching

MAX_TARGETS = 3
"""Target durations that a request waits for at most."""
LOOK_SECONDS = 1.0
"""Between two looks whether the stream still runs."""
MAX_PLAYLIST_BYTES = 1 << 22

Met = Callable[[Edge], bool]
Runs = Callable[[], Awaitable[bool]]


def may_wait(path: str, asked: Wanted | None) -> bool:
    """Whether a request may be one that is held: for a playlist's news, or for a part."""
    return asked is not None or path.rpartition("/")[2].startswith(PART_NAME)


class TooManyHeld(ServiceUnavailable):
    code = "too_many_held"
    http_headers = {"Retry-After": "1"}


class ReloadTimeout(ServiceUnavailable):
    """The stream did not make it in time: its source may be away."""

    code = "reload_timeout"
    http_headers = {"Retry-After": "1"}


@dataclass
class Holding:
    """`max_held`: requests that may wait at once."""

    max_held: int
    watching: Watching = field(default_factory=Watching)
    held: int = 0

    async def reload(self, folder: Path, path: str, asked: Wanted, runs: Runs) -> None:
        """Returns once the playlist has what is asked for, or the stream has ended; at once where nobody can wait.

        ImpossibleReload, TooManyHeld, ReloadTimeout. `runs`: whether more can come.
        """
        edge = await _edge(folder, path)
        if edge is None or asked.is_in(edge):
            return
        asked.check(edge)
        await self._hold(folder, path, edge, asked.is_in, runs)

    async def part(self, folder: Path, path: str, runs: Runs) -> None:
        """Returns once the part is there that a playlist says will be next; at once for all other paths."""
        parent, _, name = path.rpartition("/")
        if not name.startswith(PART_NAME) or not parent:
            return
        top, _, track = parent.rpartition("/")
        playlist = f"{top}/{track}.m3u8" if top else f"{track}.m3u8"
        hint = f"{track}/{name}"
        edge = await _edge(folder, playlist)
        if edge is not None and edge.hint == hint:
            await self._hold(folder, playlist, edge, lambda now: now.hint != hint or now.ended, runs)

    async def _hold(self, folder: Path, path: str, edge: Edge, met: Met, runs: Runs) -> None:
        if self.held >= self.max_held:
            raise TooManyHeld(f"{self.max_held} requests wait already")
        playlist = folder / path
        self.held += 1
        try:
            async with self.watching.folder(playlist.parent, playlist.name) as watched:
                await _wait(watched, playlist.name, lambda: _edge(folder, path), edge.target_seconds, met, runs)
        finally:
            self.held -= 1


async def _wait(
    watched: Folder, name: str, read: Callable[[], Awaitable[Edge | None]], target_seconds: int, met: Met, runs: Runs
) -> None:
    loop = asyncio.get_running_loop()
    seconds = MAX_TARGETS * target_seconds
    deadline = loop.time() + seconds
    while True:
        # taken before the look, so that nothing falls in between
        news = watched.changed
        now = await watched.edge(name, read)
        if now is None or met(now):
            return
        left = deadline - loop.time()
        if left <= 0:
            raise ReloadTimeout(f"nothing new came for {seconds} s", seconds=seconds)
        try:
            await asyncio.wait_for(news.wait(), min(left, LOOK_SECONDS))
        except TimeoutError:
            if not await runs():
                return


async def _edge(folder: Path, path: str) -> Edge | None:
    """None where there is no such playlist, or one without parts."""
    text = await asyncio.to_thread(_read, folder, path)
    return None if text is None else edge_of(text)


def _read(folder: Path, path: str) -> str | None:
    fd = open_published(folder, path)
    if fd is None:
        return None
    with open(fd, "rb") as file:
        return file.read(MAX_PLAYLIST_BYTES).decode("utf-8", "replace")
