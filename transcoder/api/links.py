"""Signed links: addresses of outputs and events that work without a key, for a while."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from transcoder.api.auth import Gatekeeper
from transcoder.api.context import PrincipalOf, ServiceOf
from transcoder.api.outputs import listed
from transcoder.api.problems import Fault, InvalidRequest, responses
from transcoder.auth.links import Link
from transcoder.clock import utc_now
from transcoder.settings import Settings

router = APIRouter(prefix="/v1/jobs", tags=["outputs"])

Lifetime = Annotated[int, Query(ge=1, description="how long the link works; at most TRANSCODER_LINK_MAX_SECONDS")]


class SignedLink(BaseModel):
    url: str
    expires_at: datetime


@router.post(
    "/{job_id}/outputs/{path:path}/link",
    responses=responses(404, 422),
    summary="A link to an output that works without a key",
)
async def link_output(
    request: Request,
    service: ServiceOf,
    principal: PrincipalOf,
    job_id: str,
    path: str,
    expires_seconds: Lifetime = 3600,
) -> SignedLink:
    """For players, mails, other sites: with Range and HEAD. It ends at its time, or when the key that made it ends."""
    file = listed(await service.get(job_id, principal.tenant), path)
    return _signed(request, f"/v1/jobs/{job_id}/outputs/{file.path}", principal.key_id, expires_seconds)


@router.post(
    "/{job_id}/events/link",
    responses=responses(404, 422),
    summary="A link to a job's events that works without a key",
)
async def link_events(
    request: Request, service: ServiceOf, principal: PrincipalOf, job_id: str, expires_seconds: Lifetime = 3600
) -> SignedLink:
    """For a browser's EventSource, which can't send a key."""
    job = await service.get(job_id, principal.tenant)
    return _signed(request, f"/v1/jobs/{job.id}/events", principal.key_id, expires_seconds)


def _signed(request: Request, path: str, key_id: str | None, seconds: int) -> SignedLink:
    settings: Settings = request.app.state.settings
    keeper: Gatekeeper = request.app.state.gatekeeper
    if seconds > settings.link_max_seconds:
        detail = f"a link lives for at most {settings.link_max_seconds} s"
        raise InvalidRequest([Fault(pointer="expires_seconds", detail=detail, location="query")])
    expires = int(utc_now().timestamp()) + seconds
    query = keeper.signer.query(Link(path, key_id, expires))
    url = f"{str(request.base_url).rstrip('/')}{quote(path)}?{query}"
    return SignedLink(url=url, expires_at=datetime.fromtimestamp(expires, UTC))
