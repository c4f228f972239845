"""Request bodies: read with limits on size and time, then parsed and validated."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from transcoder.api.problems import BodyTimeout, InvalidRequest, MalformedBody, faults_in
from transcoder.errors import PayloadTooLarge
from transcoder.network.pace import Pace

M = TypeVar("M", bound=BaseModel)

MAX_JSON_BYTES = 1 << 20


async def body_chunks(request: Request, *, max_bytes: int, idle_seconds: float) -> AsyncIterator[bytes]:
    """The body as it comes. PayloadTooLarge (before the first byte when it is announced), BodyTimeout when it trickles.

    Raises ClientDisconnect when the client goes away before the end.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > max_bytes:
        raise _too_large(max_bytes)
    pace, size = Pace(idle_seconds), 0
    while True:
        try:
            message = await pace.within(request.receive())
        except TimeoutError:
            raise BodyTimeout(f"the body's bytes came too slowly for {idle_seconds:g} s") from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        if chunk:
            pace.received(len(chunk))
            size += len(chunk)
            if size > max_bytes:
                raise _too_large(max_bytes)
            yield chunk
        if not message.get("more_body", False):
            return


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is larger than {max_bytes} bytes", limit_bytes=max_bytes)


async def read_json(request: Request) -> Any:
    """A small JSON body, whatever its content type says (curl -d says form)."""
    idle_seconds: float = request.app.state.settings.upload_idle_seconds
    chunks = body_chunks(request, max_bytes=MAX_JSON_BYTES, idle_seconds=idle_seconds)
    return parse_json(b"".join([chunk async for chunk in chunks]), "the body")


def parse_json(content: bytes, what: str) -> Any:
    """MalformedBody for what is no JSON in UTF-8, for NaN, for a key that is there twice and for absurd nesting."""
    try:
        value = json.loads(content, parse_constant=_no_constant, object_pairs_hook=_unique)
    except RecursionError:
        raise MalformedBody(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise MalformedBody(f"{what} is not JSON: {error}") from None
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not in JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers of `{"a": 1, "a": 2}` may see different requests, so it is none."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is there twice")
    return value


def validated(model: type[M], value: Any) -> M:
    """InvalidRequest with pointers into `value` when it does not fit `model`."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise InvalidRequest(faults_in(found, value)) from None


def json_body(model: type[M]) -> Any:
    """A dependency: the JSON body as `model`."""

    async def body(request: Request) -> M:
        return validated(model, await read_json(request))

    reader: Callable[[Request], Awaitable[M]] = body
    return Depends(reader)


def documented(
    model: type[BaseModel] | tuple[type[BaseModel], ...], example: Any, **others: dict[str, Any]
) -> dict[str, Any]:
    """A route's `openapi_extra` for a body that FastAPI does not read itself; `others` are further content types."""
    models = model if isinstance(model, tuple) else (model,)
    refs = [{"$ref": _REF.format(model=each.__name__)} for each in models]
    content = {"application/json": {"schema": refs[0] if len(refs) == 1 else {"anyOf": refs}, "example": example}}
    return {"requestBody": {"required": True, "content": content | others}}


_REF = "#/components/schemas/{model}-Input"


def request_schemas(models: Iterable[type[BaseModel]]) -> dict[str, Any]:
    """OpenAPI components for the bodies of `documented` routes."""
    schemas: dict[str, Any] = {}
    for model in models:
        schema = model.model_json_schema(ref_template=_REF)
        for name, part in (schema.pop("$defs", {}) | {model.__name__: schema}).items():
            schemas[f"{name}-Input"] = part
    return schemas
