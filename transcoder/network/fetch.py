"""Downloads an input over http(s) into a file, through the address guard.

FetchFailed     fetch_failed      refused, broken or answered with an error status
BlockedAddress  blocked_address   an address or a form of URL that is not allowed (also behind a redirect)
DnsTimeout      dns_timeout       the name server is silent
Stalled         stalled           the server sends too slowly or nothing
LimitExceeded   limit_size        more bytes than allowed
DiskFull        disk_full         no room for the file
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

import aiofiles
import httpcore2

from pipelines.errors import DeadlineExceeded, DiskFull, LimitExceeded, OutputFailed, PipelineError, Stalled
from transcoder.names import display_name, suggested_name
from transcoder.network.addresses import Address, BlockedAddress, Network, Resolve, Target, parse_url, resolve_target
from transcoder.network.pace import Pace
from transcoder.network.pinned import PinnedBackend

MAX_REDIRECTS = 5
CONNECT_SECONDS = 10.0
DNS_SECONDS = 5.0
TOTAL_SECONDS = 24 * 3600.0
NO_LIMIT = 1 << 62
_WRITE_BYTES = 1 << 20

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class FetchFailed(PipelineError):
    """`retryable` where the same request may work later. Facts: `status` when the server answered."""

    code = "fetch_failed"

    def __init__(self, message: str, *, retryable: bool = False, **facts: Any) -> None:
        super().__init__(message, stage="fetch", **facts)
        self.retryable = retryable  # type: ignore[misc]


@dataclass(frozen=True)
class FetchedFile:
    """`name` is what the server or the URL calls the file: metadata, never a path."""

    path: Path
    size: int
    name: str


async def fetch(
    url: str,
    target: Path,
    *,
    allowed_networks: Iterable[Network] = (),
    max_bytes: int,
    idle_seconds: float,
    total_seconds: float = TOTAL_SECONDS,
    on_bytes: Callable[[int], None] | None = None,
    resolve: Resolve | None = None,
    ssl_context: ssl.SSLContext | None = None,
) -> FetchedFile:
    """Writes the body of `url` to `target`, which must not exist and is removed again on any failure.

    `on_bytes` is told the bytes received so far. Cancelling the task closes the connection and removes the file.
    """
    networks = tuple(allowed_networks)
    try:
        async with asyncio.timeout(total_seconds) as total:
            place = parse_url(url)
            for _ in range(MAX_REDIRECTS + 1):
                addresses = await _resolve(place, networks, resolve)
                async with _get(place, addresses, idle_seconds, ssl_context) as response:
                    if response.status not in _REDIRECTS:
                        _check_head(response, max_bytes)
                        size = await _save(response, target, max_bytes, idle_seconds, on_bytes)
                        return FetchedFile(target, size, _name(response, place))
                    place = _redirected(place, response)
            raise FetchFailed(f"more than {MAX_REDIRECTS} redirects")
    except TimeoutError:
        if not total.expired():
            raise
        raise DeadlineExceeded(f"the download took longer than {total_seconds:g} s", stage="fetch") from None


@asynccontextmanager
async def opened(
    url: str,
    *,
    allowed_networks: Iterable[Network],
    idle_seconds: float,
    headers: Mapping[str, str] | None = None,
    resolve: Resolve | None = None,
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[httpcore2.Response, Target]]:
    """A response whose body is to be read, and where it came from: redirects are followed, each checked.

    `headers` are sent to the first host only. Raises as `fetch` does, also while the body is read.
    """
    networks = tuple(allowed_networks)
    place = first = parse_url(url)
    for _ in range(MAX_REDIRECTS + 1):
        addresses = await _resolve(place, networks, resolve)
        own = headers if (place.host, place.port, place.scheme) == (first.host, first.port, first.scheme) else None
        async with _get(place, addresses, idle_seconds, ssl_context, own) as response:
            if response.status not in _REDIRECTS:
                _check_head(response, NO_LIMIT)
                yield response, place
                return
            place = _redirected(place, response)
    raise FetchFailed(f"more than {MAX_REDIRECTS} redirects")


def content_type_of(response: httpcore2.Response) -> str:
    """Without parameters, in small letters."""
    return (_header(response, b"content-type") or "").partition(";")[0].strip().lower()


async def _resolve(place: Target, networks: tuple[Network, ...], resolve: Resolve | None) -> tuple[Address, ...]:
    try:
        return await resolve_target(place, allowed_networks=networks, timeout_seconds=DNS_SECONDS, resolve=resolve)
    except TimeoutError:
        raise
    except OSError as error:
        raise FetchFailed(
            f"the name {place.host} does not resolve: {error.strerror or error}", retryable=True
        ) from None


@asynccontextmanager
async def _get(
    place: Target,
    addresses: tuple[Address, ...],
    idle_seconds: float,
    ssl_context: ssl.SSLContext | None,
    more: Mapping[str, str] | None = None,
) -> AsyncIterator[httpcore2.Response]:
    """One GET on one connection, up to the response's head. Transport errors in its body become ours, too."""
    url = httpcore2.URL(
        scheme=place.scheme.encode(), host=place.host.encode(), port=place.port, target=place.path.encode()
    )
    headers: dict[bytes | str, bytes | str] = {
        "Host": place.authority,
        "User-Agent": f"transcoder/{version('transcoder')}",
        "Accept": "*/*",
        # the bytes of the file, so that sizes mean the file's
        "Accept-Encoding": "identity",
        "Connection": "close",
    }
    headers.update(more or {})
    waits = {"connect": CONNECT_SECONDS, "read": idle_seconds, "write": idle_seconds, "pool": CONNECT_SECONDS}
    try:
        async with httpcore2.AsyncConnectionPool(
            network_backend=PinnedBackend(addresses), ssl_context=ssl_context, max_connections=1, http2=False
        ) as pool:
            request = httpcore2.Request("GET", url, headers=headers, extensions={"timeout": waits})
            # a head that trickles in is a stall as well
            response = await Pace(CONNECT_SECONDS * len(addresses) + idle_seconds).within(
                pool.handle_async_request(request)
            )
            try:
                yield response
            finally:
                await response.aclose()
    except httpcore2.ConnectTimeout:
        raise FetchFailed(f"{place.host} did not accept a connection in time", retryable=True) from None
    except httpcore2.ConnectError as error:
        raise FetchFailed(f"no connection to {place.host}: {error}", retryable=True) from None
    except httpcore2.TimeoutException:
        raise _stalled(place.host, idle_seconds) from None
    except (httpcore2.NetworkError, httpcore2.RemoteProtocolError) as error:
        raise FetchFailed(f"the connection to {place.host} broke: {error}", retryable=True) from None
    except httpcore2.LocalProtocolError as error:
        raise FetchFailed(f"the URL can't be requested: {error}") from None
    except TimeoutError:
        raise _stalled(place.host, idle_seconds) from None


def _stalled(host: str, idle_seconds: float) -> Stalled:
    return Stalled(f"{host} sent too little for {idle_seconds:g} s", stage="fetch", idle_seconds=idle_seconds)


def _header(response: httpcore2.Response, name: bytes) -> str | None:
    value = next((value for key, value in response.headers if key.lower() == name), None)
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _redirected(place: Target, response: httpcore2.Response) -> Target:
    """Where a redirect leads, parsed as strictly as the first URL."""
    location = _header(response, b"location")
    if not location:
        raise FetchFailed(f"a redirect ({response.status}) without a location", status=response.status)
    # urljoin drops tabs and line ends before it looks, so they are refused here
    if not location.isascii() or not location.isprintable():
        raise BlockedAddress("a redirect's location has a character that must be percent-encoded")
    following = parse_url(urljoin(place.url, location))
    if place.scheme == "https" and following.scheme == "http":
        raise BlockedAddress("a redirect leads from https to http")
    return following


def _check_head(response: httpcore2.Response, max_bytes: int) -> None:
    if response.status != 200:
        raise FetchFailed(
            f"the server answered with status {response.status}",
            retryable=response.status in _TRY_AGAIN,
            status=response.status,
        )
    encoding = _header(response, b"content-encoding")
    if encoding not in (None, "", "identity"):
        raise FetchFailed("the server compresses the body although it was asked not to", status=200)
    length = _header(response, b"content-length")
    if length is not None and length.isdecimal() and int(length) > max_bytes:
        raise _too_large(max_bytes, size_bytes=int(length))


def _too_large(max_bytes: int, **facts: int) -> LimitExceeded:
    message = f"the file is larger than {max_bytes} bytes"
    return LimitExceeded("limit_size", message, stage="fetch", limit_bytes=max_bytes, **facts)


async def _save(
    response: httpcore2.Response,
    target: Path,
    max_bytes: int,
    idle_seconds: float,
    on_bytes: Callable[[int], None] | None,
) -> int:
    """The body's size, written to `target`; nothing is left of it on failure."""
    size = 0
    pace = Pace(idle_seconds)
    chunks = aiter(response.aiter_stream())
    pending = bytearray()
    with _disk_errors():
        async with aiofiles.open(target, "xb") as file:
            try:
                while (chunk := await pace.within(anext(chunks, None))) is not None:
                    pace.received(len(chunk))
                    size += len(chunk)
                    if size > max_bytes:
                        raise _too_large(max_bytes)
                    pending += chunk
                    if len(pending) >= _WRITE_BYTES:
                        await file.write(bytes(pending))
                        pending.clear()
                        if on_bytes is not None:
                            on_bytes(size)
                await file.write(bytes(pending))
                await file.flush()
            except BaseException:
                target.unlink(missing_ok=True)  # noqa: ASYNC240 - cleaning up after a cancellation can't wait
                raise
    if on_bytes is not None:
        on_bytes(size)
    return size


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        # an OSError as well, but the peer's
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull("no room on the disk for the download", stage="fetch") from error
        raise OutputFailed(f"the download could not be written: {error.strerror}", stage="fetch") from error


def _name(response: httpcore2.Response, place: Target) -> str:
    """What the server calls the file, else the last part of the URL's path."""
    given = suggested_name(_header(response, b"content-disposition") or "")
    path = place.path.partition("?")[0]
    return display_name(given or unquote(path.rpartition("/")[2]), "download")
