"""`transcoder serve`: the service, with everything in this one process, or one part of it beside others."""

from __future__ import annotations

import math
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from transcoder.cli.failures import FAILED, CommandError, values_from
from transcoder.cli.options import load_settings
from transcoder.cli.screen import own_command, say

if TYPE_CHECKING:
    from transcoder.settings import Settings


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; TRANSCODER_HOST otherwise.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one. TRANSCODER_PORT otherwise.")] = None,
    role: Annotated[
        Literal["all", "api", "worker"] | None,
        typer.Option(help="api or worker: one part of it, with a PostgreSQL database. TRANSCODER_ROLE otherwise."),
    ] = None,
) -> None:
    """Run the service: HTTP API, queue and workers. Stops gracefully on Ctrl-C or SIGTERM."""
    settings = _with(load_settings(), host=host, port=port, role=role)
    if settings.role == "worker":
        _work(settings)
        return
    _check_reach(settings)
    listener = _listen(settings.host, settings.port)
    address = _address(settings.host, listener)
    _run(_with(settings, port=listener.getsockname()[1]), listener, address)


def _run(settings: Settings, listener: socket.socket, address: str) -> None:
    import uvicorn

    from transcoder import logs
    from transcoder.app import create_app
    from transcoder.cli.refusal import Refusal
    from transcoder.network.connections import guarded

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                _announce(settings, address)

    logs.configure(settings.log_format, settings.log_level)
    refusal = Refusal()
    config = uvicorn.Config(
        create_app(settings, refusal.make_service),
        log_config=None,
        access_log=False,
        http=guarded(max_connections=settings.max_connections),
        ws="none",
        timeout_graceful_shutdown=math.ceil(settings.shutdown_seconds) + 1,
    )
    server = Server(config)
    # uvicorn raises the signal that stopped it once more, for whoever had it before: a graceful end is exit code 0
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    # where the start fails, uvicorn ends the process with a code of its own
    with suppress(SystemExit):
        server.run(sockets=[listener])
    if refusal.error is not None:
        raise CommandError(refusal.error.code, refusal.error.message, FAILED)
    if not server.started:
        raise CommandError("internal", "the service did not start; the lines above tell why", FAILED)


def _work(settings: Settings) -> None:
    """A worker listens nowhere."""
    import asyncio

    from transcoder import logs
    from transcoder.errors import ServiceError
    from transcoder.service import Service

    async def work() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        async with Service(settings):
            print(f"transcoder works as node {settings.node} (data in {settings.data_dir})", flush=True)
            await stopped.wait()

    logs.configure(settings.log_format, settings.log_level)
    try:
        asyncio.run(work())
    except ServiceError as error:
        raise CommandError(error.code, error.message, FAILED) from None


def _announce(settings: Settings, address: str) -> None:
    print(f"transcoder listens on {address} (the page; API at {address}/docs, data in {settings.data_dir})")
    print(f"next: {own_command()} jobs submit FILE --preset web-mp4 --wait --server {address}", flush=True)


def _with(settings: Settings, *, host: str | None = None, port: int | None = None, role: str | None = None) -> Settings:
    given = (("host", host), ("port", port), ("role", role))
    changed = {name: value for name, value in given if value is not None}
    with values_from("options"):
        return type(settings).model_validate(settings.model_dump() | changed)


def _check_reach(settings: Settings) -> None:
    """CommandError when everyone who reaches the port could run jobs and read results."""
    import asyncio

    from transcoder.auth.hosts import is_loopback
    from transcoder.auth.opening import keys_exist

    if is_loopback(settings.host) or asyncio.run(keys_exist(settings)):
        return
    if not settings.insecure:
        raise CommandError(
            "not_loopback",
            f"{settings.host} is no loopback address, and there are no API keys: make one with "
            f"`{own_command()} keys create --name NAME`, or let everyone in with TRANSCODER_INSECURE=1",
        )
    say(f"warning [insecure]: everyone who reaches {settings.host} may use this service: there are no API keys")


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; CommandError where there can't be one."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise CommandError("address_in_use", f"{host}:{port}: {error.strerror}", FAILED) from None


def _address(host: str, listener: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"
