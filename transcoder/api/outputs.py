"""What a job wrote: its files, in whole or in ranges, and its log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import aiofiles
from fastapi import APIRouter, Query, Request
from starlette.datastructures import MutableHeaders
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from transcoder.api.context import ServiceOf, TenantOf
from transcoder.api.headers import shown_inline
from transcoder.api.live import live_output
from transcoder.api.problems import NotFound, responses
from transcoder.api.ranges import Ranges, Validators, satisfiable_ranges
from transcoder.content_types import content_type
from transcoder.jobs import Job, OutputFile
from transcoder.names import attachment

router = APIRouter(prefix="/v1/jobs", tags=["outputs"])

CHUNK_BYTES = 256 * 1024


class OutputFileResponse(FileResponse):
    """A published file. Its ranges were checked before, and Starlette only has to send them."""

    chunk_size = CHUNK_BYTES

    def __init__(
        self, path: Path, headers: dict[str, str], media_type: str, facts: os.stat_result, ranges: Ranges | None
    ) -> None:
        super().__init__(path, headers=headers, media_type=media_type, stat_result=facts)
        self._ranges = ranges

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = MutableHeaders(raw=list(scope["headers"]))
        del headers["range"], headers["if-range"]
        if self._ranges:
            headers["range"] = "bytes=" + ",".join(f"{first}-{last}" for first, last in self._ranges)
        await super().__call__({**scope, "headers": headers.raw}, receive, send)


_FILE_DOCS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file", "content": {"application/octet-stream": {}}},
    206: {"description": "The ranges that were asked for"},
    304: {"description": "Not modified since the ETag that was given"},
    **responses(404, 416),
}


@router.head("/{job_id}/outputs/{path:path}", include_in_schema=False)
@router.get(
    "/{job_id}/outputs/{path:path}",
    response_class=Response,
    responses=_FILE_DOCS,
    summary="One file of a completed job",
)
async def read_output(
    request: Request,
    service: ServiceOf,
    tenant: TenantOf,
    job_id: str,
    path: str,
    download: Annotated[bool, Query(description="ask the browser to save the file")] = False,
) -> Response:
    """Supports Range, If-Range, If-None-Match, If-Modified-Since and HEAD; the ETag is the file's SHA-256."""
    job = await service.get(job_id, tenant)
    if job.kind == "stream":
        return await live_output(request, service, job, path, download=download)
    file = listed(job, path)
    stored = service.storage.output_path(job.id, job.published_attempt, file.path)
    try:
        facts = await asyncio.to_thread(stored.stat)
    except FileNotFoundError:
        # deleted between the look at the job and now
        raise NotFound(f"the file {file.path} is gone") from None
    validators = Validators(f'"{file.sha256}"', facts.st_mtime)
    headers = {
        "etag": validators.etag,
        "last-modified": validators.last_modified,
        # the browser asks again, and is answered with 304
        "cache-control": "private, no-cache",
    }
    type_ = file.content_type or content_type(file.path)
    if download or not shown_inline(type_):
        headers["content-disposition"] = attachment(Path(file.path).name)
    if validators.match(request.headers.get("if-none-match"), request.headers.get("if-modified-since")):
        return Response(status_code=304, headers=headers)
    ranges = None
    if request.method == "GET" and validators.allow_range(request.headers.get("if-range")):
        ranges = satisfiable_ranges(request.headers.get("range"), file.size)
    return OutputFileResponse(stored, headers, type_, facts, ranges)


def listed(job: Job, path: str) -> OutputFile:
    """Only what the job lists exists, so no path leads anywhere else."""
    for output in job.outputs:
        for file in output.files:
            if file.path == path:
                return file
    raise NotFound(f"the job has no file of that name: it is {job.status}")


@router.get(
    "/{job_id}/log",
    response_class=Response,
    responses={200: {"description": "The log so far", "content": {"text/plain": {}}}, **responses(404)},
    summary="The log of a job's attempts",
)
async def read_log(service: ServiceOf, tenant: TenantOf, job_id: str) -> Response:
    """Lines that the attempts wrote so far; empty before the first one."""
    job = await service.get(job_id, tenant)
    path = service.storage.log_path(job.id)
    size = await asyncio.to_thread(_size, path)
    headers = {"content-length": str(size), "cache-control": "no-store"}
    return StreamingResponse(_read(path, size), headers=headers, media_type="text/plain; charset=utf-8")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


async def _read(path: Path, size: int) -> AsyncIterator[bytes]:
    """The first `size` bytes: the log grows while it is read, and the length is promised."""
    if size == 0:
        return
    async with aiofiles.open(path, "rb") as file:
        left = size
        while left and (chunk := await file.read(min(left, CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk
