"""An HTTP server on loopback that sends a file, or the start of one and then nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class SlowServer:
    """`hang`: the body never ends."""

    content: bytes
    hang: bool
    url: str = ""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        length = len(self.content) * (2 if self.hang else 1)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % length + self.content)
        await writer.drain()
        self.asked.set()
        if self.hang:
            await reader.read()
        self.gone.set()
        writer.close()


@asynccontextmanager
async def slow_server(content: bytes = b"media", *, hang: bool) -> AsyncGenerator[SlowServer, None]:
    server = SlowServer(content, hang)
    listener = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/clip.mp4"
    try:
        yield server
    finally:
        listener.close()
