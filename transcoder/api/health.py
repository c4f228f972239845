"""Whether the service lives, and whether it can take work."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from transcoder.api.context import CallerOf, ServiceOf, caller_of, service_of
from transcoder.children.sandbox import Mode

router = APIRouter(tags=["operation"])

VERSION = version("transcoder")


class Sandbox(BaseModel):
    """What confines the processes that read inputs. `landlock` and `control_group` (a memory limit that counts
    everything) are the kernel's versions of them, 0: none."""

    mode: Mode
    landlock: int
    seccomp: bool
    network_namespace: bool
    no_capabilities: bool
    control_group: int
    memory_bytes: int


class Alive(BaseModel):
    """`version` and `sandbox` are only told to those with a key."""

    status: str = "ok"
    version: str | None = None
    sandbox: Sandbox | None = None


class Ready(BaseModel):
    """`database` and `engine` are only told to those with a key."""

    ready: bool
    database: bool | None = None
    engine: bool | None = None


@router.get("/healthz", response_model_exclude_none=True, summary="Does the process answer")
async def alive(request: Request) -> Alive:
    """For supervisors that restart what hangs."""
    if caller_of(request) is None:
        return Alive()
    service = service_of(request)
    mode, memory_bytes = service.settings.sandbox, service.settings.child_memory_bytes
    sandbox = Sandbox(mode=mode, memory_bytes=memory_bytes, **asdict(service.supervisor.layers))
    return Alive(version=VERSION, sandbox=sandbox)


@router.get(
    "/readyz",
    response_model_exclude_none=True,
    responses={503: {"model": Ready, "description": "Not now"}},
    summary="Can it take jobs",
)
async def ready(response: Response, service: ServiceOf, caller: CallerOf) -> Ready:
    """For load balancers: 503 while the database or the engine does not work, and while the service stops."""
    health = await service.healthy()
    response.status_code = 200 if health.ready else 503
    return Ready(ready=health.ready) if caller is None else Ready.model_validate(health.model_dump())
