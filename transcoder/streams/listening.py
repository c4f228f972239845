"""Ports that publishers come to: one for each stream that listens, out of a range of the operator's."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass

from pipelines.asked.streams import Listen
from pipelines.errors import PipelineError
from pipelines.live.link import ConnectFailed
from transcoder.network.addresses import parse_literal
from transcoder.streams.relay import Handover, closed, pair, pour
from transcoder.streams.rtmp.server import APP, Refused, accept, flv
from transcoder.streams.secrets import StreamSecrets
from transcoder.streams.srt import srt_listener

MAX_STRANGERS = 16
"""Connections that have not said the key yet."""


class ListenDisabled(PipelineError):
    code = "listen_disabled"


@dataclass(frozen=True)
class Ports:
    """`host` is the address that is listened on; `numbers` the range, empty: publishers are not taken."""

    host: str = "127.0.0.1"
    numbers: tuple[int, ...] = ()


class Listener:
    """A stream's port, open for as long as the stream runs. `url` is where publishers go, without the key."""

    def __init__(self, ports: Ports, listen: Listen, secrets: StreamSecrets) -> None:
        self._ports, self._listen, self._secrets = ports, listen, secrets
        self._socket: socket.socket | None = None
        self.port: int | None = None

    @property
    def url(self) -> str | None:
        if self.port is None:
            return None
        host = f"[{self._ports.host}]" if ":" in self._ports.host else self._ports.host
        path = f"/{APP}" if self._listen.protocol == "rtmp" else ""
        return f"{self._listen.protocol}://{host}:{self.port}{path}"

    def open(self) -> None:
        """Takes the first free port. ListenDisabled without a range, ConnectFailed when all are taken."""
        if not self._ports.numbers:
            raise ListenDisabled("this service takes no publishers (see TRANSCODER_LISTEN_PORTS)", stage="open")
        kind = socket.SOCK_STREAM if self._listen.protocol == "rtmp" else socket.SOCK_DGRAM
        family = socket.AF_INET6 if ":" in self._ports.host else socket.AF_INET
        for number in self._ports.numbers:
            sock = socket.socket(family, kind)
            try:
                if kind == socket.SOCK_STREAM:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((self._ports.host, number))
                if kind == socket.SOCK_STREAM:
                    sock.listen(MAX_STRANGERS)
            except OSError:
                sock.close()
                continue
            sock.setblocking(False)
            self._socket, self.port = sock, sock.getsockname()[1]
            return
        raise ConnectFailed("all ports for publishers are taken", stage="open")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def publisher(self) -> Handover:
        """The next one, however long it takes."""
        if self._listen.protocol == "srt":
            return await self._srt()
        assert self._socket is not None
        found: asyncio.Future[Handover] = asyncio.get_running_loop().create_future()
        strangers = 0

        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal strangers
            strangers += 1
            try:
                if strangers <= MAX_STRANGERS:
                    await self._greet(reader, writer, found)
            finally:
                strangers -= 1
                if not (found.done() and found.result().owner is writer):
                    writer.close()

        server = await asyncio.start_server(greet, sock=self._socket.dup())
        try:
            return await found
        finally:
            server.close()

    async def _greet(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, found: asyncio.Future[Handover]
    ) -> None:
        """Settles `found` when it is the publisher."""
        try:
            chunks = await accept(reader, writer, self._secrets.key or "")
        except Refused:
            return
        if found.done():
            return
        ours, theirs = pair()

        async def work() -> None:
            try:
                await pour(flv(chunks, writer), ours)
            finally:
                await closed(writer)

        found.set_result(Handover(theirs, format="flv", work=work, owner=writer))

    async def _srt(self) -> Handover:
        """The tool opens the port by itself, once the reservation is given up."""
        assert self.port is not None
        self.close()
        address = parse_literal(self._ports.host)
        assert address is not None
        return await srt_listener(address, self.port, self._secrets.passphrase or "")
