"""A job's news as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from fastapi import APIRouter
from sse_starlette import EventSourceResponse, ServerSentEvent

from pipelines.live.stats import LiveStats
from pipelines.result import Progress
from transcoder.api.context import ServiceOf, TenantOf
from transcoder.api.problems import responses
from transcoder.errors import JobNotFound
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

KEEP_ALIVE_SECONDS = 15
SEND_SECONDS = 60
"""A reader that takes nothing for this long is let go."""

_EXAMPLE = 'id: 0\nevent: status\ndata: {"id": "000640…", "status": "running", …}\n\n'


@router.get(
    "/{job_id}/events",
    response_class=EventSourceResponse,
    responses={
        200: {"description": "Events", "content": {"text/event-stream": {"example": _EXAMPLE}}},
        **responses(404),
    },
    summary="Follow a job",
)
async def follow(service: ServiceOf, tenant: TenantOf, job_id: str) -> EventSourceResponse:
    """Starts with the job as it is (`status` with the whole job, then `progress`), and goes on with `status`,
    `progress`, `attempt` and `log` as they happen. Ends when the job ended.

    Each connection starts with the job as it is, so a reader that reconnects needs no `Last-Event-ID`.
    """
    # an unknown job is a 404, which must be told before the stream starts
    await service.get(job_id, tenant)
    return EventSourceResponse(
        _news(service, tenant, job_id), ping=KEEP_ALIVE_SECONDS, send_timeout=SEND_SECONDS, sep="\n"
    )


async def _news(service: Service, tenant: str, job_id: str) -> AsyncIterator[ServerSentEvent]:
    # subscribed before the job is read, so that nothing falls in between
    async with service.events.subscribe(job_id) as events:
        try:
            job = await service.get(job_id, tenant)
            yield _event("status", job.model_dump_json(), 0)
            yield _event("progress", _progress(job).model_dump_json(), 0)
            if job.status.ended:
                return
            async for event in events:
                yield _event(event.kind, json.dumps(event.data), event.id)
                if event.kind == "status" and JobStatus(event.data["status"]).ended:
                    return
        except JobNotFound:
            # deleted meanwhile
            return


def _progress(job: Job) -> Progress | LiveStats:
    return job.stats or Progress(fraction=job.progress, eta_seconds=job.eta_seconds)


def _event(name: str, data: str, event_id: int) -> ServerSentEvent:
    return ServerSentEvent(data, event=name, id=str(event_id), sep="\n")
