"""Jobs: submit, look, change."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from pipelines.asked.streams import StreamJob
from pipelines.spec import FileJob
from transcoder.api.bodies import documented, json_body, parse_json, read_json, validated
from transcoder.api.context import PrincipalOf, ServiceOf, TelemetryOf, TenantOf, service_of, tenant_of
from transcoder.api.forms import Form, boundary_of
from transcoder.api.problems import Fault, InvalidRequest, responses
from transcoder.api.uploads import received_form
from transcoder.auth.principal import Principal
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service
from transcoder.submission import Idempotency

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

MAX_KEY_CHARACTERS = 255
FORM_FIELDS = ("spec", "preset", "queue", "priority")

_SPEC_EXAMPLE = {
    "input": {"upload": "000640…"},
    "outputs": [
        {
            "type": "mp4",
            "video": {"codec": "h264", "height": 720, "rate_control": {"mode": "crf", "crf": 23}},
            "audio": {"codec": "aac", "bitrate": 128_000},
        }
    ],
    "metadata": {"title": "holiday"},
}
_FORM_SCHEMA = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "the input; stored as an upload"},
        "preset": {"type": "string", "description": "a preset's name"},
        "spec": {"type": "string", "description": "the job as JSON; its input may be left out"},
        "queue": {"type": "string"},
        "priority": {"type": "integer"},
    },
    "additionalProperties": False,
}

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=MAX_KEY_CHARACTERS,
        pattern=r"^[\x21-\x7e]+$",
        description="A request that is sent again with the same key and body gets the job of the first one, with 200 "
        "instead of 201. The same key with another body is a 422.",
    ),
]


class JobList(BaseModel):
    items: tuple[Job, ...]
    next: str | None = Field(None, description="cursor of the next page; null on the last")


class JobChange(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    priority: int = Field(ge=-1000, le=1000, description="higher starts earlier")


@router.post(
    "",
    status_code=201,
    responses={
        200: {"model": Job, "description": "The job that this Idempotency-Key already made"},
        **responses(400, 408, 413, 422, 503, 507),
    },
    openapi_extra=documented((FileJob, StreamJob), _SPEC_EXAMPLE, **{"multipart/form-data": {"schema": _FORM_SCHEMA}}),
    summary="Submit a job",
)
async def submit(
    request: Request,
    response: Response,
    service: ServiceOf,
    telemetry: TelemetryOf,
    principal: PrincipalOf,
    idempotency_key: IdempotencyKey = None,
) -> Job:
    """The job as JSON; or as a form (`curl -F file=@clip.mov -F preset=h264-720p`), whose file becomes the input.

    A form has the fields `file`, `preset` or `spec`, `queue`, `priority`, in any order.
    """
    boundary = boundary_of(request.headers.get("content-type", ""))
    if boundary is None:
        value = await read_json(request)
        job, created = await _submit(service, principal, _job_spec(value), _idempotency(idempotency_key, value))
    else:
        async with received_form(request, boundary, service, principal.tenant) as form:
            job, created = await _submit_form(service, principal, form, idempotency_key)
        if created and form.file is not None:
            telemetry.upload_stored(form.file.size)
    response.status_code = 201 if created else 200
    response.headers["location"] = f"/v1/jobs/{job.id}"
    return job


def _job_spec(value: Any) -> FileJob | StreamJob:
    """By its `kind`; a job that does not say it is one of a file."""
    if isinstance(value, dict) and value.get("kind") == "stream":
        return validated(StreamJob, value)
    return validated(FileJob, value)


async def _submit(
    service: Service, principal: Principal, spec: FileJob | StreamJob, idempotency: Idempotency | None
) -> tuple[Job, bool]:
    principal.require_queue(spec.queue)
    return await service.submit(spec, tenant=principal.tenant, idempotency=idempotency)


async def _submit_form(
    service: Service, principal: Principal, form: Form, idempotency_key: str | None
) -> tuple[Job, bool]:
    """Submits what a form asks for. Its file is an upload of its own, unless the job already has one."""
    value = _form_spec(form)
    spec = validated(FileJob, value)
    if form.file is None:
        return await _submit(service, principal, spec, _idempotency(idempotency_key, value))
    # the file's id is new each time; what it holds is what makes two requests the same
    same = {**value, "input": {**value["input"], "upload": f"sha256:{form.file.sha256}"}}
    job, created = await _submit(service, principal, spec, _idempotency(idempotency_key, same))
    if not created:
        await service.delete_upload(form.file.id, principal.tenant)
    return job, created


def _form_spec(form: Form) -> dict[str, Any]:
    """The job that a form's fields describe. A field of its own wins over the same one in `spec`."""
    unknown = [name for name in form.fields if name not in FORM_FIELDS]
    if unknown:
        raise InvalidRequest([Fault(pointer=f"/{name}", detail="there is no such field") for name in unknown])
    fields = dict(form.fields)
    spec = parse_json(fields.pop("spec", "{}").encode(), "the field spec")
    if not isinstance(spec, dict):
        raise InvalidRequest([Fault(pointer="/spec", detail="the spec is a JSON object")])
    given: dict[str, Any] = {**spec, **fields}
    if form.file is not None:
        own = given.get("input", {})
        if not isinstance(own, dict):
            raise InvalidRequest([Fault(pointer="/input", detail="the input is a JSON object")])
        given["input"] = {**own, "upload": form.file.id}
    return given


def _idempotency(key: str | None, value: Any) -> Idempotency | None:
    if key is None:
        return None
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return Idempotency(key, hashlib.sha256(canonical.encode()).hexdigest())


@router.get("", response_model=JobList, responses=responses(400, 422), summary="List jobs, newest first")
async def list_jobs(
    service: ServiceOf,
    tenant: TenantOf,
    status: JobStatus | None = None,
    queue: Annotated[str | None, Query(max_length=63)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="`next` of the page before")] = None,
) -> Response:
    """Pages stay stable while jobs come and go."""
    return _json(await service.bodies.page(tenant=tenant, status=status, queue=queue, limit=limit, cursor=cursor))


@router.get("/{job_id}", response_model=Job, responses=responses(404), summary="One job")
async def read_job(request: Request, job_id: str) -> Response:
    """Status, progress, attempts with their devices and reasons, outputs, warnings, error."""
    return _json(await service_of(request).bodies.one(job_id, tenant_of(request)))


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


@router.patch(
    "/{job_id}",
    responses=responses(400, 404, 409, 422),
    openapi_extra=documented(JobChange, {"priority": 10}),
    summary="Change the priority of a queued job",
)
async def change_job(
    service: ServiceOf, tenant: TenantOf, job_id: str, change: Annotated[JobChange, json_body(JobChange)]
) -> Job:
    """409 once it has started."""
    return await service.set_priority(job_id, change.priority, tenant)


@router.post("/{job_id}/cancel", responses=responses(404, 409), summary="Cancel a job")
async def cancel_job(service: ServiceOf, tenant: TenantOf, job_id: str) -> Job:
    """A queued job is cancelled at once; a running one stops within a second. 409 when it has completed or failed."""
    return await service.cancel(job_id, tenant)


@router.post("/{job_id}/stop", responses=responses(404, 409), summary="Stop a stream job gracefully")
async def stop_job(service: ServiceOf, tenant: TenantOf, job_id: str) -> Job:
    """Its outputs are finished, and it is completed. 409 for a file's job, which ends by itself: cancel it instead."""
    return await service.streams.stop(job_id, tenant, lambda: service.get(job_id, tenant))


@router.post("/{job_id}/retry", responses=responses(404, 409), summary="Run a job again")
async def retry_job(service: ServiceOf, tenant: TenantOf, job_id: str) -> Job:
    """Only a failed or cancelled one; 409 otherwise. Its attempts so far stay on record."""
    return await service.retry(job_id, tenant)


@router.delete("/{job_id}", status_code=204, responses=responses(404, 409), summary="Delete a job and its files")
async def delete_job(service: ServiceOf, tenant: TenantOf, job_id: str) -> None:
    """409 while it runs."""
    await service.delete(job_id, tenant)
