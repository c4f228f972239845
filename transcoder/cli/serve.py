"""`transcoder serve`: the service, with everything in this one process."""

from __future__ import annotations

import logging
import math
import signal
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated

import typer

from transcoder.cli.failures import FAILED, CommandError, values_from
from transcoder.cli.options import load_settings
from transcoder.cli.screen import own_command

if TYPE_CHECKING:
    from transcoder.settings import Settings


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; TRANSCODER_HOST otherwise.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one. TRANSCODER_PORT otherwise.")] = None,
) -> None:
    """Run the service: HTTP API, queue and workers. Stops gracefully on Ctrl-C or SIGTERM."""
    settings = _with(load_settings(), host=host, port=port)
    listener = _listen(settings.host, settings.port)
    address = _address(settings.host, listener)
    _run(_with(settings, port=listener.getsockname()[1]), listener, address)


def _run(settings: Settings, listener: socket.socket, address: str) -> None:
    import uvicorn

    from transcoder.app import create_app

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                _announce(settings, address)

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    config = uvicorn.Config(
        create_app(settings),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=math.ceil(settings.shutdown_seconds) + 1,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    server = Server(config)
    # uvicorn raises the signal that stopped it once more, for whoever had it before: a graceful end is exit code 0
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    server.run(sockets=[listener])
    if not server.started:
        raise CommandError("internal", "the service did not start; the lines above tell why", FAILED)


def _announce(settings: Settings, address: str) -> None:
    print(f"transcoder listens on {address} (data in {settings.data_dir}; API description at {address}/docs)")
    print(f"next: {own_command()} jobs submit FILE --preset web-mp4 --wait --server {address}", flush=True)


def _with(settings: Settings, *, host: str | None = None, port: int | None = None) -> Settings:
    changed = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    with values_from("options"):
        return type(settings).model_validate(settings.model_dump() | changed)


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket on a loopback address; CommandError where there can't be one."""
    if not _is_loopback(host):
        # without keys everyone who reaches the port may run jobs and read results
        raise CommandError(
            "not_loopback",
            f"{host} is no loopback address, and there is no authentication yet: listen on 127.0.0.1 "
            "and put a proxy that authenticates in front",
        )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise CommandError("address_in_use", f"{host}:{port}: {error.strerror}", FAILED) from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _address(host: str, listener: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"
