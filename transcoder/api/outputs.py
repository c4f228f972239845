"""What a job wrote: its files, in whole or in ranges, and its log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse

from pipelines.live.outputs import FIRST_SNAPSHOT
from transcoder.api.context import ServiceOf, TenantOf
from transcoder.api.headers import shown_inline
from transcoder.api.held import WantedOf, unless_gone
from transcoder.api.live import live_output
from transcoder.api.problems import NotFound, responses
from transcoder.api.ranges import Validators, satisfiable_ranges
from transcoder.api.stored import stored_file
from transcoder.content_types import content_type
from transcoder.errors import ThumbnailNotFound
from transcoder.jobs import Job, OutputFile
from transcoder.names import attachment
from transcoder.service import Service
from transcoder.streams.edge import Wanted
from transcoder.streams.holding import may_wait

router = APIRouter(prefix="/v1/jobs", tags=["outputs"])

FILE_DOCS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file, of its own type", "content": {"*/*": {}}},
    206: {"description": "The ranges that were asked for"},
    307: {"description": "The file is at the store itself, where the service is set up so"},
    304: {"description": "Not modified since the ETag that was given"},
    **responses(400, 404, 416, 503),
}


@router.head("/{job_id}/outputs/{path:path}", include_in_schema=False)
@router.get(
    "/{job_id}/outputs/{path:path}",
    response_class=Response,
    responses=FILE_DOCS,
    summary="One file of a completed job",
)
async def read_output(
    request: Request,
    service: ServiceOf,
    tenant: TenantOf,
    job_id: str,
    path: str,
    asked: WantedOf,
    download: Annotated[bool, Query(description="ask the browser to save the file")] = False,
) -> Response:
    """Supports Range, If-Range, If-None-Match, If-Modified-Since and HEAD; the ETag is the file's SHA-256.

    `_HLS_msn` and `_HLS_part` are of low-latency streams: 400 `impossible_reload` where they make no sense, 503
    `reload_timeout` when three target durations have passed, `too_many_held` when too many requests wait.
    """
    return await sent_output(request, service, tenant, job_id, path, asked, download=download)


async def sent_output(
    request: Request, service: Service, tenant: str, job_id: str, path: str, asked: Wanted | None, *, download: bool
) -> Response:
    """The answer to a request for the file, whichever way it came."""
    job = await service.get_briefly(job_id, tenant)
    if job.kind == "stream":
        if may_wait(path, asked):
            await unless_gone(request, service.streams.wait_for(job, tenant, path, asked))
        return await live_output(request, service, job, path, download=download)
    file = listed(job, path)
    stored = await stored_file(service, job, file)
    validators = Validators(f'"{file.sha256}"', stored.modified)
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
    redirect_seconds = service.settings.bucket_redirect_seconds
    if redirect_seconds is not None and not download and (link := await stored.link(redirect_seconds)) is not None:
        return RedirectResponse(link, 307, {"cache-control": "no-store"})
    ranges = None
    if request.method == "GET" and validators.allow_range(request.headers.get("if-range")):
        ranges = satisfiable_ranges(request.headers.get("range"), file.size)
    return await stored.response(headers, type_, ranges, head=request.method == "HEAD")


@router.head("/{job_id}/thumbnail.jpg", include_in_schema=False)
@router.get(
    "/{job_id}/thumbnail.jpg",
    response_class=Response,
    responses={200: {"description": "The picture", "content": {"image/jpeg": {}}}, **responses(404)},
    summary="A small picture of a job",
)
async def read_thumbnail(request: Request, service: ServiceOf, tenant: TenantOf, job_id: str) -> Response:
    """A JPEG of at most 320 × 180 of what the job's files show, made when it is first asked for. Of a stream, the
    newest picture of its first output of type `snapshot`, as that makes it. 404 `thumbnail_not_found` before a file job
    has completed, and where there is nothing to see.
    """
    job = await service.get(job_id, tenant)
    if job.kind == "stream":
        return await _newest_snapshot(request, service, job)
    path = await service.thumbnails.path(job, tenant)
    facts = await asyncio.to_thread(path.stat)
    validators = Validators(f'"{job.id}-{job.published_attempt}-{facts.st_size}"', facts.st_mtime)
    headers = {"etag": validators.etag, "cache-control": "private, max-age=3600"}
    if validators.match(request.headers.get("if-none-match"), None):
        return Response(status_code=304, headers=headers)
    return FileResponse(path, headers=headers, media_type="image/jpeg", stat_result=facts)


async def _newest_snapshot(request: Request, service: Service, job: Job) -> Response:
    try:
        return await live_output(request, service, job, FIRST_SNAPSHOT, download=False)
    except NotFound:
        why = "there is a picture of a stream once an output of type snapshot has made one"
        raise ThumbnailNotFound(why) from None


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
    responses={200: {"description": "The log so far", "content": {"text/plain": {}}}, **responses(404, 503)},
    summary="The log of a job's attempts",
)
async def read_log(service: ServiceOf, tenant: TenantOf, job_id: str) -> Response:
    """Lines that the attempts wrote so far; empty before the first one."""
    job = await service.get(job_id, tenant)
    size, content = await service.storage.open_log(job.id)
    headers = {"content-length": str(size), "cache-control": "no-store"}
    return StreamingResponse(content, headers=headers, media_type="text/plain; charset=utf-8")
