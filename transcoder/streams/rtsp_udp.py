"""RTSP whose media comes in datagrams, for a process that speaks it over one connection (RFC 2326).

The process asks for its packets between the messages (interleaved). Here the server is asked to send them to two ports
of this machine for each track instead, and what comes from the server's address, and from no other, is put between
the messages: in order, each once. The other way round, the process's reports go to the server's port for reports.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address

from pipelines.live.link import ConnectFailed
from transcoder.network.addresses import Address
from transcoder.streams.datagrams import DATAGRAM_BYTES, RECEIVE_BUFFER_BYTES
from transcoder.streams.relay import closed

MAX_HEAD_BYTES = 32_768
MAX_BODY_BYTES = 1 << 20
WINDOW = 16
"""Packets that wait for one before them; are there more, it is lost."""
_PORT_ATTEMPTS = 50
_READ_BYTES = 1 << 16
_INTERLEAVED = re.compile(r"interleaved=(\d{1,3})-(\d{1,3})", re.IGNORECASE)
_SERVER_PORT = re.compile(r"server_port=(\d{1,5})(?:-(\d{1,5}))?", re.IGNORECASE)
_TRANSPORT = re.compile(r"^Transport:[^\r\n]*", re.IGNORECASE | re.MULTILINE)
_CSEQ = re.compile(r"^CSeq:\s*(\d+)", re.IGNORECASE | re.MULTILINE)
_LENGTH = re.compile(r"^Content-Length:\s*(\d+)", re.IGNORECASE | re.MULTILINE)
_HELLO = b"\x80\x60" + bytes(10), b"\x80\xc9\x00\x01" + bytes(4)
"""An empty packet and an empty report: they open the way back through what stands between."""


class Reorder:
    """Puts packets of RTP in order. Pure: packets in, those whose turn it is out."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._waiting: dict[int, bytes] = {}

    def take(self, packet: bytes) -> list[bytes]:
        if len(packet) < 12 or packet[0] >> 6 != 2:
            return []
        number = int.from_bytes(packet[2:4])
        if self._next is None:
            self._next = number
        ahead = (number - self._next) & 0xFFFF
        if ahead >= 0x8000:
            return []  # it is too late, or comes twice
        if ahead > 0x1000:
            # the sender began anew
            self._next, self._waiting = number, {}
        self._waiting[number] = packet
        if len(self._waiting) > WINDOW:
            expected = self._next
            self._next = min(self._waiting, key=lambda each: (each - expected) & 0xFFFF)
        ready = []
        while (found := self._waiting.pop(self._next, None)) is not None:
            ready.append(found)
            self._next = (self._next + 1) & 0xFFFF
        return ready


@dataclass
class _Track:
    """`channels`: as the process knows it; `sockets`: for packets and for reports."""

    channels: tuple[int, int]
    sockets: tuple[socket.socket, socket.socket]

    @property
    def ports(self) -> str:
        return "-".join(str(each.getsockname()[1]) for each in self.sockets)


class RtspOverUdp:
    """One connection to a server at `address`, which was checked."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: Address) -> None:
        self._reader, self._writer, self._address = reader, writer, address
        self._local: str = writer.get_extra_info("sockname")[0]
        self._asked: dict[str, _Track] = {}
        self._tracks: list[_Track] = []
        self._receiving: list[asyncio.Task[None]] = []
        self._sending = asyncio.Lock()

    async def exchange(self, target: socket.socket) -> None:
        """Until the process or the server ends the connection."""
        theirs, self._process = await asyncio.open_connection(sock=target)
        ways = {asyncio.create_task(self._outwards(theirs)), asyncio.create_task(self._inwards())}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            tasks = [*ways, *self._receiving]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for track in (*self._tracks, *self._asked.values()):
                for sock in track.sockets:
                    sock.close()
            await closed(self._process, self._writer)

    async def _outwards(self, source: asyncio.StreamReader) -> None:
        """What the process asks, with another transport; its reports to where they belong."""
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                first = await source.readexactly(1)
                if first == b"$":
                    head = await source.readexactly(3)
                    self._report(head[0], await source.readexactly(int.from_bytes(head[1:])))
                    continue
                head_text, body = await _message(first, source)
                asked = _INTERLEAVED.search(head_text)
                if head_text.startswith("SETUP ") and asked is not None:
                    track = _Track((int(asked[1]), int(asked[2])), self._open_ports())
                    self._asked[_number(head_text)] = track
                    way = f"Transport: RTP/AVP;unicast;client_port={track.ports}"
                    head_text = _TRANSPORT.sub(way, head_text, count=1)
                self._writer.write(head_text.encode("latin-1") + body)
                await self._writer.drain()

    async def _inwards(self) -> None:
        """What the server answers, as if it had agreed to what the process asked for."""
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head, body = await _message(await self._reader.readexactly(1), self._reader)
                track = self._asked.pop(_number(head), None) if head.startswith("RTSP/") else None
                if track is not None:
                    head = self._agreed(head, track)
                await self._give(head.encode("latin-1") + body)

    def _agreed(self, head: str, track: _Track) -> str:
        """The server's answer to a SETUP; from now on the track's packets are taken."""
        told = _TRANSPORT.search(head)
        ports = _SERVER_PORT.search(told[0]) if told is not None else None
        if head.split(" ", 2)[1] != "200" or ports is None:
            for sock in track.sockets:
                sock.close()
            return head
        self._tracks.append(track)
        first = int(ports[1])
        for place, port in enumerate((first, int(ports[2] or first + 1))):
            # connected: the kernel lets through what comes from there alone
            track.sockets[place].connect((str(self._address), port))
            with contextlib.suppress(OSError):
                while track.sockets[place].recv(DATAGRAM_BYTES):
                    continue  # what came before it was: from anyone
            with contextlib.suppress(OSError):
                track.sockets[place].send(_HELLO[place])
            self._receiving.append(asyncio.create_task(self._receive(track, place)))
        low, high = track.channels
        return _TRANSPORT.sub(f"Transport: RTP/AVP/TCP;unicast;interleaved={low}-{high}", head, count=1)

    async def _receive(self, track: _Track, place: int) -> None:
        loop = asyncio.get_running_loop()
        order = Reorder()
        while True:
            try:
                packet = await loop.sock_recv(track.sockets[place], DATAGRAM_BYTES)
            except ConnectionRefusedError:
                continue  # an answer to our hello: the server does not listen there
            for each in order.take(packet) if place == 0 else [packet]:
                await self._give(b"$" + track.channels[place].to_bytes(1) + len(each).to_bytes(2) + each)

    async def _give(self, data: bytes) -> None:
        async with self._sending:
            self._process.write(data)
            await self._process.drain()

    def _report(self, channel: int, packet: bytes) -> None:
        for track in self._tracks:
            if channel in track.channels:
                with contextlib.suppress(OSError):
                    track.sockets[track.channels.index(channel)].send(packet)

    def _open_ports(self) -> tuple[socket.socket, socket.socket]:
        """An even port and the one after it, at the address that the server sees."""
        family = socket.AF_INET if isinstance(self._address, IPv4Address) else socket.AF_INET6
        for _ in range(_PORT_ATTEMPTS):
            first, second = (socket.socket(family, socket.SOCK_DGRAM) for _ in range(2))
            try:
                first.bind((self._local, 0))
                port = first.getsockname()[1]
                if port % 2 == 0:
                    second.bind((self._local, port + 1))
                    first.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
                    for sock in (first, second):
                        sock.setblocking(False)
                    return first, second
            except OSError:
                pass  # the port after it is another's
            first.close()
            second.close()
        raise ConnectFailed("there are no two ports for a track", stage="fetch")


async def _message(first: bytes, source: asyncio.StreamReader) -> tuple[str, bytes]:
    """Head and body. Latin-1 keeps every byte as it is."""
    head = first
    while not head.endswith(b"\r\n\r\n"):
        line = await source.readline()
        head += line
        if not line or len(head) > MAX_HEAD_BYTES:
            raise asyncio.IncompleteReadError(head, None)
    text = head.decode("latin-1")
    length = _LENGTH.search(text)
    size = int(length[1]) if length is not None else 0
    if size > MAX_BODY_BYTES:
        raise asyncio.IncompleteReadError(b"", size)
    return text, await source.readexactly(size)


def _number(head: str) -> str:
    found = _CSEQ.search(head)
    return found[1] if found is not None else ""
