"""A child's log: lines of bounded length, cleaned and stamped, in a file of bounded size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from transcoder.children.repeats import Repeats

CHUNK_BYTES = 64 * 1024
_FLOOD_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end. `cut`: it was longer, and what follows is lost."""

    content: bytes
    cut: bool = False


class LineSplitter:
    """Makes lines of chunks. A longer line than `max_line_bytes` is given as soon as it is, and its rest skipped."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._content = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> Iterator[Line]:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield from self._add(part)
            if not self._skipping:
                yield self._take()
            self._skipping = False
        yield from self._add(rest)

    def finish(self) -> Iterator[Line]:
        """The last line, when it has no end."""
        if self._content:
            yield self._take()

    def _add(self, part: bytes) -> Iterator[Line]:
        if self._skipping:
            return
        room = self._max_line_bytes - len(self._content)
        self._content += part[:room]
        if len(part) > room:
            self._skipping = True
            yield self._take(cut=True)

    def _take(self, *, cut: bool = False) -> Line:
        line = Line(bytes(self._content), cut)
        self._content.clear()
        return line


async def read_lines(reader: asyncio.StreamReader, max_line_bytes: int) -> AsyncIterator[list[Line]]:
    """Lines until the end of `reader`, as they come together. A writer that floods has to wait."""
    splitter = LineSplitter(max_line_bytes)
    while chunk := await reader.read(CHUNK_BYTES):
        yield list(splitter.feed(chunk))
        if len(chunk) == CHUNK_BYTES:
            await asyncio.sleep(_FLOOD_PAUSE_SECONDS)
    yield list(splitter.finish())


def printable(line: Line) -> str:
    """The text of a line for people and terminals: no control or format characters, tabs as spaces."""
    text = line.content.decode("utf-8", "replace").replace("\t", " ")
    if not text.isprintable():
        text = "".join(character for character in text if character.isprintable())
    return f"{text.rstrip()} …" if line.cut else text.rstrip()


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log; `time` is when it was read."""

    time: datetime
    text: str

    def __str__(self) -> str:
        return f"{stamp(self.time)} {self.text}"


def stamp(time: datetime) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JobLog:
    """Appends to the log at `path` (None: nowhere) and tells each line to `on_line`, up to `max_bytes` of text in all.

    What comes after that is read and dropped; messages that come again and again are counted. A log that can't be
    written does not stop the work: it is told once.
    """

    def __init__(
        self, path: Path | None, on_line: Callable[[LogLine], None], *, max_bytes: int, max_line_bytes: int
    ) -> None:
        self._path, self._on_line = path, on_line
        self._room_bytes = max_bytes
        self._max_line_bytes = max_line_bytes
        self._repeats = Repeats()

    async def copy(self, reader: asyncio.StreamReader) -> None:
        """Takes all lines of `reader`."""
        async for lines in read_lines(reader, self._max_line_bytes):
            await self._take(filter(self._repeats.is_new, filter(None, map(printable, lines))))
        await self._take(self._repeats.told())

    async def _take(self, texts: Iterable[str]) -> None:
        taken = list(self._fitting(texts))
        for line in taken:
            self._on_line(line)
        if self._path is not None and taken:
            await self._append(self._path, "".join(f"{line}\n" for line in taken))

    def _fitting(self, texts: Iterable[str]) -> Iterator[LogLine]:
        for text in texts:
            if self._room_bytes <= 0:
                return
            self._room_bytes -= len(text.encode()) + 1
            yield LogLine(datetime.now(UTC), text)
            if self._room_bytes <= 0:
                yield LogLine(datetime.now(UTC), "the log is full; later messages are dropped")

    async def _append(self, path: Path, text: str) -> None:
        try:
            await asyncio.to_thread(_append, path, text)
        except OSError as error:
            self._path = None
            self._on_line(LogLine(datetime.now(UTC), f"the log can't be written: {error.strerror}"))


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
