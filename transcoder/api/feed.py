"""All jobs' news as server-sent events, for pages and boards that show many at once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from fastapi import APIRouter
from sse_starlette import EventSourceResponse, ServerSentEvent

from transcoder.api.context import ServiceOf, TenantOf
from transcoder.api.events import KEEP_ALIVE_SECONDS, SEND_SECONDS
from transcoder.errors import JobNotFound
from transcoder.feed import Batch, Feed
from transcoder.service import Service

router = APIRouter(prefix="/v1/events", tags=["jobs"])

_EXAMPLE = (
    "event: open\ndata: {}\n\n"
    'event: jobs\ndata: {"jobs": [{"id": "000640…", "status": "running"}], '
    '"progress": {"000640…": {"fraction": 0.25, "fps": 118.0}}, "missed": false}\n\n'
)


@router.get(
    "",
    response_class=EventSourceResponse,
    responses={200: {"description": "Events", "content": {"text/event-stream": {"example": _EXAMPLE}}}},
    summary="Follow all jobs",
)
async def follow_all(service: ServiceOf, tenant: TenantOf) -> EventSourceResponse:
    """`open` once, then `jobs` at most twice a second: `jobs` whose status changed (without their plans), and the
    `progress` of those that run, by id. With `missed`, more changed than is told: read the list again.
    """
    return EventSourceResponse(_news(service, tenant), ping=KEEP_ALIVE_SECONDS, send_timeout=SEND_SECONDS, sep="\n")


async def _news(service: Service, tenant: str) -> AsyncIterator[ServerSentEvent]:
    async def is_own(job_id: str) -> bool:
        try:
            await service.get(job_id, tenant)
        except JobNotFound:
            return False
        return True

    batches = Feed(is_own).batches(service.events)
    # from the first, empty one on nothing is missed: whoever reads the list now has it all
    async for _ in batches:
        yield ServerSentEvent("{}", event="open", sep="\n")
        break
    async for batch in batches:
        if batch:
            yield ServerSentEvent(_told(batch), event="jobs", sep="\n")


def _told(batch: Batch) -> str:
    return json.dumps({"jobs": [*batch.jobs.values()], "progress": batch.progress, "missed": batch.missed})
