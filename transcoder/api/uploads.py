"""Uploads: bytes in, an id out that jobs can name as their input."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial

from fastapi import APIRouter, Request, Response
from starlette.convertors import PathConvertor, register_url_convertor

from transcoder.api.bodies import body_chunks
from transcoder.api.context import ServiceOf, TelemetryOf, TenantOf
from transcoder.api.forms import MAX_FIELD_BYTES, Form, boundary_of, receive_form
from transcoder.api.problems import Fault, InvalidRequest, MalformedBody, responses
from transcoder.errors import Conflict
from transcoder.jobs import Upload
from transcoder.service import Service
from transcoder.telemetry import Telemetry

router = APIRouter(prefix="/v1/uploads", tags=["uploads"])


class AnyNameConvertor(PathConvertor):
    """Starlette's `path` stops at a line end."""

    regex = "(?s:.*)"


register_url_convertor("anyname", AnyNameConvertor())

# what boundaries and part headers of a form may add to its file and fields
_FORM_OVERHEAD_BYTES = MAX_FIELD_BYTES + 64 * 1024

_RAW_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_FORM_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                    "additionalProperties": False,
                }
            }
        },
    }
}


@router.put(
    "/{name:anyname}",
    status_code=201,
    openapi_extra=_RAW_BODY,
    responses=responses(408, 413, 507),
    summary="Upload a file as the raw body (curl -T)",
)
async def put_upload(
    request: Request, response: Response, service: ServiceOf, telemetry: TelemetryOf, tenant: TenantOf, name: str
) -> Upload:
    """`name` is kept for people to read and may have any characters. Each call makes a new upload.

    The body may be chunked. It is stored as it comes; a connection that breaks leaves nothing.
    """
    settings = service.settings
    chunks = body_chunks(request, max_bytes=settings.max_upload_bytes, idle_seconds=settings.upload_idle_seconds)
    async with service.receive(name, tenant) as sink:
        async for chunk in chunks:
            await sink.write(chunk)
    return _stored(response, telemetry, sink.upload)


@router.post(
    "",
    status_code=201,
    openapi_extra=_FORM_BODY,
    responses=responses(400, 408, 413, 422, 507),
    summary="Upload a file as a form (curl -F file=@…)",
)
async def post_upload(
    request: Request, response: Response, service: ServiceOf, telemetry: TelemetryOf, tenant: TenantOf
) -> Upload:
    """The file is in the form's field `file`."""
    boundary = boundary_of(request.headers.get("content-type", ""))
    if boundary is None:
        raise MalformedBody("the body is a form: multipart/form-data with the field file (or PUT the bytes)")
    async with received_form(request, boundary, service, tenant) as form:
        unknown = [Fault(pointer=f"/{name}", detail="there is no such field") for name in form.fields]
        if unknown or form.file is None:
            missing = Fault(pointer="/file", detail="Field required")
            raise InvalidRequest(unknown or [missing])
        return _stored(response, telemetry, form.file)


@router.get("/{upload_id}", responses=responses(404), summary="One upload")
async def read_upload(service: ServiceOf, tenant: TenantOf, upload_id: str) -> Upload:
    """Its name, size and SHA-256. Uploads that no job uses are deleted after a while."""
    return await service.get_upload(upload_id, tenant)


@router.delete("/{upload_id}", status_code=204, responses=responses(404, 409), summary="Delete an upload")
async def delete_upload(service: ServiceOf, tenant: TenantOf, upload_id: str) -> None:
    """409 while a job that is queued or running uses it."""
    await service.delete_upload(upload_id, tenant)


def _stored(response: Response, telemetry: Telemetry, upload: Upload) -> Upload:
    telemetry.upload_stored(upload.size)
    response.headers["location"] = f"/v1/uploads/{upload.id}"
    return upload


@asynccontextmanager
async def received_form(request: Request, boundary: bytes, service: Service, tenant: str) -> AsyncGenerator[Form, None]:
    """The request's form; its file is removed again when what is done with the form raises."""
    settings = service.settings
    chunks = body_chunks(
        request,
        max_bytes=settings.max_upload_bytes + _FORM_OVERHEAD_BYTES,
        idle_seconds=settings.upload_idle_seconds,
    )
    form = await receive_form(chunks, boundary, partial(service.receive, tenant=tenant))
    try:
        yield form
    except BaseException:
        if form.file is not None:
            # a job that was just made may have it
            with suppress(Conflict):
                await service.delete_upload(form.file.id, tenant)
        raise
