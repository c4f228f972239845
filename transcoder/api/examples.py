"""What answers look like, for the API's description: one of each kind, from a real job of a small clip.

A test holds each to its model; what is new in the API and has no example fails it.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from importlib import resources
from typing import Any

MODELS: dict[str, Any] = json.loads((resources.files(__package__) / "examples.json").read_text(encoding="utf-8"))
"""Of JSON answers, by the model's name."""

TEXTS: dict[tuple[str, str], str] = {
    ("/v1/jobs/{job_id}/log", "text/plain"): "2026-01-15T10:33:55Z wrote 50 pictures\n",
    ("/metrics", "text/plain"): 'transcoder_slots{device="software"} 1.0\n',
    ("/v1/events", "text/event-stream"): 'event: jobs\ndata: {"jobs": [], "progress": {}, "missed": false}\n\n',
    ("/v1/jobs/{job_id}/events", "text/event-stream"): 'event: progress\ndata: {"frames": 25, "fraction": 0.5}\n\n',
}
"""Of answers in text, by path and content type."""

PARAMETERS: dict[str, Any] = {
    "job_id": MODELS["Job"]["id"],
    "upload_id": MODELS["Upload"]["id"],
    "device_id": "software",
    "queue": "default",
    "node": "node-1",
    "name": "holiday.mp4",
    "path": "output.mp4",
    "preset": "web-mp4",
    "token": "WyIw….signature",
    "Tus-Resumable": "1.0.0",
    "Upload-Length": 101_954,
    "Upload-Offset": 0,
}
"""Of parameters that have to be given, by name."""

FORM = {"file": "(the file's bytes)", "preset": "web-mp4", "queue": "default", "priority": 0}
UPLOAD_FORM = {"file": "(the file's bytes)"}
BYTES = "(the file's bytes)"

CODES: dict[int, tuple[str, str]] = {
    400: ("malformed_body", "the body is not JSON"),
    401: ("unauthorized", "this call needs an API key: Authorization: Bearer tk_…"),
    403: ("forbidden", "this key has no scope submit"),
    404: ("not_found", "there is nothing of that name"),
    408: ("body_timeout", "the body's bytes came too slowly for 60 s"),
    409: ("conflict", "the state does not allow this now"),
    412: ("tus_version", "this service speaks tus 1.0.0"),
    413: ("payload_too_large", "the body is larger than 1048576 bytes"),
    415: ("unsupported_media_type", "the body has another content type"),
    416: ("range_not_satisfiable", "the file has no such range"),
    422: ("invalid_request", "the request is not valid"),
    423: ("upload_locked", "the upload is being filled"),
    429: ("rate_limited", "too many requests with this key"),
    460: ("checksum_mismatch", "the bytes came damaged"),
    500: ("internal", "something went wrong inside; the service's log has the details"),
    503: ("service_unavailable", "the database does not answer"),
    504: ("timeout", "it took too long"),
    507: ("disk_full", "the disk is full"),
}
"""One of a status's codes, with words."""


def problem_example(status: int) -> dict[str, Any]:
    code, detail = CODES[status]
    title = code.replace("_", " ").capitalize()
    told = {"type": f"urn:transcoder:problem:{code}", "title": title, "status": status, "detail": detail, "code": code}
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        told["errors"] = [{"pointer": "/outputs/0/type", "detail": "Field required", "in": "body"}]
    return told


def fill(path: str, operation: dict[str, Any]) -> None:
    """Gives examples to whatever of an operation has none."""
    for parameter in operation.get("parameters", ()):
        if parameter["required"] and parameter["name"] in PARAMETERS:
            parameter.setdefault(
                "example", "h264-480p" if path == "/v1/presets/{name}" else PARAMETERS[parameter["name"]]
            )
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        if kind == "multipart/form-data":
            content.setdefault("example", FORM if path == "/v1/jobs" else UPLOAD_FORM)
        elif kind.endswith("octet-stream"):
            content.setdefault("example", BYTES)
    for status, response in operation["responses"].items():
        for kind, content in response.get("content", {}).items():
            example = _answer(path, int(status), kind, content)
            if example is not None:
                content.setdefault("example", example)


def _answer(path: str, status: int, kind: str, content: dict[str, Any]) -> Any:
    if kind == "application/problem+json":
        return problem_example(status)
    if kind.startswith(("application/octet-stream", "image/", "*/*")):
        return BYTES
    if kind.startswith("text/"):
        return TEXTS.get((path, kind))
    return MODELS.get(content.get("schema", {}).get("$ref", "").rpartition("/")[2])
