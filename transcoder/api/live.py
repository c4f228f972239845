"""Files of streams, which come and go while they are read."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from fastapi import Request
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from transcoder.api.headers import shown_inline
from transcoder.api.problems import NotFound
from transcoder.api.ranges import Validators
from transcoder.content_types import content_type
from transcoder.jobs import Job
from transcoder.names import attachment
from transcoder.service import Service
from transcoder.streams.files import is_playlist

MAX_WHOLE_BYTES = 1 << 20
SEGMENT_SECONDS = 3600
"""Segments never change: whoever has one may keep it this long."""


class DescriptorResponse(FileResponse):
    """A file that is open already: it may be replaced or deleted meanwhile."""

    def __init__(self, fd: int, facts: os.stat_result, headers: dict[str, str], media_type: str) -> None:
        super().__init__(f"/proc/self/fd/{fd}", headers=headers, media_type=media_type, stat_result=facts)
        self._fd = fd

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._fd)


async def live_output(request: Request, service: Service, job: Job, path: str, *, download: bool) -> Response:
    """Playlists are never kept by caches, segments are."""
    fd = await asyncio.to_thread(service.streams.open, job, path)
    if fd is None:
        raise NotFound(f"the stream has no file of that name: it is {job.state or job.status}")
    closing = True
    try:
        facts = os.fstat(fd)
        type_ = content_type(path)
        validators = Validators(f'"{facts.st_mtime_ns:x}-{facts.st_size:x}"', facts.st_mtime)
        fixed = not is_playlist(path)
        headers = {
            "etag": validators.etag,
            "last-modified": validators.last_modified,
            "cache-control": f"private, max-age={SEGMENT_SECONDS}, immutable" if fixed else "private, no-cache",
        }
        if download or not shown_inline(type_):
            headers["content-disposition"] = attachment(Path(path).name)
        if validators.match(request.headers.get("if-none-match"), request.headers.get("if-modified-since")):
            return Response(status_code=304, headers=headers)
        if not fixed and facts.st_size <= MAX_WHOLE_BYTES:
            return Response(os.pread(fd, facts.st_size, 0), headers=headers, media_type=type_)
        closing = False
        return DescriptorResponse(fd, facts, headers, type_)
    finally:
        if closing:
            os.close(fd)
