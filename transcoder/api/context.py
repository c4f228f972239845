"""What routes are given: the service, its settings, the tenant."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from transcoder.service import Service
from transcoder.settings import Settings
from transcoder.telemetry import Telemetry

DEFAULT_TENANT = "default"


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _telemetry(request: Request) -> Telemetry:
    telemetry: Telemetry = request.app.state.telemetry
    return telemetry


ServiceOf = Annotated[Service, Depends(_service)]
SettingsOf = Annotated[Settings, Depends(_settings)]
TelemetryOf = Annotated[Telemetry, Depends(_telemetry)]
