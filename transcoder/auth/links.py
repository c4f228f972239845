"""Signed links: an address that leads to one thing, for a while, without a key.

The signature covers method, path, expiry and the key that made the link; a link ends with that key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from transcoder.auth.errors import BadSignature, LinkExpired

METHOD = "GET"
"""What a link is good for; HEAD is GET without its body."""

LINKABLE = re.compile(r"/v1/jobs/[^/]+/(outputs/.+|events)", re.DOTALL)
"""Paths that links may lead to."""

SIGNATURE = "signature"
_EXPIRES = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True)
class Link:
    """`path` as the service decodes it; `key_id` is None in a service without keys; `expires` in seconds since 1970."""

    path: str
    key_id: str | None
    expires: int


class LinkSigner:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def query(self, link: Link) -> str:
        """What follows the `?` of the link's address."""
        fields = {"key": link.key_id or "", "expires": str(link.expires), SIGNATURE: self._signature(link)}
        return urlencode(fields)

    def verify(self, path: str, query: Mapping[str, str], now: datetime) -> Link:
        """The link that a request follows. BadSignature, or LinkExpired for one that was good."""
        expires = query.get("expires", "")
        if LINKABLE.fullmatch(path) is None or _EXPIRES.fullmatch(expires) is None:
            raise BadSignature("this is no link of this service")
        link = Link(path, query.get("key") or None, int(expires))
        if not hmac.compare_digest(self._signature(link).encode(), query.get(SIGNATURE, "").encode()):
            raise BadSignature("the signature does not fit this address")
        if link.expires <= now.timestamp():
            raise LinkExpired("this link has expired", expired_at=datetime.fromtimestamp(link.expires, UTC).isoformat())
        return link

    def _signature(self, link: Link) -> str:
        signed = json.dumps([METHOD, link.path, link.expires, link.key_id])
        digest = hmac.digest(self._secret, signed.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
