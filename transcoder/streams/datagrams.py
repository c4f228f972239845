"""Transport streams in datagrams: plain or in RTP, from a group or to an address."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from ipaddress import IPv4Address

from pipelines.live.link import ConnectFailed
from transcoder.network.addresses import Address

DATAGRAM_BYTES = 65_536
RECEIVE_BUFFER_BYTES = 4 << 20
TS_BYTES = 188
SENT_BYTES = 7 * TS_BYTES
"""As many packets as fit an Ethernet frame."""
_RTP_TS = 33
"""RTP's payload type of transport streams (RFC 3551)."""


def bind_datagrams(address: Address, port: int) -> socket.socket:
    """A socket that receives what is sent to the address; a group is joined. ConnectFailed where that can't be."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        if address.is_multicast:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # bound to the group, so that nothing else that comes to the port is taken for it
        sock.bind((str(address), port))
        if address.is_multicast:
            _join(sock, address)
    except OSError as error:
        sock.close()
        raise ConnectFailed(f"can't receive at {address}:{port}: {error.strerror}", stage="fetch") from error
    return sock


def _join(sock: socket.socket, group: Address) -> None:
    if isinstance(group, IPv4Address):
        request = group.packed + socket.inet_aton("0.0.0.0")
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group.packed + struct.pack("@I", 0))


async def receive(sock: socket.socket, *, rtp: bool) -> AsyncIterator[bytes]:
    """Payloads as they come; of RTP without its headers, and without packets that come late or twice."""
    loop = asyncio.get_running_loop()
    newest: int | None = None
    with sock:
        while True:
            data = await loop.sock_recv(sock, DATAGRAM_BYTES)
            if not rtp:
                yield data
                continue
            parsed = rtp_payload(data)
            if parsed is None:
                continue
            sequence, payload = parsed
            if newest is not None and not 0 < (sequence - newest) & 0xFFFF < 0x8000:
                continue
            newest = sequence
            yield payload


def rtp_payload(data: bytes) -> tuple[int, bytes] | None:
    """Sequence number and payload of an RTP packet that carries a transport stream; None for all else."""
    if len(data) < 12 or data[0] >> 6 != 2 or data[1] & 0x7F != _RTP_TS:
        return None
    begin = 12 + 4 * (data[0] & 0x0F)
    if data[0] & 0x10 and len(data) >= begin + 4:
        begin += 4 + 4 * int.from_bytes(data[begin + 2 : begin + 4])
    end = len(data) - data[-1] if data[0] & 0x20 else len(data)
    return (int.from_bytes(data[2:4]), data[begin:end]) if begin < end else None


async def send_datagrams(source: socket.socket, address: Address, port: int) -> None:
    """What the process writes, in datagrams of whole packets."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    waiting = bytearray()
    with source, socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        if address.is_multicast and isinstance(address, IPv4Address):
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        sock.connect((str(address), port))
        while chunk := await loop.sock_recv(source, DATAGRAM_BYTES):
            waiting += chunk
            while len(waiting) >= SENT_BYTES:
                await _send(loop, sock, bytes(waiting[:SENT_BYTES]))
                del waiting[:SENT_BYTES]
        if waiting:
            await _send(loop, sock, bytes(waiting))


async def _send(loop: asyncio.AbstractEventLoop, sock: socket.socket, data: bytes) -> None:
    try:
        await loop.sock_sendall(sock, data)
    except ConnectionRefusedError:
        return  # nobody is there just now: datagrams don't care
