"""Queues: weights, limits, pauses; and what waits and runs in each."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel

from transcoder.api.bodies import documented, json_body
from transcoder.api.context import PrincipalOf, ServiceOf
from transcoder.api.problems import responses
from transcoder.auth.principal import Principal
from transcoder.auth.scopes import Scope
from transcoder.queueing.queues import NAME_PATTERN, QueueSettings, QueueState

router = APIRouter(prefix="/v1/queues", tags=["queues"])

Name = Annotated[str, Path(pattern=NAME_PATTERN)]


class QueueList(BaseModel):
    items: tuple[QueueState, ...]
    next: str | None = None


@router.get("", summary="All queues")
async def list_queues(service: ServiceOf, principal: PrincipalOf) -> QueueList:
    """By name, with how many jobs wait and run: of all tenants for keys with the scope admin, else one's own."""
    return QueueList(items=await service.queues.all(_seen(principal)))


def _seen(principal: Principal) -> str | None:
    """Whose jobs are counted; None: everyone's."""
    return None if Scope.ADMIN in principal.scopes else principal.tenant


@router.get("/{queue}", responses=responses(404, 422), summary="One queue")
async def read_queue(service: ServiceOf, principal: PrincipalOf, queue: Name) -> QueueState:
    return await service.queues.get(queue, _seen(principal))


@router.put(
    "/{queue}",
    responses={201: {"model": QueueState, "description": "The queue was made"}, **responses(400, 409, 422)},
    openapi_extra=documented(QueueSettings, {"weight": 3, "max_running": 4}),
    summary="Make or change a queue",
)
async def put_queue(
    response: Response, service: ServiceOf, queue: Name, settings: Annotated[QueueSettings, json_body(QueueSettings)]
) -> QueueState:
    """What is left out has its default. It holds from the next free slot on; what runs goes on."""
    changed, created = await service.put_queue(queue, settings)
    response.status_code = 201 if created else 200
    return changed


@router.delete("/{queue}", status_code=204, responses=responses(404, 409, 422), summary="Delete a queue")
async def delete_queue(service: ServiceOf, queue: Name) -> None:
    """409 while jobs wait or run in it, and for `default`. Jobs that ended in it stay."""
    await service.queues.delete(queue)
