"""Signed links: addresses of outputs and events that work without a key, for a while."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from transcoder.api.auth import Gatekeeper
from transcoder.api.context import PrincipalOf, ServiceOf, TenantOf
from transcoder.api.held import WantedOf
from transcoder.api.outputs import FILE_DOCS, listed, sent_output
from transcoder.api.problems import Fault, InvalidRequest, responses
from transcoder.auth.links import FolderLink, Followed, Link, LinkSigner
from transcoder.auth.principal import Principal
from transcoder.clock import utc_now
from transcoder.settings import Settings

router = APIRouter(prefix="/v1", tags=["outputs"])

PLAYLISTS = (".m3u8", ".mpd")
"""What names files beside it."""

Lifetime = Annotated[int, Query(ge=1, description="how long the link works; at most TRANSCODER_LINK_MAX_SECONDS")]


Folder = Annotated[
    bool | None,
    Query(description="whether the link is good for the file's whole folder; by itself that of a playlist is"),
]


class SignedLink(BaseModel):
    url: str
    expires_at: datetime


@router.post(
    "/jobs/{job_id}/outputs/{path:path}/link",
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
    folder: Folder = None,
) -> SignedLink:
    """For players, mails, other sites: with Range and HEAD. It ends at its time, or when the key that made it ends.

    A link to a playlist is good for what is in the playlist's folder too, since players fetch that by the same address.
    """
    file = listed(await service.get(job_id, principal.tenant), path)
    if not (file.path.endswith(PLAYLISTS) if folder is None else folder):
        return _link_to(request, principal, f"/v1/jobs/{job_id}/outputs/{file.path}", expires_seconds)
    signer, expires = _signer(request, expires_seconds)
    parent, slash, name = file.path.rpartition("/")
    base = signer.folder_path(FolderLink(job_id, parent + slash, principal.key_id, expires))
    return _link(request, base + quote(name), expires)


@router.head("/s/{token}/{path:path}", include_in_schema=False)
@router.get(
    "/s/{token}/{path:path}",
    response_class=Response,
    responses={**FILE_DOCS, **responses(403)},
    summary="A file by a link to its folder",
)
async def read_by_link(
    request: Request,
    service: ServiceOf,
    tenant: TenantOf,
    token: str,
    path: str,
    asked: WantedOf,
    download: Annotated[bool, Query(description="ask the browser to save the file")] = False,
) -> Response:
    """Where links of playlists lead: `path` is within the playlist's folder. As `/v1/jobs/{job_id}/outputs/{path}`."""
    followed: Followed = request.state.followed
    return await sent_output(request, service, tenant, followed.link.job_id, followed.path, asked, download=download)


@router.post(
    "/jobs/{job_id}/events/link",
    responses=responses(404, 422),
    summary="A link to a job's events that works without a key",
)
async def link_events(
    request: Request, service: ServiceOf, principal: PrincipalOf, job_id: str, expires_seconds: Lifetime = 3600
) -> SignedLink:
    """For a browser's EventSource, which can't send a key."""
    job = await service.get(job_id, principal.tenant)
    return _link_to(request, principal, f"/v1/jobs/{job.id}/events", expires_seconds)


@router.post(
    "/jobs/{job_id}/thumbnail.jpg/link",
    responses=responses(404, 422),
    summary="A link to a job's picture that works without a key",
)
async def link_thumbnail(
    request: Request, service: ServiceOf, principal: PrincipalOf, job_id: str, expires_seconds: Lifetime = 3600
) -> SignedLink:
    """For an `<img>` elsewhere. Whether there is a picture shows when the link is followed."""
    job = await service.get(job_id, principal.tenant)
    return _link_to(request, principal, f"/v1/jobs/{job.id}/thumbnail.jpg", expires_seconds)


def _link_to(request: Request, principal: Principal, path: str, seconds: int) -> SignedLink:
    """One address, and nothing else."""
    signer, expires = _signer(request, seconds)
    return _link(request, f"{quote(path)}?{signer.query(Link(path, principal.key_id, expires))}", expires)


def _signer(request: Request, seconds: int) -> tuple[LinkSigner, int]:
    """What signs a link of that lifetime, and when it ends in seconds since 1970."""
    settings: Settings = request.app.state.settings
    keeper: Gatekeeper = request.app.state.gatekeeper
    if seconds > settings.link_max_seconds:
        detail = f"a link lives for at most {settings.link_max_seconds} s"
        raise InvalidRequest([Fault(pointer="expires_seconds", detail=detail, location="query")])
    return keeper.signer, int(utc_now().timestamp()) + seconds


def _link(request: Request, address: str, expires: int) -> SignedLink:
    url = f"{str(request.base_url).rstrip('/')}{address}"
    return SignedLink(url=url, expires_at=datetime.fromtimestamp(expires, UTC))
