"""The OpenAPI document: FastAPI's, with our problems and the bodies that routes read themselves."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from pipelines.asked.streams import StreamJob
from pipelines.spec import FileJob
from transcoder.api.auth import PUBLIC
from transcoder.api.bodies import request_schemas
from transcoder.api.devices import DeviceChange
from transcoder.api.examples import fill
from transcoder.api.jobs import JobChange
from transcoder.api.nodes import NodeChange
from transcoder.api.probe import ProbeRequest
from transcoder.api.problems import Problem, responses
from transcoder.api.webhooks import Rotation
from transcoder.queueing.queues import QueueSettings

TAGS = [
    {"name": "jobs", "description": "Submit, follow, cancel, retry"},
    {"name": "outputs", "description": "What jobs wrote"},
    {"name": "webhooks", "description": "Being told what became of jobs"},
    {"name": "uploads", "description": "Inputs that are sent to the service"},
    {"name": "probe and plan", "description": "What an input is, and what would be done with it"},
    {"name": "presets", "description": "Named outputs"},
    {"name": "devices", "description": "What jobs run on"},
    {"name": "queues", "description": "Shares and limits"},
    {"name": "operation", "description": "Health and metrics"},
]

SECURITY_SCHEMES = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key: tk_…. A service without keys needs none."},
    "header": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
}

BODIES = (FileJob, StreamJob, ProbeRequest, JobChange, DeviceChange, QueueSettings, NodeChange, Rotation)


def install(app: FastAPI) -> None:
    """Makes `app` describe itself with `document`."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def document(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=TAGS
    )
    components = schema["components"]["schemas"]
    # FastAPI's own shape of a failed validation, which this service does not use
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    problem = Problem.model_json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    components |= problem.pop("$defs", {})
    components["Problem"] = problem
    components |= request_schemas(BODIES)
    schema["components"]["securitySchemes"] = SECURITY_SCHEMES
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            told = operation["responses"]
            if path not in PUBLIC:
                operation["security"] = [{name: []} for name in SECURITY_SCHEMES]
                told |= {str(status): text for status, text in responses(401, 403, 429).items()}
            if "422" in told:
                told |= {str(status): text for status, text in responses(422).items()}
            fill(path, operation)
            if method == "head":
                # an answer to HEAD has no body
                operation["responses"] = {status: {"description": text["description"]} for status, text in told.items()}
    return schema
