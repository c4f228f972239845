"""Passing bytes on between a connection of the service's and a stream's process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

CHUNK_BYTES = 1 << 16
CLOSE_SECONDS = 1.0
"""What the other side has left to take."""


@dataclass
class Handover:
    """What a stream's process gets: one end of a connection, and how it is to be taken.

    `work` is what keeps the bytes flowing, for as long as the process has the connection.
    """

    sock: socket.socket
    kind: str = "bytes"
    url: str = ""
    format: str | None = None
    paced: bool = False
    options: dict[str, str] = field(default_factory=dict)
    work: Callable[[], Awaitable[None]] | None = None
    owner: object = None
    """What `work` closes at its end."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Ours, which does not block, and the process's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    return ours, theirs


async def pour(chunks: AsyncIterator[bytes], target: socket.socket) -> None:
    """All of `chunks` into `target`, as fast as the process takes them; then the end."""
    loop = asyncio.get_running_loop()
    with target:
        async for chunk in chunks:
            try:
                await loop.sock_sendall(target, chunk)
            except (BrokenPipeError, ConnectionResetError):
                return  # the process has given the connection up


async def closed(*writers: asyncio.StreamWriter) -> None:
    """Ends connections in order. One whose other side takes nothing is cut off, or it would stay for ever."""
    open_still = list(writers)
    try:
        for writer in writers:
            writer.close()
        for writer in writers:
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await writer.wait_closed()
            open_still.remove(writer)
    except OSError:
        pass  # it took nothing in time, or is broken: which is why it is cut off
    finally:
        for writer in open_still:
            cut_off(writer)


def cut_off(writer: asyncio.StreamWriter) -> None:
    """At once, with what was not taken: the system would go on offering it for minutes."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: socket.socket) -> None:
    """Both directions, until one side ends."""
    loop = asyncio.get_running_loop()

    async def outwards() -> None:
        while chunk := await loop.sock_recv(target, CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()

    async def inwards() -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            await loop.sock_sendall(target, chunk)

    with target:
        ways = {asyncio.create_task(outwards()), asyncio.create_task(inwards())}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await closed(writer)
