"""A server for one RTMP publisher that knows the stream key: what it sends comes out as FLV."""

from __future__ import annotations

import asyncio
import hmac
import os
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

from transcoder.streams.rtmp import amf
from transcoder.streams.rtmp.chunks import (
    ACKNOWLEDGEMENT,
    AUDIO,
    COMMAND,
    DATA,
    PEER_BANDWIDTH,
    SET_CHUNK_SIZE,
    VIDEO,
    WINDOW_SIZE,
    ChunkReader,
    Message,
    ProtocolError,
    chunked,
)

HANDSHAKE_BYTES = 1536
HANDSHAKE_SECONDS = 10.0
PUBLISH_SECONDS = 15.0
"""From a connection's first byte until it publishes with the right key."""
WINDOW_BYTES = 2_500_000
STREAM_ID = 1
APP = "live"

_FLV_HEADER = b"FLV\x01\x05\x00\x00\x00\x09" + bytes(4)
_ENDING = frozenset({"FCUnpublish", "deleteStream", "closeStream"})
_DATA_NAME = re.compile(rb"\x02\x00\x0d@setDataFrame")


class Refused(Exception):
    """Someone who is no publisher, or does not know the key."""


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> ChunkReader:
    """Takes a publisher in. Refused (the connection is to be closed) for all others."""
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await _shake_hands(reader, writer)
        chunks = ChunkReader(reader)
        async with asyncio.timeout(PUBLISH_SECONDS):
            await _until_published(chunks, writer, key)
    except (TimeoutError, ProtocolError, amf.Malformed, asyncio.IncompleteReadError, OSError) as error:
        raise Refused(str(error)) from error
    return chunks


async def flv(chunks: ChunkReader, writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    """What the publisher sends, until it ends or breaks off."""
    yield _FLV_HEADER
    acknowledged = 0
    try:
        while True:
            message = await chunks.message()
            if message.kind in (AUDIO, VIDEO, DATA):
                if message.body:
                    yield _tag(message)
            elif message.kind == COMMAND and amf.Reader(message.body).value() in _ENDING:
                return
            if chunks.received - acknowledged >= WINDOW_BYTES:
                acknowledged = chunks.received
                told = (acknowledged & 0xFFFFFFFF).to_bytes(4)
                writer.write(chunked(Message(ACKNOWLEDGEMENT, 0, 0, told), lane=2))
    except (ProtocolError, amf.Malformed, asyncio.IncompleteReadError, OSError):
        return


async def _shake_hands(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The plain handshake: what digests some clients send with it is not asked for."""
    hello = await reader.readexactly(1 + HANDSHAKE_BYTES)
    if hello[0] != 3:
        raise ProtocolError("no RTMP")
    writer.write(b"\x03" + bytes(8) + os.urandom(HANDSHAKE_BYTES - 8) + hello[1:])
    await writer.drain()
    await reader.readexactly(HANDSHAKE_BYTES)


async def _until_published(chunks: ChunkReader, writer: asyncio.StreamWriter, key: str) -> None:
    while True:
        message = await chunks.message()
        if message.kind != COMMAND:
            continue
        values = amf.Reader(message.body)
        name, transaction = values.value(), values.value()
        rest = []
        while not values.is_empty:
            rest.append(values.value())
        if name == "connect":
            _welcome(writer, transaction)
        elif name == "createStream":
            _reply(writer, "_result", transaction, None, STREAM_ID)
        elif name in ("releaseStream", "FCPublish"):
            _reply(writer, "_result", transaction, None, None)
        elif name == "publish":
            given = rest[1] if len(rest) > 1 and isinstance(rest[1], str) else ""
            if not hmac.compare_digest(unquote(given.partition("?")[0]).encode(), key.encode()):
                _status(writer, "error", "NetStream.Publish.BadName", "there is no such stream")
                await writer.drain()
                raise Refused("a wrong stream key")
            _status(writer, "status", "NetStream.Publish.Start", "publishing")
            await writer.drain()
            return
        elif name == "play":
            raise Refused("it wants to play")
        await writer.drain()


def _welcome(writer: asyncio.StreamWriter, transaction: Any) -> None:
    window = WINDOW_BYTES.to_bytes(4)
    writer.write(chunked(Message(WINDOW_SIZE, 0, 0, window), lane=2))
    writer.write(chunked(Message(PEER_BANDWIDTH, 0, 0, window + b"\x02"), lane=2))
    writer.write(chunked(Message(SET_CHUNK_SIZE, 0, 0, (128).to_bytes(4)), lane=2))
    _reply(
        writer, "_result", transaction, {"fmsVer": "FMS/3,0,1,123", "capabilities": 31.0},
        {"level": "status", "code": "NetConnection.Connect.Success", "description": "connected", "objectEncoding": 0.0},
    )  # fmt: skip


def _reply(writer: asyncio.StreamWriter, *values: Any) -> None:
    writer.write(chunked(Message(COMMAND, 0, 0, amf.encode(*values)), lane=3))


def _status(writer: asyncio.StreamWriter, level: str, code: str, description: str) -> None:
    about = {"level": level, "code": code, "description": description}
    writer.write(chunked(Message(COMMAND, STREAM_ID, 0, amf.encode("onStatus", 0, None, about)), lane=5))


def _tag(message: Message) -> bytes:
    """The message as a tag of an FLV file."""
    body = message.body
    if message.kind == DATA:
        # what is said to a server is not said in a file
        body = _DATA_NAME.sub(b"", body, count=1)
    size, moment = len(body).to_bytes(3), message.timestamp
    head = bytes([message.kind]) + size + (moment & 0xFFFFFF).to_bytes(3) + bytes([moment >> 24 & 0xFF]) + bytes(3)
    return head + body + (len(head) + len(body)).to_bytes(4)
