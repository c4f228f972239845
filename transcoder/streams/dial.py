"""Connections on a stream's behalf: to addresses that were checked, and to no others."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import IPv4Address

from pipelines.errors import cause
from pipelines.live.link import HOST, ConnectFailed
from transcoder.network.addresses import (
    Address,
    BlockedAddress,
    Network,
    Resolve,
    Target,
    parse_literal,
    resolve_target,
)
from transcoder.network.fetch import DNS_SECONDS, content_type_of, opened
from transcoder.streams.datagrams import bind_datagrams, receive, send_datagrams
from transcoder.streams.hls_pull import HLS_TYPES, pull
from transcoder.streams.relay import Handover, cut_off, exchange, pair, pour
from transcoder.streams.rtmp.client import Publisher
from transcoder.streams.rtsp_push import RtspPublisher
from transcoder.streams.rtsp_udp import RtspOverUdp
from transcoder.streams.srt import srt_connection
from transcoder.streams.urls import TLS, StreamUrl

HLS_SUFFIXES = (".m3u8", ".m3u")
RTMP_OPTIONS = {"rtmp_live": "live"}
SEND_BUFFER_BYTES = 1 << 19
"""That the system keeps for a server that is sent to: by itself it keeps megabytes, so that one that reads nothing is
not noticed for minutes, and then shown what is long over.
"""


@dataclass(frozen=True)
class Dialer:
    """`ssl_context` and `resolve` are passed so that tests have servers of their own."""

    allowed_networks: tuple[Network, ...]
    connect_seconds: float = 10.0
    read_seconds: float = 10.0
    resolve: Resolve | None = None
    ssl_context: ssl.SSLContext | None = None

    async def dial(self, url: StreamUrl, *, sends: bool, about: str = "", in_datagrams: bool = False) -> Handover:
        """BlockedAddress, DnsTimeout, ConnectFailed, and UnsupportedProtocol where this machine lacks one.

        `about`: what a server of RTSP that takes a stream is told of it. `in_datagrams`: how one is to send.
        """
        if in_datagrams and url.scheme == "rtsp" and not sends:
            return await self._rtsp_over_udp(url)
        return await (_OUT if sends else _IN)[url.scheme](self, url, about)

    async def addresses(self, url: StreamUrl) -> tuple[Address, ...]:
        target = Target(url.scheme, url.host, url.port, url.path)
        try:
            return await resolve_target(
                target, allowed_networks=self.allowed_networks, timeout_seconds=DNS_SECONDS, resolve=self.resolve
            )
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectFailed(f"the name {url.host} does not resolve", stage="fetch") from error

    async def tcp(self, url: StreamUrl) -> socket.socket:
        """A connection to the first of the host's addresses that takes one."""
        loop = asyncio.get_running_loop()
        failure = "it has no address"
        for address in await self.addresses(url):
            family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            try:
                async with asyncio.timeout(self.connect_seconds):
                    await loop.sock_connect(sock, (str(address), url.port))
            except TimeoutError:
                sock.close()
                failure = f"no answer within {self.connect_seconds:g} s"
            except OSError as error:
                sock.close()
                failure = cause(error)
            except BaseException:
                sock.close()
                raise
            else:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                return sock
        raise ConnectFailed(f"no connection to {url.host}:{url.port}: {failure}", stage="fetch")

    async def _server(self, url: StreamUrl, about: str) -> Handover:
        """RTSP or RTMP, which the process speaks itself; TLS is spoken here."""
        kind = url.scheme.removesuffix("s")
        options = {}
        if kind == "rtmp":
            app = url.path.strip("/").rpartition("/")[0]
            options = {**RTMP_OPTIONS, "rtmp_tcurl": f"{url.scheme}://{url.authority}/{app}"}
        told = f"{kind}://{url.login}{HOST}{url.path}"
        if url.scheme not in TLS:
            return Handover(await self.tcp(url), kind, told, options=options)
        _, reader, writer = await self._streams(url)
        ours, theirs = pair()
        return Handover(theirs, kind, told, options=options, work=lambda: exchange(reader, writer, ours))

    async def _rtsp_over_udp(self, url: StreamUrl) -> Handover:
        sock, reader, writer = await self._streams(url)
        address = parse_literal(sock.getpeername()[0])
        assert address is not None
        relay = RtspOverUdp(reader, writer, address)
        ours, theirs = pair()
        return Handover(theirs, "rtsp", f"rtsp://{url.login}{HOST}{url.path}", work=lambda: relay.exchange(ours))

    async def _publish(self, url: StreamUrl, about: str) -> Handover:
        """RTMP, spoken here: what the process writes is FLV."""
        if url.login:
            raise ConnectFailed("RTMP with a user name is not spoken here; servers take a stream key", stage="fetch")
        reader, writer = await self._sending(url)
        publisher = Publisher(reader, writer)
        try:
            async with asyncio.timeout(self.connect_seconds):
                await publisher.greet(url)
        except TimeoutError:
            cut_off(writer)
            raise ConnectFailed(f"{url.host} did not take the stream in time", stage="fetch") from None
        except BaseException:
            cut_off(writer)
            raise
        ours, theirs = pair()
        return Handover(theirs, work=lambda: publisher.send(ours))

    async def _record(self, url: StreamUrl, about: str) -> Handover:
        """RTSP, spoken here: what the process writes is RTP."""
        reader, writer = await self._sending(url)
        publisher = RtspPublisher(reader, writer, url)
        try:
            await publisher.announce(about.encode())
        except BaseException:
            cut_off(writer)
            raise
        ours, theirs = pair()
        return Handover(theirs, work=lambda: publisher.send(ours))

    async def _streams(self, url: StreamUrl) -> tuple[socket.socket, asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection, with TLS where the scheme says so."""
        sock = await self.tcp(url)
        tls = (self.ssl_context or ssl.create_default_context()) if url.scheme in TLS else None
        try:
            async with asyncio.timeout(self.connect_seconds):
                host = url.host if tls is not None else None
                reader, writer = await asyncio.open_connection(sock=sock, ssl=tls, server_hostname=host)
        except OSError as error:
            sock.close()
            raise ConnectFailed(f"no TLS with {url.host}: {_tls_failure(error)}", stage="fetch") from None
        except BaseException:
            sock.close()
            raise
        return sock, reader, writer

    async def _sending(self, url: StreamUrl) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sock, reader, writer = await self._streams(url)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        return reader, writer

    async def _http(self, url: StreamUrl, about: str) -> Handover:
        """The body as it comes; of a playlist, the bodies of its segments."""
        headers = {}
        if url.username is not None:
            login = base64.b64encode(f"{url.username}:{url.password or ''}".encode()).decode()
            headers["Authorization"] = f"Basic {login}"
        stack = AsyncExitStack()
        response, place = await stack.enter_async_context(
            opened(
                url.plain, allowed_networks=self.allowed_networks, idle_seconds=2 * self.read_seconds,
                headers=headers, resolve=self.resolve, ssl_context=self.ssl_context,
            )
        )  # fmt: skip
        ours, theirs = pair()
        path = place.path.partition("?")[0].lower()
        if content_type_of(response) in HLS_TYPES or path.endswith(HLS_SUFFIXES):
            await stack.aclose()
            return Handover(theirs, paced=True, work=lambda: pour(self._pulled(url.plain, headers), ours))

        async def body() -> AsyncIterator[bytes]:
            async with stack:
                async for chunk in response.aiter_stream():
                    yield chunk

        return Handover(theirs, paced=True, work=lambda: pour(body(), ours))

    def _pulled(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        return pull(
            url,
            lambda each: opened(
                each, allowed_networks=self.allowed_networks, idle_seconds=2 * self.read_seconds, headers=headers,
                resolve=self.resolve, ssl_context=self.ssl_context,
            ),
        )  # fmt: skip

    async def _datagrams(self, url: StreamUrl, about: str) -> Handover:
        """Listens at the URL's address, a multicast group or one of this machine's own; both only as allowed."""
        address = parse_literal(url.host)
        if address is None or not any(address in network for network in self.allowed_networks):
            raise BlockedAddress(
                f"{url.scheme} is received at addresses of TRANSCODER_ALLOWED_NETWORKS only", host=url.host
            )
        if address.is_unspecified:
            raise BlockedAddress("name the address to receive at: a multicast group or one of this machine's")
        sock = bind_datagrams(address, url.port)
        ours, theirs = pair()
        return Handover(theirs, format="mpegts", work=lambda: pour(receive(sock, rtp=url.scheme == "rtp"), ours))

    async def _send_datagrams(self, url: StreamUrl, about: str) -> Handover:
        literal = parse_literal(url.host)
        if literal is not None and literal.is_multicast:
            if not any(literal in network for network in self.allowed_networks):
                raise BlockedAddress("this multicast group is not in TRANSCODER_ALLOWED_NETWORKS", host=url.host)
            address: Address = literal
        else:
            address = (await self.addresses(url))[0]
        ours, theirs = pair()
        return Handover(theirs, work=lambda: send_datagrams(ours, address, url.port))

    async def _srt(self, url: StreamUrl, about: str) -> Handover:
        addresses = await self.addresses(url)
        return await srt_connection(url, addresses[0], sends=False)

    async def _send_srt(self, url: StreamUrl, about: str) -> Handover:
        addresses = await self.addresses(url)
        return await srt_connection(url, addresses[0], sends=True)


def _tls_failure(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, ssl.SSLError) and error.reason is not None:
        return f"it does not speak what is spoken here: {error.reason.lower().replace('_', ' ')}"
    return cause(error)


_Way = Callable[[Dialer, StreamUrl, str], Awaitable[Handover]]
_IN: dict[str, _Way] = {
    **dict.fromkeys(("rtsp", "rtsps", "rtmp", "rtmps"), Dialer._server),
    **dict.fromkeys(("http", "https"), Dialer._http),
    **dict.fromkeys(("udp", "rtp"), Dialer._datagrams),
    "srt": Dialer._srt,
}
_OUT: dict[str, _Way] = {
    **dict.fromkeys(("rtmp", "rtmps"), Dialer._publish),
    **dict.fromkeys(("rtsp", "rtsps"), Dialer._record),
    "udp": Dialer._send_datagrams,
    "srt": Dialer._send_srt,
}
