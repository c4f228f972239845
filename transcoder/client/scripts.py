"""What takes several requests, written once for both clients: scripts yield what is to be done and are sent the answer.

A script yields a `Call` (answered with the response; `Unreachable` is thrown in), a `Pause`, or `Work` to be done off
the event loop (answered with its result).
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from transcoder.client.errors import ApiError, Unreachable, UploadInterrupted
from transcoder.client.values import Call, OnBytes, Spec, as_json, parsed
from transcoder.jobs import Job, Upload

T = TypeVar("T")

TUS = {"Tus-Resumable": "1.0.0"}
PIECE_BYTES = 8 << 20
TRIES = 8
MAX_PAUSE_SECONDS = 20.0
BUSY = frozenset({429, 503})
"""Not now: the same request may be taken later."""
GONE_ON = frozenset({409, 423, 460, 500, 502, 503, 504})
"""Answers to a piece of an upload after which it is asked how far it got, and gone on with."""


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Work:
    """Something that blocks."""

    do: Callable[[], Any]


Step = Call | Pause | Work
Script = Generator[Step, Any, T]


def pause_before(attempt: int, response: httpx2.Response | None = None) -> Pause:
    """Doubles with each try, unless the service says how long."""
    told = "" if response is None else response.headers.get("retry-after", "")
    seconds = float(told) if told.isdecimal() else 0.5 * 2**attempt
    return Pause(min(seconds, MAX_PAUSE_SECONDS))


def answered(call: Call) -> Script[httpx2.Response]:
    """The answer to a call, which is repeated while the service is away or busy if it may be. ApiError, Unreachable."""
    for attempt in range(TRIES):
        last = attempt == TRIES - 1 or not call.repeatable
        try:
            response: httpx2.Response = yield call
        except Unreachable:
            if last:
                raise
            yield pause_before(attempt)
            continue
        if response.status_code in BUSY and not last:
            yield pause_before(attempt, response)
            continue
        if response.is_error:
            raise ApiError.of(response)
        return response
    raise AssertionError("the last try returns or raises")


def submitting(spec: Spec, idempotency_key: str | None) -> Script[Job]:
    """Without a key of the caller's it has one of its own, so that a broken connection makes no second job."""
    headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
    response = yield from answered(Call("POST", "/v1/jobs", json=as_json(spec), headers=headers, repeatable=True))
    return parsed(Job, response)


def uploading(path: Path, name: str, resume: str | None, on_bytes: OnBytes) -> Script[Upload]:
    """A file in pieces (tus). UploadInterrupted when it can't go on for now."""
    size: int = yield Work(lambda: path.stat().st_size)
    if resume is None:
        details = f"filename {base64.b64encode(name.encode()).decode()}"
        headers = TUS | {"Upload-Length": str(size), "Upload-Metadata": details}
        made = yield from answered(Call("POST", "/v1/tus", headers=headers, repeatable=True))
        location, offset = made.headers["location"], 0
    else:
        location, offset = resume, (yield from _offset(resume))
    failures = 0
    while offset < size:
        on_bytes(offset, size)
        content: bytes = yield Work(_reading(path, offset))
        try:
            before, offset = offset, (yield from _sent(location, offset, content))
            failures = 0 if offset > before else failures + 1
        except Unreachable as error:
            failures += 1
            if failures >= TRIES:
                raise UploadInterrupted(location, offset, str(error)) from error
            yield pause_before(failures)
            offset = yield from _offset(location)
        if failures >= TRIES:
            raise UploadInterrupted(location, offset, "the service takes no more")
    on_bytes(size, size)
    upload_id = location.rstrip("/").rpartition("/")[2]
    stored = yield from answered(Call("GET", f"/v1/uploads/{upload_id}", repeatable=True))
    return parsed(Upload, stored)


def _reading(path: Path, offset: int) -> Callable[[], bytes]:
    def read() -> bytes:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(PIECE_BYTES)

    return read


def _sent(location: str, offset: int, content: bytes) -> Script[int]:
    """Sends a piece; how far the upload is then."""
    headers = TUS | {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    response: httpx2.Response = yield Call("PATCH", location, content=content, headers=headers)
    if response.status_code in GONE_ON:
        yield pause_before(0, response)
        return (yield from _offset(location))
    if response.is_error:
        raise ApiError.of(response)
    return int(response.headers["upload-offset"])


def _offset(location: str) -> Script[int]:
    response = yield from answered(Call("HEAD", location, headers=TUS, repeatable=True))
    return int(response.headers["upload-offset"])
