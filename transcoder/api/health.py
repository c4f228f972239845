"""Whether the service lives, and whether it can take work."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Response
from pydantic import BaseModel

from transcoder.api.context import ServiceOf
from transcoder.service import Health

router = APIRouter(tags=["operation"])


class Alive(BaseModel):
    status: str = "ok"
    version: str


@router.get("/healthz", summary="Does the process answer")
async def alive() -> Alive:
    """For supervisors that restart what hangs; it asks nothing of the database."""
    return Alive(version=version("transcoder"))


@router.get("/readyz", responses={503: {"model": Health, "description": "Not now"}}, summary="Can it take jobs")
async def ready(response: Response, service: ServiceOf) -> Health:
    """For load balancers: 503 while the database or the engine does not work, and while the service stops."""
    health = await service.healthy()
    response.status_code = 200 if health.ready else 503
    return health
