"""A publisher of RTMP: takes FLV, as the engine writes it, to a server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any

from pipelines.live.link import ConnectFailed
from transcoder.streams.relay import closed
from transcoder.streams.rtmp import amf
from transcoder.streams.rtmp.chunks import (
    AUDIO,
    COMMAND,
    DATA,
    SET_CHUNK_SIZE,
    VIDEO,
    ChunkReader,
    Message,
    ProtocolError,
    chunked,
)
from transcoder.streams.urls import StreamUrl

CHUNK_BYTES = 4096
SEND_SECONDS = 10.0
"""How long a server may take nothing."""
_HANDSHAKE_BYTES = 1536
_LANES = {AUDIO: 4, VIDEO: 6, DATA: 5}
_USER_CONTROL, _PING, _PONG = 4, 6, 7
_SET_DATA_FRAME = amf.encode("@setDataFrame")
_READ_BYTES = 1 << 16


class Publisher:
    """A connection to a server on which a stream is published."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._chunks = ChunkReader(reader)
        self._stream = 1

    async def greet(self, url: StreamUrl) -> None:
        """Until the server takes the stream. ConnectFailed when it does not."""
        app, key = split_path(url.path)
        try:
            await self._shake_hands()
            self._write(Message(SET_CHUNK_SIZE, 0, 0, CHUNK_BYTES.to_bytes(4)), 2, whole=True)
            about = {
                "app": app,
                "type": "nonprivate",
                "flashVer": "FMLE/3.0",
                "tcUrl": f"{url.scheme}://{url.authority}/{app}",
            }
            self._command("connect", 1, about)
            await self._result(1)
            self._command("releaseStream", 2, None, key)
            self._command("FCPublish", 3, None, key)
            self._command("createStream", 4, None)
            values = await self._result(4)
            if len(values) > 1 and isinstance(values[1], float):
                self._stream = int(values[1])
            self._command("publish", 5, None, key, "live", stream=self._stream)
            await self._writer.drain()
            await self._started()
        except (ProtocolError, amf.Malformed, asyncio.IncompleteReadError, OSError) as error:
            raise ConnectFailed(
                "the server broke the connection off before it took the stream", stage="fetch"
            ) from error

    async def send(self, source: socket.socket) -> None:
        """Everything that comes over `source`, until it ends or the server does."""
        listening = asyncio.create_task(self._listen())
        sending = asyncio.create_task(self._send(source))
        try:
            await asyncio.wait({listening, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (listening, sending):
                task.cancel()
            await asyncio.gather(listening, sending, return_exceptions=True)
            source.close()
            await closed(self._writer)

    async def _shake_hands(self) -> None:
        self._writer.write(b"\x03" + bytes(8) + os.urandom(_HANDSHAKE_BYTES - 8))
        hello = await self._reader.readexactly(1 + 2 * _HANDSHAKE_BYTES)
        if hello[0] != 3:
            raise ProtocolError("no RTMP")
        self._writer.write(hello[1 : 1 + _HANDSHAKE_BYTES])

    async def _result(self, transaction: int) -> list[Any]:
        """What follows the transaction's number in its answer."""
        while True:
            name, values = await self._next_command()
            if values and values[0] == transaction:
                if name == "_error":
                    raise ConnectFailed(f"the server refused the stream: {_told(values)}", stage="fetch")
                if name == "_result":
                    return values[1:]

    async def _started(self) -> None:
        while True:
            name, values = await self._next_command()
            if name != "onStatus":
                continue
            about = next((value for value in values if isinstance(value, dict)), {})
            if about.get("code") == "NetStream.Publish.Start":
                return
            if about.get("level") == "error":
                raise ConnectFailed(f"the server refused the stream: {_told(values)}", stage="fetch")

    async def _next_command(self) -> tuple[str, list[Any]]:
        while True:
            message = await self._chunks.message()
            if message.kind == COMMAND:
                values = amf.Reader(message.body)
                name, found = values.value(), []
                while not values.is_empty:
                    found.append(values.value())
                return str(name), found
            self._answer(message)

    def _answer(self, message: Message) -> None:
        if message.kind == _USER_CONTROL and int.from_bytes(message.body[:2]) == _PING:
            pong = _PONG.to_bytes(2) + message.body[2:6]
            self._write(Message(_USER_CONTROL, 0, 0, pong), 2)

    async def _listen(self) -> None:
        """Until the server ends, or says that it wants no more."""
        with contextlib.suppress(ProtocolError, amf.Malformed, asyncio.IncompleteReadError, OSError):
            while True:
                message = await self._chunks.message()
                self._answer(message)
                if message.kind == COMMAND:
                    values = amf.Reader(message.body)
                    if values.value() == "onStatus" and b"error" in message.body:
                        return

    async def _send(self, source: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        tags = FlvTags()
        while data := await loop.sock_recv(source, _READ_BYTES):
            for message in tags.feed(data, self._stream):
                self._write(message, _LANES[message.kind])
            async with asyncio.timeout(SEND_SECONDS):
                await self._writer.drain()

    def _command(self, *values: Any, stream: int = 0) -> None:
        self._write(Message(COMMAND, stream, 0, amf.encode(*values)), 3)

    def _write(self, message: Message, lane: int, *, whole: bool = False) -> None:
        self._writer.write(chunked(message, lane=lane, size=128 if whole else CHUNK_BYTES))


class FlvTags:
    """Cuts an FLV file into messages, as it comes."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._begun = False

    def feed(self, data: bytes, stream: int) -> list[Message]:
        self._waiting += data
        if not self._begun:
            if len(self._waiting) < 13:
                return []
            del self._waiting[: int.from_bytes(self._waiting[5:9]) + 4]
            self._begun = True
        found = []
        while len(self._waiting) >= 11:
            size = int.from_bytes(self._waiting[1:4])
            if len(self._waiting) < size + 15:
                break
            kind = self._waiting[0] & 0x1F
            moment = int.from_bytes(self._waiting[4:7]) | self._waiting[7] << 24
            body = bytes(self._waiting[11 : 11 + size])
            del self._waiting[: size + 15]
            if kind == DATA:
                body = _SET_DATA_FRAME + body
            if kind in _LANES and body:
                found.append(Message(kind, stream, moment, body))
        return found


def split_path(path: str) -> tuple[str, str]:
    """The application and the stream's name: the last part of the path, with the query."""
    plain, mark, query = path.lstrip("/").partition("?")
    app, _, key = plain.rpartition("/")
    return app, key + mark + query


def _told(values: list[Any]) -> str:
    about = next((value for value in values if isinstance(value, dict)), {})
    return str(about.get("description") or about.get("code") or "no reason given")[:200]
