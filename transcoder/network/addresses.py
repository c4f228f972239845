"""Which addresses the service may connect to on a user's behalf (the guard against reaching into the inside).

A URL is parsed strictly, its host resolved once, and every answer must be a public unicast address or lie in a network
that the operator allows. The caller then connects to those addresses and to no others, so a name that resolves
differently a moment later changes nothing.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.parse import quote

import idna

from pipelines.errors import PipelineError

Address = IPv4Address | IPv6Address


@dataclass(frozen=True)
class TrustedHost:
    """A host that may be reached by its name wherever that leads, and an allow-list's entry beside networks.

    It contains no address: an address in a URL, or another name for it, is checked as ever.
    """

    name: str

    def __contains__(self, address: object) -> bool:
        return False


Network = IPv4Network | IPv6Network | TrustedHost
Resolve = Callable[[str, int], Awaitable[tuple[Address, ...]]]
"""(host, port) → every address that the name has; raises OSError when it has none."""

DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_URL_CHARACTERS = 8192

# IANA's special-purpose registries. Listed here because `ipaddress.is_global` differs between Python versions.
_SPECIAL_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
    )
)  # fmt: skip
_SPECIAL_V6 = tuple(IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


class BlockedAddress(PipelineError):
    """A URL that this service does not open: its form, or an address that its host has, is not allowed."""

    code = "blocked_address"

    def __init__(self, reason: str, **facts: Any) -> None:
        super().__init__(reason, stage="fetch", **facts)


class DnsTimeout(PipelineError):
    code = "dns_timeout"
    retryable = True


@dataclass(frozen=True)
class Target:
    """An http(s) URL in its parts. `host` is ASCII (punycode), without the brackets of an IPv6 literal."""

    scheme: str
    host: str
    port: int
    path: str
    """Path and query as sent, percent-encoded."""

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+))(?::([0-9]{1,5}))?")
# parsers disagree on these; other characters are encoded on the way
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\x9f\\\s\ud800-\udfff]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# what C libraries read as a number: the host is an address in some odd form
_NUMERIC = re.compile(r"0x[0-9a-f]*|[0-9]+")


def parse_url(url: str) -> Target:
    """The parts of an http(s) URL; BlockedAddress for other schemes and for every form that parsers disagree on."""
    check_characters(url)
    match = _URL.fullmatch(url)
    if match is None:
        raise BlockedAddress("the URL does not start with http:// or https://")
    scheme, authority, rest = match[1].lower(), match[2], match[3]
    if "@" in authority:
        raise BlockedAddress("the URL has a user name or password")
    host, port = parse_authority(authority, DEFAULT_PORTS[scheme])
    return Target(scheme, host, port, encoded_path(rest))


def parse_authority(authority: str, default_port: int | None) -> tuple[str, int]:
    """Host and port; BlockedAddress for what parsers disagree on, and for no port where there is no default."""
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise BlockedAddress("the URL's host is malformed")
    port = int(parts[3]) if parts[3] else default_port
    if port is None:
        raise BlockedAddress("the URL has no port")
    if not 0 < port < 65536:
        raise BlockedAddress("the URL's port is not between 1 and 65535")
    return (_ipv6_literal(parts[1]) if parts[1] else _host(parts[2])), port


def check_characters(url: str) -> None:
    """BlockedAddress for a URL that is too long, or has characters that must be percent-encoded."""
    if len(url) > MAX_URL_CHARACTERS:
        raise BlockedAddress(f"the URL is longer than {MAX_URL_CHARACTERS} characters")
    if _FORBIDDEN.search(url):
        raise BlockedAddress("the URL has a character that must be percent-encoded")


def encoded_path(rest: str) -> str:
    """Path and query as they are sent."""
    return quote(rest if rest.startswith("/") else f"/{rest}", safe="/?%:@!$&'()*+,;=~-._[]")


def _ipv6_literal(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except ValueError:
        raise BlockedAddress("the URL's host is malformed") from None


def _host(text: str) -> str:
    """A host name in ASCII, or an IPv4 address in its one plain form."""
    try:
        host = text.lower() if text.isascii() else idna.encode(text, uts46=True).decode("ascii")
    except idna.IDNAError:
        raise BlockedAddress("the URL's host is malformed") from None
    labels = host.removesuffix(".").split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(".".join(labels)))
        except ValueError:
            raise BlockedAddress("the URL's host is an address in a form that is not accepted") from None
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise BlockedAddress("the URL's host is malformed")
    return ".".join(labels)


async def resolve_target(
    target: Target, *, allowed_networks: Iterable[Network], timeout_seconds: float, resolve: Resolve | None = None
) -> tuple[Address, ...]:
    """The addresses to connect to, checked; BlockedAddress when even one of the host's is not allowed.

    Raises DnsTimeout, and OSError when the name does not resolve.
    """
    literal = parse_literal(target.host)
    if literal is not None:
        addresses: tuple[Address, ...] = (literal,)
    else:
        try:
            async with asyncio.timeout(timeout_seconds):
                addresses = await (resolve or look_up)(target.host, target.port)
        except TimeoutError:
            message = f"the name {target.host} did not resolve within {timeout_seconds:g} s"
            raise DnsTimeout(message, stage="fetch", host=target.host) from None
    if not addresses:
        raise OSError(f"the name {target.host} has no address")
    networks = tuple(allowed_networks)
    if literal is None and TrustedHost(target.host) in networks:
        # not even a trusted name leads to everybody, or to no address
        networks = (*networks, IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
    if not all(is_allowed(address, networks) for address in addresses):
        # the address stays out of the message: it would tell users about the inside
        raise BlockedAddress(
            f"{target.host} is not a public address (private networks are opened with TRANSCODER_ALLOWED_NETWORKS)",
            host=target.host,
        )
    return addresses


def parse_literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


async def look_up(host: str, port: int) -> tuple[Address, ...]:
    """getaddrinfo, in a daemon thread: a lookup can't be cancelled, and nothing should wait for a silent server."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[tuple[Address, ...]] = loop.create_future()

    def settle(addresses: tuple[Address, ...], error: OSError | None) -> None:
        if found.done():
            return
        if error is None:
            found.set_result(addresses)
        else:
            found.set_exception(error)

    def work() -> None:
        addresses: tuple[Address, ...] = ()
        error: OSError | None = None
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            # an IPv6 zone (fe80::1%eth0) is dropped: such addresses are link-local and refused
            addresses = tuple(dict.fromkeys(ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers))
        except OSError as failed:
            error = failed
        except UnicodeError as failed:
            error = OSError(str(failed))
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, addresses, error)

    threading.Thread(target=work, name="getaddrinfo", daemon=True).start()
    return await found


def is_allowed(address: Address, allowed_networks: Iterable[Network] = ()) -> bool:
    """Whether `address`, and every IPv4 address that it carries within, is public or in an allowed network."""
    networks = tuple(allowed_networks)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    carried = _carried(address) if isinstance(address, IPv6Address) else ()
    return all(
        not (form.is_multicast or form.is_unspecified)
        and (_is_public(form) or any(form in network for network in networks))
        for form in (address, *carried)
    )


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in network for network in _SPECIAL_V4)
    if address in _NAT64:
        # a public way to the IPv4 address within, which is checked by itself
        return True
    return address in _GLOBAL_V6 and address.is_global and not any(address in network for network in _SPECIAL_V6)


def _carried(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that a gateway or a kernel may take out of an IPv6 address."""
    if address.is_loopback:
        return ()
    bits = int(address)
    low = IPv4Address(bits & 0xFFFF_FFFF)
    # IPv4-compatible (::/96), NAT64 (RFC 6052), IPv4-translated (::ffff:0:0:0/96)
    if bits >> 32 in (0, 0x0064_FF9B << 64, 0xFFFF << 16):
        return (low,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    # ISATAP (RFC 5214): the interface identifier is [02]00:5efe and the address
    if (bits >> 32) & 0xFDFF_FFFF == 0x5EFE:
        return (low,)
    return ()
