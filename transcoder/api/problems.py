"""Errors as application/problem+json (RFC 9457), whatever raised them.

Every problem has `code`, a stable word that programs decide on. A failed validation lists its `errors`, each with a
JSON pointer into the body or the name of the parameter. Neither tracebacks nor folders of the server are told.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from pipelines.errors import PipelineError
from transcoder.api.headers import security_headers
from transcoder.errors import ServiceError

logger = logging.getLogger(__name__)

PROBLEM_TYPE = "application/problem+json"
MAX_ERRORS = 32

# nginx's status for "nobody is left to answer"; only logs see it
_CLIENT_GONE = 499

HTTP_CODES: dict[int, str] = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_timeout",
    413: "payload_too_large",
    416: "range_not_satisfiable",
    422: "invalid_request",
}
"""Codes of what the HTTP layer refuses by itself."""

PIPELINE_STATUS: dict[str, int] = {
    "internal": 500,
    "crashed": 500,
    "verify_failed": 500,
    "output_failed": 500,
    "oom": 503,
    "device_lost": 503,
    "cancelled": 503,
    "timeout": 504,
    "stalled": 504,
    "output_stalled": 504,
    "disk_full": 507,
}
"""Statuses of the engine's errors. The others are about the input or the request: 422."""


class Fault(BaseModel):
    """One thing that a validation refused."""

    pointer: str = Field(
        description="JSON pointer into the body, or the parameter's name", examples=["/outputs/0/type"]
    )
    detail: str
    location: str = Field("body", description="body, query, path or header", serialization_alias="in")


class Problem(BaseModel):
    """RFC 9457. `code` is stable; `detail` is for people and may change."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "urn:transcoder:problem:job_not_found",
                "title": "Job not found",
                "status": 404,
                "detail": "there is no job 000640…",
                "code": "job_not_found",
            }
        }
    )

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool | None = Field(None, description="whether the same request may succeed later")
    facts: dict[str, Any] | None = Field(None, description="what the error knows, as values")
    errors: list[Fault] | None = Field(None, description="only of invalid_request")


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    facts: dict[str, Any] | None = None,
    retryable: bool | None = None,
    errors: Iterable[Fault] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """The response for a problem."""
    body = Problem(
        type=f"urn:transcoder:problem:{code}",
        title=code.replace("_", " ").capitalize(),
        status=status,
        detail=detail,
        code=code,
        retryable=retryable,
        facts=facts or None,
        errors=list(errors) if errors is not None else None,
    )
    content = body.model_dump_json(by_alias=True, exclude_none=True)
    return Response(content, status, headers, media_type=PROBLEM_TYPE)


class InvalidRequest(ServiceError):
    """A request that validation refuses; `faults` tell where."""

    code = "invalid_request"
    http_status = 422

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("the request is not valid")
        self.faults = tuple(faults)


class MalformedBody(ServiceError):
    """A body that is not what its type promises: broken JSON, broken multipart."""

    code = "malformed_body"
    http_status = 400


class BodyTimeout(ServiceError):
    """The client sends its body too slowly."""

    code = "body_timeout"
    http_status = 408


class NotFound(ServiceError):
    """No such thing, of a kind that has no error of its own."""

    code = "not_found"
    http_status = 404


class RangeNotSatisfiable(ServiceError):
    code = "range_not_satisfiable"
    http_status = 416

    def __init__(self, size: int) -> None:
        super().__init__(f"no byte of the range is in the file, which has {size}", size_bytes=size)
        self.size = size


def pointer(location: Sequence[int | str]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


def faults_in(errors: Sequence[Any], body: object) -> list[Fault]:
    """Pydantic's errors about a body as faults whose pointers exist in the body (or name what is missing there)."""
    faults: dict[tuple[str, str], Fault] = {}
    for error in errors:
        place, value = _placed(error, body)
        # the other branch of a union such as rung-or-"copy": noise beside the errors of the branch that was meant
        if error["type"] == "literal_error" and isinstance(value, dict) and len(errors) > 1:
            continue
        fault = Fault(pointer=pointer(place), detail=error["msg"].removeprefix("Value error, "))
        faults.setdefault((fault.pointer, fault.detail), fault)
    return list(faults.values())[:MAX_ERRORS]


def _placed(error: Any, body: object) -> tuple[list[int | str], object]:
    """Where an error is, without the union tags that Pydantic puts between the keys; and the value there."""
    place: list[int | str] = []
    value: Any = body
    for part in error["loc"]:
        if _has(value, part):
            value = value[part]
        elif error["type"] == "missing" and part == error["loc"][-1]:
            value = None
        else:
            continue
        place.append(part)
    return place, value


def _has(value: object, part: int | str) -> bool:
    if isinstance(value, dict):
        return part in value
    return isinstance(value, list | tuple) and isinstance(part, int) and 0 <= part < len(value)


def install(app: FastAPI) -> None:
    """Makes every error of `app` a problem."""
    app.add_exception_handler(InvalidRequest, _invalid)  # type: ignore[arg-type]
    app.add_exception_handler(RangeNotSatisfiable, _out_of_range)  # type: ignore[arg-type]
    app.add_exception_handler(ServiceError, service_problem)  # type: ignore[arg-type]
    app.add_exception_handler(SQLAlchemyError, _database_error)
    app.add_exception_handler(PipelineError, _pipeline_error)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _parameters)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _http_error)  # type: ignore[arg-type]
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)


async def service_problem(request: Request, error: ServiceError) -> Response:
    """What the service says to `error`."""
    if error.http_status >= 500:
        logger.warning("%s %s: %s", request.method, request.url.path, error.message)
    return problem(
        error.http_status,
        error.code,
        _clean(request, error.message),
        facts=_facts(request, error.facts),
        headers=dict(error.http_headers),
    )


async def _database_error(request: Request, error: Exception) -> Response:
    """Nothing was promised: a client may send the same again, best with an Idempotency-Key."""
    logger.warning("%s %s: the database does not answer", request.method, request.url.path, exc_info=error)
    return problem(503, "service_unavailable", "the database does not answer", headers={"Retry-After": "5"})


async def _invalid(request: Request, error: InvalidRequest) -> Response:
    return problem(422, error.code, error.message, errors=error.faults)


async def _out_of_range(request: Request, error: RangeNotSatisfiable) -> Response:
    return problem(416, error.code, error.message, headers={"Content-Range": f"bytes */{error.size}"})


async def _pipeline_error(request: Request, error: PipelineError) -> Response:
    status = PIPELINE_STATUS.get(error.code, 422)
    if status >= 500:
        logger.warning("%s %s: [%s] %s", request.method, request.url.path, error.code, error.message)
    message = "something went wrong inside; the service's log has the details" if status == 500 else error.message
    facts = None if status == 500 else _facts(request, error.facts)
    return problem(status, error.code, _clean(request, message), facts=facts, retryable=error.retryable)


async def _parameters(request: Request, error: RequestValidationError) -> Response:
    faults = [
        Fault(
            pointer=str(fault["loc"][-1]),
            detail=fault["msg"].removeprefix("Value error, "),
            location=str(fault["loc"][0]),
        )
        for fault in error.errors()[:MAX_ERRORS]
    ]
    return problem(422, "invalid_request", "the request is not valid", errors=faults)


async def _http_error(request: Request, error: HTTPException) -> Response:
    status = error.status_code
    detail = {404: "there is nothing at this address", 405: f"{request.method} is not possible here"}
    code = HTTP_CODES.get(status, "internal" if status >= 500 else "bad_request")
    headers = dict(error.headers) if error.headers is not None else None
    return problem(status, code, detail.get(status, HTTPStatus(status).phrase), headers=headers)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=_CLIENT_GONE)


async def _unexpected(request: Request, error: Exception) -> Response:
    # Starlette raises the error again after this answer, so that the server's log has it
    # this answer is made outside of the middleware that adds them
    headers = security_headers(request.url.path)
    return problem(500, "internal", "something went wrong inside; the service's log has the details", headers=headers)


def _clean(request: Request, text: str) -> str:
    """`text` without the data folder's place on this machine."""
    return text.replace(f"{request.app.state.settings.data_dir.absolute()}/", "")


def _facts(request: Request, facts: dict[str, Any]) -> dict[str, Any]:
    return {name: _clean(request, value) if isinstance(value, str) else value for name, value in facts.items()}


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For a route's documentation: the problems that it may answer with."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }
