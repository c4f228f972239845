"""RTMP's chunks: messages cut into pieces that share a connection (Adobe's RTMP specification, 5.3)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

DEFAULT_CHUNK_BYTES = 128
MAX_CHUNK_BYTES = 1 << 24
MAX_MESSAGE_BYTES = 16 << 20
MAX_CHUNK_STREAMS = 64
_EXTENDED = 0xFFFFFF
SET_CHUNK_SIZE, ACKNOWLEDGEMENT, WINDOW_SIZE, PEER_BANDWIDTH = 1, 3, 5, 6
AUDIO, VIDEO, DATA, COMMAND = 8, 9, 18, 20


class ProtocolError(Exception):
    """What came is no RTMP, or more of it than is taken."""


@dataclass(frozen=True)
class Message:
    kind: int
    stream: int
    timestamp: int
    """Milliseconds, 32 bits."""
    body: bytes


@dataclass
class _Lane:
    """The state of a chunk stream."""

    timestamp: int = 0
    delta: int = 0
    length: int = 0
    kind: int = 0
    stream: int = 0
    extended: bool = False
    body: bytearray | None = None


class ChunkReader:
    """Messages out of a connection. asyncio.IncompleteReadError at its end."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._size = DEFAULT_CHUNK_BYTES
        self._lanes: dict[int, _Lane] = {}
        self.received = 0
        """Bytes so far."""

    async def message(self) -> Message:
        """The next whole one. Changes of the chunk size are followed, and not told."""
        while True:
            message = await self._chunk()
            if message is None:
                continue
            if message.kind == SET_CHUNK_SIZE:
                self._size = int.from_bytes(message.body[:4]) & 0x7FFFFFFF
                if not 1 <= self._size <= MAX_CHUNK_BYTES:
                    raise ProtocolError("a chunk size out of bounds")
                continue
            return message

    async def _chunk(self) -> Message | None:
        """Reads one chunk; the message that it completes."""
        first = (await self._take(1))[0]
        form, number = first >> 6, first & 0x3F
        if number == 0:
            number = 64 + (await self._take(1))[0]
        elif number == 1:
            number = 64 + int.from_bytes(await self._take(2), "little")
        lane = self._lanes.get(number)
        if lane is None:
            if form != 0 and form != 1:
                raise ProtocolError("a chunk without a beginning")
            if len(self._lanes) >= MAX_CHUNK_STREAMS:
                raise ProtocolError("too many chunk streams")
            lane = self._lanes[number] = _Lane()
        await self._head(lane, form)
        if lane.body is None:
            lane.body = bytearray()
        lane.body += await self._take(min(self._size, lane.length - len(lane.body)))
        if len(lane.body) < lane.length:
            return None
        body, lane.body = bytes(lane.body), None
        return Message(lane.kind, lane.stream, lane.timestamp, body)

    async def _head(self, lane: _Lane, form: int) -> None:
        if form == 3:
            if lane.extended:
                await self._take(4)
            if lane.body is None:
                lane.timestamp = (lane.timestamp + lane.delta) & 0xFFFFFFFF
            return
        head = await self._take({0: 11, 1: 7, 2: 3}[form])
        moment = int.from_bytes(head[:3])
        if form < 2:
            lane.length, lane.kind = int.from_bytes(head[3:6]), head[6]
            if lane.length > MAX_MESSAGE_BYTES:
                raise ProtocolError("a message that is too long")
        if form == 0:
            lane.stream = int.from_bytes(head[7:11], "little")
        lane.extended = moment == _EXTENDED
        if lane.extended:
            moment = int.from_bytes(await self._take(4))
        if form == 0:
            lane.timestamp, lane.delta = moment, 0
        else:
            lane.delta = moment
            lane.timestamp = (lane.timestamp + moment) & 0xFFFFFFFF
        lane.body = None

    async def _take(self, size: int) -> bytes:
        data = await self._reader.readexactly(size)
        self.received += size
        return data


def chunked(message: Message, *, lane: int, size: int = DEFAULT_CHUNK_BYTES) -> bytes:
    """A message as chunks, with a whole head."""
    moment = message.timestamp & 0xFFFFFFFF
    extended = moment.to_bytes(4) if moment >= _EXTENDED else b""
    head = min(moment, _EXTENDED).to_bytes(3) + len(message.body).to_bytes(3) + bytes([message.kind])
    pieces = [message.body[at : at + size] for at in range(0, len(message.body), size)] or [b""]
    first = bytes([lane]) + head + message.stream.to_bytes(4, "little") + extended + pieces[0]
    return first + b"".join(bytes([0xC0 | lane]) + extended + piece for piece in pieces[1:])
