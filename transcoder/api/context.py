"""What routes are given: the service, its settings, who calls.

All of these are coroutines, though they wait for nothing: what is not, FastAPI calls in a thread, for each request.
Routes that are asked all the time call `service_of` and `tenant_of` themselves: solving dependencies takes longer than
reading a job.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from transcoder.auth.errors import Unauthorized
from transcoder.auth.principal import Principal
from transcoder.service import Service
from transcoder.settings import Settings
from transcoder.telemetry import Telemetry


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def caller_of(request: Request) -> Principal | None:
    """None for someone without a key, on what is public."""
    caller: Principal | None = request.state.principal
    return caller


def tenant_of(request: Request) -> str:
    """Unauthorized for someone without a key."""
    return _known(caller_of(request)).tenant


def _known(principal: Principal | None) -> Principal:
    if principal is None:
        raise Unauthorized("this call needs an API key", presented=False)
    return principal


async def _service(request: Request) -> Service:
    return service_of(request)


async def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _telemetry(request: Request) -> Telemetry:
    telemetry: Telemetry = request.app.state.telemetry
    return telemetry


async def _caller(request: Request) -> Principal | None:
    return caller_of(request)


async def _principal(request: Request) -> Principal:
    return _known(caller_of(request))


async def _tenant(request: Request) -> str:
    return tenant_of(request)


ServiceOf = Annotated[Service, Depends(_service)]
SettingsOf = Annotated[Settings, Depends(_settings)]
TelemetryOf = Annotated[Telemetry, Depends(_telemetry)]
PrincipalOf = Annotated[Principal, Depends(_principal)]
TenantOf = Annotated[str, Depends(_tenant)]
CallerOf = Annotated[Principal | None, Depends(_caller)]
"""On what is public: None for someone without a key."""
