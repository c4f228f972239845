"""URLs of streams: taken apart strictly, and shown without what is secret in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from transcoder.network.addresses import BlockedAddress, check_characters, encoded_path, parse_authority

PORTS: dict[str, int | None] = {
    "http": 80, "https": 443, "rtsp": 554, "rtsps": 322, "rtmp": 1935, "rtmps": 443, "udp": None, "rtp": None,
    "srt": None,
}  # fmt: skip
"""Schemes and their ports; None: the URL has to say it."""
PATHLESS = frozenset({"udp", "rtp"})
TLS = frozenset({"https", "rtsps", "rtmps"})
MASK = "***"

_URL = re.compile(r"([a-z]{2,6})://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE)
_SECRET_KEY = re.compile(r"key|token|pass|secret|auth|sig|user|streamid|credential", re.IGNORECASE)


@dataclass(frozen=True)
class StreamUrl:
    """`host` is ASCII, without the brackets of an IPv6 literal; `path` is path and query as sent."""

    scheme: str
    host: str
    port: int
    path: str
    username: str | None = None
    password: str | None = None

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def plain(self) -> str:
        """Without user name and password."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def login(self) -> str:
        """What stands before the host, percent-encoded; empty when there is none."""
        if self.username is None:
            return ""
        password = "" if self.password is None else f":{quote(self.password, safe='')}"
        return f"{quote(self.username, safe='')}{password}@"


def parse_stream_url(url: str) -> StreamUrl:
    """BlockedAddress for unknown schemes and for every form that parsers disagree on."""
    check_characters(url)
    match = _URL.fullmatch(url)
    scheme = match[1].lower() if match is not None else ""
    if match is None or scheme not in PORTS:
        raise BlockedAddress(f"a stream's URL starts with one of {', '.join(PORTS)}")
    login, _, authority = match[2].rpartition("@")
    host, port = parse_authority(authority, PORTS[scheme])
    if scheme in PATHLESS:
        if match[3] not in ("", "/"):
            raise BlockedAddress(f"{scheme} has an address and a port, and nothing behind them")
        # an empty login is how other tools mark an address to listen on
        return StreamUrl(scheme, host, port, "")
    path = encoded_path(match[3]) if match[3] else ""
    if not login:
        return StreamUrl(scheme, host, port, path)
    username, colon, password = login.partition(":")
    user, secret = unquote(username), unquote(password) if colon else None
    if not user.isprintable() or not (secret or "").isprintable():
        raise BlockedAddress("the URL's user name or password has control characters")
    return StreamUrl(scheme, host, port, path, user, secret)


def masked(url: str, *, pushed: bool = False) -> str:
    """The URL as it may be shown: without login, and without values of keys that look secret.

    `pushed`: where RTMP's last part is the stream key, which is as good as a password.
    """
    match = _URL.fullmatch(url)
    if match is None:
        return MASK
    scheme, authority, rest = match[1], match[2], match[3]
    _, at, host = authority.rpartition("@")
    path, mark, query = rest.partition("?")
    if pushed and scheme.lower() in ("rtmp", "rtmps") and path.count("/") > 1:
        path = f"{path.rpartition('/')[0]}/{MASK}"
    pairs = [pair.partition("=") for pair in query.split("&")]
    shown = "&".join(f"{name}={MASK}" if eq and _SECRET_KEY.search(name) else name + eq + v for name, eq, v in pairs)
    return f"{scheme}://{f'{MASK}@' if at else ''}{host}{path}{mark}{shown}"
