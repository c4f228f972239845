"""Servers on loopback that answer downloads in one way each."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path

from transcoder.network.fetch import FetchedFile, fetch

LOOPBACK = (ip_network("127.0.0.0/8"),)
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter, str], Awaitable[None]]


@dataclass
class Peer:
    """A server that counts connections and keeps the heads of requests."""

    port: int = 0
    accepted: int = 0
    heads: list[str] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, path: str = "/clip.mp4", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def serving(answer: Answer, *, context: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    peer = Peer()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer.accepted += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            peer.heads.append(head)
            await answer(reader, writer, head.split(" ")[1])
            writer.close()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            peer.left.set()
            writer.close()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=context)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()


def says(text: str, body: bytes = b"") -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        writer.write(text.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        await writer.drain()

    return answer


async def get(url: str, target: Path, **options: object) -> FetchedFile:
    chosen: dict[str, object] = {"allowed_networks": LOOPBACK, "max_bytes": 1 << 20, "idle_seconds": 5.0, **options}
    return await fetch(url, target, **chosen)  # type: ignore[arg-type]
