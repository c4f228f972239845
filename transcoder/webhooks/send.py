"""One request to a receiver, through the address guard: no redirects, little read, never longer than told."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

import httpcore2

from transcoder.network.addresses import (
    BlockedAddress,
    DnsTimeout,
    Network,
    Resolve,
    is_allowed,
    parse_literal,
    parse_url,
    resolve_target,
)
from transcoder.network.pinned import PinnedBackend
from transcoder.webhooks.schedule import Answered, Outcome, Unanswered

DNS_SECONDS = 5.0
REPLY_BYTES = 64 * 1024
REPLY_SECONDS = 2.0
"""How long the rest of an answer is listened to. Its status is what counts, and that is known by then."""


def check_url(url: str, allowed_networks: tuple[Network, ...]) -> None:
    """BlockedAddress for a URL that would never be delivered to, as far as that shows without a name server."""
    literal = parse_literal(parse_url(url).host)
    if literal is not None and not is_allowed(literal, allowed_networks):
        raise BlockedAddress(
            "the webhook's address is not public (private networks are opened with TRANSCODER_ALLOWED_NETWORKS)",
            host=str(literal),
        )


@dataclass(frozen=True)
class Sender:
    """Where webhooks may go, and how long one try may take in all."""

    allowed_networks: tuple[Network, ...]
    timeout_seconds: float
    resolve: Resolve | None = None
    ssl_context: ssl.SSLContext | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Outcome:
        """What came of one try. Raises nothing that a receiver can cause."""
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return Answered(await self._post(url, body, headers))
        except BlockedAddress:
            return Unanswered("blocked_address", final=True)
        except DnsTimeout:
            return Unanswered("dns_timeout")
        except (TimeoutError, httpcore2.TimeoutException):
            return Unanswered("timeout")
        except httpcore2.ConnectError:
            return Unanswered("connection")
        except (httpcore2.NetworkError, httpcore2.ProtocolError):
            return Unanswered("broken")
        except OSError:
            return Unanswered("dns")

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        place = parse_url(url)
        addresses = await resolve_target(
            place, allowed_networks=self.allowed_networks, timeout_seconds=DNS_SECONDS, resolve=self.resolve
        )
        target = httpcore2.URL(
            scheme=place.scheme.encode(), host=place.host.encode(), port=place.port, target=place.path.encode()
        )
        own = {
            "Host": place.authority,
            "User-Agent": f"transcoder/{version('transcoder')}",
            "Accept": "*/*",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        request = httpcore2.Request("POST", target, headers=[*own.items(), *headers.items()], content=body)
        async with httpcore2.AsyncConnectionPool(
            network_backend=PinnedBackend(addresses), ssl_context=self.ssl_context, max_connections=1, http2=False
        ) as pool:
            response = await pool.handle_async_request(request)
            try:
                await _hear_out(response)
            finally:
                await response.aclose()
            return response.status


async def _hear_out(response: httpcore2.Response) -> None:
    """Reads some of the body, so that a receiver that writes one is not cut off for no reason."""
    size = 0
    try:
        async with asyncio.timeout(REPLY_SECONDS):
            async for chunk in response.aiter_stream():
                size += len(chunk)
                if size >= REPLY_BYTES:
                    return
    except (TimeoutError, httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError):
        return
