"""A transcode in one request: the file goes in as the body, and the result comes out as the answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import PurePath
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response

from pipelines.spec import FileJob
from transcoder.api.bodies import body_chunks, validated
from transcoder.api.context import PrincipalOf, ServiceOf, TelemetryOf
from transcoder.api.problems import PIPELINE_STATUS, problem, responses
from transcoder.api.ranges import Validators
from transcoder.api.stored import stored_file
from transcoder.auth.principal import Principal
from transcoder.auth.scopes import Scope
from transcoder.errors import Conflict, JobNotFound, ServiceError, ServiceUnavailable, UploadNotFound
from transcoder.jobs import Job, JobStatus, OutputFile, Upload
from transcoder.names import attachment
from transcoder.service import Service

router = APIRouter(prefix="/v1/transcode", tags=["jobs"])

T = TypeVar("T")

_ASYNC = re.compile(r"(^|[,;\s])respond-async($|[,;\s])", re.IGNORECASE)
_WAIT = re.compile(r"(?:^|[,;\s])wait=([0-9]{1,6})($|[,;\s])", re.IGNORECASE)

_DOCS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The finished file, of its own type. `Location` is the job that made it",
        "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
    },
    303: {"description": "It takes longer, or there are several files: `Location` is the job"},
    **responses(400, 408, 413, 422, 429, 500, 503, 504, 507),
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class NotCompleted(ServiceError):
    """The job ended without a result. Facts: the job."""

    def __init__(self, job: Job) -> None:
        error = job.error
        message = f"job {job.id} was {job.status}" if error is None else error.message
        super().__init__(message, job=job.id)
        self.job_code = error.code if error is not None else str(job.status)


@router.put(
    "/{name:anyname}",
    response_class=Response,
    responses=_DOCS,
    openapi_extra=_BODY,
    summary="Transcode in one request (curl -T)",
)
async def transcode(
    request: Request,
    service: ServiceOf,
    telemetry: TelemetryOf,
    principal: PrincipalOf,
    name: str,
    preset: Annotated[str, Query(max_length=100, description="a preset's name")],
    queue: Annotated[str, Query(max_length=63)] = "default",
    prefer: Annotated[
        str | None,
        Header(description="`respond-async`: 303 to the job at once, or with `wait=10` after so many seconds"),
    ] = None,
) -> Response:
    """Waits its turn like every job. When the client goes away before the answer, the job is cancelled.

    The job stays afterwards, as any other does, and its result can be fetched again.
    """
    principal.require(Scope.READ)
    principal.require_queue(queue)
    spec = {"input": {"upload": ""}, "preset": preset, "queue": queue, "metadata": {"file": name[-255:]}}
    validated(FileJob, spec)
    upload = await _received(request, service, principal, name)
    telemetry.upload_stored(upload.size)
    spec["input"] = {"upload": upload.id}
    async with _dropped_unless_queued(service, upload, principal.tenant):
        job, _ = await service.submit(validated(FileJob, spec), tenant=principal.tenant)
    try:
        job = await _while_connected(request, _ended(service, job.id, principal.tenant, _patience_seconds(prefer)))
    except ClientDisconnect:
        await _abandon(service, job.id, upload, principal.tenant)
        raise
    return await _answer(service, job, upload, principal.tenant, by_preference=prefer is not None)


async def _received(request: Request, service: Service, principal: Principal, name: str) -> Upload:
    settings = service.settings
    chunks = body_chunks(request, max_bytes=settings.max_upload_bytes, idle_seconds=settings.upload_idle_seconds)
    async with service.receive(name, principal.tenant) as sink:
        async for chunk in chunks:
            await sink.write(chunk)
    return sink.upload


@asynccontextmanager
async def _dropped_unless_queued(service: Service, upload: Upload, tenant: str) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        # nobody was told of it
        await service.delete_upload(upload.id, tenant)
        raise


def _patience_seconds(prefer: str | None) -> float | None:
    """How long the client waits for the file itself; None: to the end."""
    if prefer is None or _ASYNC.search(prefer) is None:
        return None
    told = _WAIT.search(prefer)
    return float(told[1]) if told else 0.0


async def _ended(service: Service, job_id: str, tenant: str, patience_seconds: float | None) -> Job:
    """The job when it has ended, or as it is when patience has."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_seconds), service.events.subscribe(job_id) as events:
            job = await service.get(job_id, tenant)
            async for event in events:
                if job.status.ended or (event.kind == "status" and JobStatus(event.data["status"]).ended):
                    break
    return await service.get(job_id, tenant)


async def _while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`; ClientDisconnect as soon as nobody waits for it, with `work` ended."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait({working, leaving})


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _abandon(service: Service, job_id: str, upload: Upload, tenant: str) -> None:
    # it may have ended in this moment, or be deleted by someone else
    with suppress(Conflict, JobNotFound):
        await service.cancel(job_id, tenant)
    await _delete_input(service, upload, tenant)


async def _delete_input(service: Service, upload: Upload, tenant: str) -> None:
    with suppress(Conflict, UploadNotFound):
        await service.delete_upload(upload.id, tenant)


async def _answer(service: Service, job: Job, upload: Upload, tenant: str, *, by_preference: bool) -> Response:
    location = {"location": f"/v1/jobs/{job.id}"}
    if not job.status.ended:
        if not by_preference:
            raise ServiceUnavailable("the service is stopping; the job goes on when it is back", job=job.id)
        return RedirectResponse(location["location"], 303, {"preference-applied": "respond-async"})
    if job.status is not JobStatus.COMPLETED:
        failed = NotCompleted(job)
        status = PIPELINE_STATUS.get(failed.job_code, 422)
        return problem(status, failed.job_code, failed.message, facts=failed.facts, headers=location)
    await _delete_input(service, upload, tenant)
    files = [file for output in job.outputs for file in output.files]
    if len(files) != 1:
        return RedirectResponse(location["location"], 303)
    return await _file(service, job, files[0], upload.name, location)


async def _file(service: Service, job: Job, file: OutputFile, name: str, location: dict[str, str]) -> Response:
    stored = await stored_file(service, job, file)
    headers = location | {
        "etag": Validators(f'"{file.sha256}"', stored.modified).etag,
        "content-disposition": attachment(PurePath(name).stem + PurePath(file.path).suffix),
    }
    return await stored.response(headers, file.content_type, None)
