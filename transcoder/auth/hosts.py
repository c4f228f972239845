"""Names and origins that may drive a service without keys.

Whoever reaches such a service may do everything, and every web page in a browser on its machine reaches it. A page from
elsewhere shows itself by its Origin; one that rebinds its own name to 127.0.0.1 shows itself by that name in Host.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address

from transcoder.auth.errors import BadHost, BadOrigin

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_DEFAULT_PORT = re.compile(r":(80|443)$")


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself, as an address or as `localhost`."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class BrowserGuard:
    """`allowed_hosts` besides loopback; None: any. `allowed_origins` besides the service's own."""

    allowed_hosts: frozenset[str] | None
    allowed_origins: frozenset[str]

    def check_host(self, hosts: Sequence[str]) -> None:
        """BadHost unless the request's one Host header names this machine."""
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        name = "" if match is None else match[1].lower()
        if match is None or not (self.allowed_hosts is None or is_loopback(name) or name in self.allowed_hosts):
            raise BadHost(
                "without API keys the service answers to loopback names only, and to those in TRANSCODER_ALLOWED_HOSTS"
            )

    def check_origin(self, method: str, origin: str | None, host: str) -> None:
        """BadOrigin for a change that a page of another origin asks for. Programs send no Origin."""
        if origin is None or method in SAFE_METHODS or origin.lower() in self.allowed_origins:
            return
        scheme, _, place = origin.lower().partition("://")
        if scheme not in ("http", "https") or _DEFAULT_PORT.sub("", place) != _DEFAULT_PORT.sub("", host.lower()):
            raise BadOrigin("a web page of another origin may change nothing here (see TRANSCODER_CORS_ORIGINS)")
