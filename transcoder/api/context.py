"""What routes are given: the service, its settings, who calls.

All of these are coroutines, though they wait for nothing: what is not, FastAPI calls in a thread, for each request.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from transcoder.auth.errors import Unauthorized
from transcoder.auth.principal import Principal
from transcoder.service import Service
from transcoder.settings import Settings
from transcoder.telemetry import Telemetry


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _telemetry(request: Request) -> Telemetry:
    telemetry: Telemetry = request.app.state.telemetry
    return telemetry


async def _caller(request: Request) -> Principal | None:
    caller: Principal | None = request.state.principal
    return caller


async def _principal(request: Request) -> Principal:
    principal = await _caller(request)
    if principal is None:
        raise Unauthorized("this call needs an API key", presented=False)
    return principal


async def _tenant(request: Request) -> str:
    return (await _principal(request)).tenant


ServiceOf = Annotated[Service, Depends(_service)]
SettingsOf = Annotated[Settings, Depends(_settings)]
TelemetryOf = Annotated[Telemetry, Depends(_telemetry)]
PrincipalOf = Annotated[Principal, Depends(_principal)]
TenantOf = Annotated[str, Depends(_tenant)]
CallerOf = Annotated[Principal | None, Depends(_caller)]
"""On what is public: None for someone without a key."""
