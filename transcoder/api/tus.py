"""Resumable uploads: the protocol tus 1.0 (https://tus.io/protocols/resumable-upload).

Core, creation, creation-with-upload, termination, expiration, checksum. The id of an upload that is not whole yet is
the id that it has afterwards.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Coroutine
from email.utils import format_datetime
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from transcoder.api.bodies import body_chunks
from transcoder.api.context import ServiceOf, TelemetryOf, TenantOf
from transcoder.api.problems import responses, service_problem
from transcoder.errors import ServiceError, UploadNotFound
from transcoder.service import Service
from transcoder.telemetry import Telemetry
from transcoder.uploads.partials import PartialUpload
from transcoder.uploads.pieces import Checksum
from transcoder.uploads.resumable import finished

VERSION = "1.0.0"
EXTENSIONS = "creation,creation-with-upload,termination,expiration,checksum"
CHECKSUMS = ("sha1", "sha256")
PIECE_TYPE = "application/offset+octet-stream"
MAX_DETAILS_CHARACTERS = 8192

_NUMBER = re.compile(r"[0-9]{1,18}")
_KEY = re.compile(r"[\x21-\x2b\x2d-\x7e]+")


class InvalidHeader(ServiceError):
    code = "invalid_header"
    http_status = 400


class OtherVersion(ServiceError):
    code = "tus_version"
    http_status = 412
    http_headers = {"Tus-Version": VERSION}


class OtherType(ServiceError):
    code = "unsupported_media_type"
    http_status = 415


class TusRoute(APIRoute):
    """Says on every answer, refusals included, which version of the protocol it is in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def told(request: Request) -> Response:
            try:
                response = await handle(request)
            except ServiceError as error:
                response = await service_problem(request, error)
            response.headers["tus-resumable"] = VERSION
            return response

        return told


def _same_version(request: Request) -> None:
    if request.headers.get("tus-resumable") != VERSION:
        raise OtherVersion(f"this is tus {VERSION}: the header Tus-Resumable says so in every request")


def _header(name: str, description: str, *, required: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": description,
        "schema": {"type": "string"},
    }


_PIECE = {"requestBody": {"content": {PIECE_TYPE: {"schema": {"type": "string", "format": "binary"}}}}}
_VERSIONED = _header("Tus-Resumable", VERSION, required=True)
_CHECKSUM = _header("Upload-Checksum", "sha1 or sha256, a space, and the body's digest in base64")
_OFFSET = _header("Upload-Offset", "where the body goes on", required=True)
_460: dict[int | str, dict[str, Any]] = {460: {**responses(409)[409], "description": "Checksum mismatch"}}

router = APIRouter(prefix="/v1/tus", tags=["uploads"], route_class=TusRoute)
versioned = [Depends(_same_version)]


@router.options("/{upload_id}", include_in_schema=False)
@router.options("", status_code=204, response_class=Response, summary="What this tus server can do")
async def describe(service: ServiceOf) -> Response:
    """The version, the extensions and the largest upload."""
    headers = {
        "tus-version": VERSION,
        "tus-extension": EXTENSIONS,
        "tus-max-size": str(service.settings.max_upload_bytes),
        "tus-checksum-algorithm": ",".join(CHECKSUMS),
    }
    return Response(status_code=204, headers=headers)


@router.post(
    "",
    status_code=201,
    response_class=Response,
    dependencies=versioned,
    responses={**responses(400, 408, 412, 413, 415, 429, 507), **_460},
    openapi_extra={
        **_PIECE,
        "parameters": [
            _VERSIONED,
            _header("Upload-Length", "bytes of the whole upload", required=True),
            _header("Upload-Metadata", "pairs of a key and a value in base64; filename is the upload's name"),
            _CHECKSUM,
        ],
    },
    summary="Begin a resumable upload",
)
async def create(request: Request, service: ServiceOf, telemetry: TelemetryOf, tenant: TenantOf) -> Response:
    """`Location` is where it goes on. A body of the type application/offset+octet-stream is its first piece."""
    size = _number(request, "upload-length")
    details = request.headers.get("upload-metadata", "")
    checksum = _checksum(request)
    name = name_in(details)
    piece = request.headers.get("content-type") == PIECE_TYPE
    made = await service.resumable.create(name, details, size, tenant)
    if piece and size:
        try:
            await _append(request, service, made.id, tenant, 0, checksum)
        except (ServiceError, ClientDisconnect):
            # nobody was told of it
            await service.resumable.terminate(made.id, tenant)
            raise
    return await _progress(201, service, telemetry, made.id, tenant, {"location": f"/v1/tus/{made.id}"})


@router.head(
    "/{upload_id}",
    response_class=Response,
    dependencies=versioned,
    responses={404: {"description": "Not Found"}, 412: {"description": "Precondition Failed"}},
    openapi_extra={"parameters": [_VERSIONED]},
    summary="How far it got",
)
async def look(service: ServiceOf, tenant: TenantOf, upload_id: str) -> Response:
    """`Upload-Offset`: bytes that are safe."""
    partial = await _state(service, upload_id, tenant)
    details = partial.details or f"filename {base64.b64encode(partial.name.encode()).decode()}"
    headers = {"upload-length": str(partial.size), "upload-metadata": details}
    return Response(status_code=200, headers=headers | _told(partial))


@router.patch(
    "/{upload_id}",
    status_code=204,
    response_class=Response,
    dependencies=versioned,
    responses={**responses(400, 404, 408, 409, 412, 413, 415, 423, 507), **_460},
    openapi_extra={**_PIECE, "parameters": [_VERSIONED, _OFFSET, _CHECKSUM]},
    summary="Go on",
)
async def append(
    request: Request, service: ServiceOf, telemetry: TelemetryOf, tenant: TenantOf, upload_id: str
) -> Response:
    """What came of the body is kept when the connection breaks, unless it has a checksum."""
    if request.headers.get("content-type") != PIECE_TYPE:
        raise OtherType(f"a piece has the type {PIECE_TYPE}")
    offset = _number(request, "upload-offset")
    await _append(request, service, upload_id, tenant, offset, _checksum(request))
    return await _progress(204, service, telemetry, upload_id, tenant, {})


@router.delete(
    "/{upload_id}",
    status_code=204,
    response_class=Response,
    dependencies=versioned,
    responses=responses(404, 409, 412, 423),
    openapi_extra={"parameters": [_VERSIONED]},
    summary="Give it up",
)
async def terminate(service: ServiceOf, tenant: TenantOf, upload_id: str) -> Response:
    """Also of a whole one, unless a job needs it (409)."""
    try:
        await service.resumable.terminate(upload_id, tenant)
    except UploadNotFound:
        await service.delete_upload(upload_id, tenant)
    return Response(status_code=204)


@router.post("/{upload_id}", include_in_schema=False, dependencies=versioned)
async def overridden(
    request: Request, service: ServiceOf, telemetry: TelemetryOf, tenant: TenantOf, upload_id: str
) -> Response:
    """For clients whose way to the service has no other methods: X-HTTP-Method-Override."""
    method = request.headers.get("x-http-method-override", "").upper()
    if method == "PATCH":
        return await append(request, service, telemetry, tenant, upload_id)
    if method == "DELETE":
        return await terminate(service, tenant, upload_id)
    if method == "HEAD":
        return await look(service, tenant, upload_id)
    raise HTTPException(405, headers={"Allow": "OPTIONS, HEAD, PATCH, DELETE"})


async def _append(
    request: Request, service: Service, upload_id: str, tenant: str, offset: int, checksum: Checksum | None
) -> None:
    async with service.resumable.appending(upload_id, tenant, offset, checksum) as piece:
        room = piece.partial.size - offset
        async for chunk in body_chunks(request, max_bytes=room, idle_seconds=service.settings.upload_idle_seconds):
            await piece.write(chunk)


async def _state(service: Service, upload_id: str, tenant: str) -> PartialUpload:
    try:
        return await service.resumable.get(upload_id, tenant)
    except UploadNotFound:
        return finished(await service.get_upload(upload_id, tenant), tenant)


async def _progress(
    status: int, service: Service, telemetry: Telemetry, upload_id: str, tenant: str, headers: dict[str, str]
) -> Response:
    partial = await _state(service, upload_id, tenant)
    if partial.offset == partial.size:
        telemetry.upload_stored(partial.size)
        headers["content-location"] = f"/v1/uploads/{partial.id}"
    return Response(status_code=status, headers=headers | _told(partial))


def _told(partial: PartialUpload) -> dict[str, str]:
    headers = {"upload-offset": str(partial.offset), "cache-control": "no-store"}
    if partial.offset < partial.size:
        headers["upload-expires"] = format_datetime(partial.expires_at, usegmt=True)
    return headers


def _number(request: Request, name: str) -> int:
    value = request.headers.get(name, "")
    if not _NUMBER.fullmatch(value):
        raise InvalidHeader(f"the header {name.title()} is a number of bytes", header=name)
    return int(value)


def name_in(details: str) -> str:
    """The file's name in Upload-Metadata; empty without one. InvalidHeader when that is malformed."""
    if len(details) > MAX_DETAILS_CHARACTERS:
        raise InvalidHeader(f"Upload-Metadata has at most {MAX_DETAILS_CHARACTERS} characters")
    found: dict[str, bytes] = {}
    for pair in details.split(",") if details else ():
        key, _, value = pair.strip(" ").partition(" ")
        if not _KEY.fullmatch(key) or key in found:
            raise InvalidHeader("Upload-Metadata has different keys, each with a value in base64")
        found[key] = _base64(value)
    return (found.get("filename") or found.get("name") or b"").decode("utf-8", "replace")


def _checksum(request: Request) -> Checksum | None:
    header = request.headers.get("upload-checksum")
    if header is None:
        return None
    algorithm, _, value = header.partition(" ")
    if algorithm not in CHECKSUMS:
        raise InvalidHeader(f"Upload-Checksum is one of {', '.join(CHECKSUMS)}")
    digest = _base64(value)
    if len(digest) != hashlib.new(algorithm).digest_size:
        raise InvalidHeader("Upload-Checksum has a digest of another length")
    return Checksum(algorithm, digest)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidHeader("a value is not base64") from None
