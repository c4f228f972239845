"""The HTTP application: routes, errors, metrics; and the service that it owns while it runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from typing import Protocol

from fastapi import FastAPI
from starlette.responses import RedirectResponse

from transcoder.api import devices, events, health, jobs, metrics, outputs, presets, probe, problems, schema, uploads
from transcoder.observer import Observer
from transcoder.service import Service
from transcoder.settings import Settings
from transcoder.telemetry import CountRequests, Telemetry

ROUTERS = (jobs, events, outputs, uploads, probe, presets, devices, health, metrics)

_DESCRIPTION = """Media transcoding: files in, delivery formats out.

Errors are `application/problem+json` with a stable `code`. Unknown fields are refused. Lists have `items` and `next`,
the cursor of the following page. Times are RFC 3339 in UTC, bitrates bit/s, durations seconds.
"""


class MakeService(Protocol):
    """Such as `Service`."""

    def __call__(self, settings: Settings, *, observer: Observer) -> AbstractAsyncContextManager[Service]: ...


def create_app(settings: Settings, make_service: MakeService = Service) -> FastAPI:
    """The application. Its service starts and stops with it (ASGI lifespan)."""
    telemetry = Telemetry()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        async with make_service(settings, observer=telemetry) as service:
            app.state.service = service
            yield

    app = FastAPI(
        title="transcoder",
        version=version("transcoder"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        redoc_url=None,
    )
    app.state.settings = settings
    app.state.telemetry = telemetry
    problems.install(app)
    schema.install(app)
    for module in ROUTERS:
        app.include_router(module.router)
    app.add_api_route("/", _front, include_in_schema=False)
    app.add_middleware(CountRequests, telemetry=telemetry)
    return app


async def _front() -> RedirectResponse:
    return RedirectResponse("/docs")
