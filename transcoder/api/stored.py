"""Published files as answers: of the data folder, or of a bucket through which they are streamed."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from starlette.datastructures import MutableHeaders
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from transcoder.api.problems import NotFound
from transcoder.api.ranges import Ranges
from transcoder.depot import Place, StoredObject
from transcoder.jobs import Job, OutputFile
from transcoder.service import Service

CHUNK_BYTES = 256 * 1024

_PLAYLISTS = (".m3u8", ".mpd")
"""Name others beside them, which no link but their own leads to."""


class Stored(Protocol):
    """`modified`: seconds since 1970."""

    modified: float

    async def response(
        self, headers: Mapping[str, str], media_type: str, ranges: Ranges | None, *, head: bool = False
    ) -> Response:
        """The file or `ranges` of it. NotFound, StorageUnavailable."""

    async def link(self, seconds: int) -> str | None:
        """Where else everyone can have it for so long; None for what only the service has."""


async def stored_file(service: Service, job: Job, file: OutputFile) -> Stored:
    """NotFound when it was deleted since the job was read."""
    stored = await service.storage.depot.output(Place(job.id, job.published_attempt), file)
    if not isinstance(stored, Path):
        assert job.finished_at is not None
        return _InBucket(stored, file, job.finished_at.timestamp())
    try:
        facts = await asyncio.to_thread(stored.stat)
    except FileNotFoundError:
        raise _gone(file) from None
    return _InFolder(stored, facts, facts.st_mtime)


def _gone(file: OutputFile) -> NotFound:
    return NotFound(f"the file {file.path} is gone")


class OutputFileResponse(FileResponse):
    """A published file. Its ranges were checked before, and Starlette only has to send them."""

    chunk_size = CHUNK_BYTES

    def __init__(
        self, path: Path, headers: Mapping[str, str], media_type: str, facts: os.stat_result, ranges: Ranges | None
    ) -> None:
        super().__init__(path, headers=headers, media_type=media_type, stat_result=facts)
        self._ranges = ranges

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = MutableHeaders(raw=list(scope["headers"]))
        del headers["range"], headers["if-range"]
        if self._ranges:
            headers["range"] = "bytes=" + ",".join(f"{first}-{last}" for first, last in self._ranges)
        await super().__call__({**scope, "headers": headers.raw}, receive, send)


@dataclass
class _InFolder:
    path: Path
    facts: os.stat_result
    modified: float

    async def response(
        self, headers: Mapping[str, str], media_type: str, ranges: Ranges | None, *, head: bool = False
    ) -> Response:
        return OutputFileResponse(self.path, headers, media_type, self.facts, ranges)

    async def link(self, seconds: int) -> None:
        return None


@dataclass
class _InBucket:
    stored: StoredObject
    file: OutputFile
    modified: float

    async def link(self, seconds: int) -> str | None:
        return None if self.file.path.endswith(_PLAYLISTS) else await self.stored.link(seconds)

    async def response(
        self, headers: Mapping[str, str], media_type: str, ranges: Ranges | None, *, head: bool = False
    ) -> Response:
        size = self.file.size
        named = {**headers, "accept-ranges": "bytes", "content-length": str(size)}
        if head:
            return Response(headers=named, media_type=media_type)
        if not ranges:
            return StreamingResponse(await self._open(0, size - 1), headers=named, media_type=media_type)
        if len(ranges) > 1:
            return await self._parts(named, media_type, ranges)
        ((first, last),) = ranges
        named |= {"content-length": str(last - first + 1), "content-range": f"bytes {first}-{last}/{size}"}
        return StreamingResponse(await self._open(first, last), 206, headers=named, media_type=media_type)

    async def _open(self, first: int, last: int) -> AsyncIterator[bytes]:
        try:
            return await self.stored.open(first, last)
        except FileNotFoundError:
            raise _gone(self.file) from None

    async def _parts(self, headers: dict[str, str], media_type: str, ranges: Ranges) -> Response:
        """RFC 9110, section 14.6."""
        boundary = secrets.token_hex(13)
        begin, size = f"--{boundary}\r\nContent-Type: {media_type}\r\n", self.file.size
        heads = [f"{begin}Content-Range: bytes {first}-{last}/{size}\r\n\r\n" for first, last in ranges]
        end = f"--{boundary}--"
        total = sum(last - first + 1 for first, last in ranges) + sum(map(len, heads)) + 2 * len(heads) + len(end)
        begun = await self._open(*ranges[0])

        async def content() -> AsyncIterator[bytes]:
            for number, (head, (first, last)) in enumerate(zip(heads, ranges, strict=True)):
                yield head.encode()
                async for chunk in begun if number == 0 else await self._open(first, last):
                    yield chunk
                yield b"\r\n"
            yield end.encode()

        kind = f"multipart/byteranges; boundary={boundary}"
        return StreamingResponse(content(), 206, headers={**headers, "content-length": str(total)}, media_type=kind)
