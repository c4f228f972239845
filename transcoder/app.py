"""The HTTP application: routes, errors, metrics; and the service that it owns while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from typing import Protocol

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from transcoder.api import (
    devices,
    events,
    feed,
    health,
    jobs,
    links,
    metrics,
    nodes,
    outputs,
    page,
    presets,
    probe,
    problems,
    queues,
    receipts,
    schema,
    transcode,
    tus,
    uploads,
    webhooks,
)
from transcoder.api.auth import CHANGING, READING, Gate, gatekeeper
from transcoder.api.headers import SecurityHeaders
from transcoder.auth.authority import Authority
from transcoder.auth.secret import server_secret
from transcoder.auth.store import KeyStore
from transcoder.observer import Observer
from transcoder.service import Service
from transcoder.settings import Settings
from transcoder.telemetry import CountRequests, Telemetry

ROUTERS = (
    *(jobs, health, receipts, transcode, feed, events, outputs, links, webhooks, uploads, tus, probe),
    *(presets, devices, queues, nodes, metrics, page),
)
"""Asked in this order: those that are read most come first."""

EXPOSED_HEADERS = (
    *("Location", "ETag", "Content-Range", "Content-Disposition", "Retry-After", "Tus-Resumable", "Tus-Version"),
    *("Tus-Extension", "Tus-Max-Size", "Upload-Offset", "Upload-Length", "Upload-Expires"),
)
"""What a web page of another origin may read of an answer, besides the body."""

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
            app.state.gatekeeper = gatekeeper(
                settings, Authority(KeyStore(service.database)), await _link_secret(settings, service)
            )
            yield

    app = FastAPI(
        title="transcoder",
        version=version("transcoder"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    app.state.settings = settings
    app.state.telemetry = telemetry
    problems.install(app)
    schema.install(app)
    for module in ROUTERS:
        app.include_router(module.router)
    # each is put around those before it
    app.add_middleware(Gate)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=sorted(READING | CHANGING),
            allow_headers=["*"],
            expose_headers=EXPOSED_HEADERS,
        )
    app.add_middleware(CountRequests, telemetry=telemetry)
    app.add_middleware(SecurityHeaders)
    return app


async def _link_secret(settings: Settings, service: Service) -> bytes:
    if settings.link_secret is not None:
        return settings.link_secret.get_secret_value().encode()
    return await asyncio.to_thread(server_secret, service.storage.data_dir / "link.secret")
