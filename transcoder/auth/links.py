"""Signed links: an address that leads to one thing, for a while, without a key.

The signature covers method, path, expiry and the key that made the link; a link ends with that key. A link to a folder
has all of that in its path, so that what playlists name beside them is found by the same address.
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

LINKABLE = re.compile(r"/v1/jobs/[^/]+/(outputs/.+|events|thumbnail\.jpg)", re.DOTALL)
"""Paths that links may lead to."""

FOLDERS = "/v1/s/"
"""What links to folders begin with: then a token, then a path within the folder."""

_FOLDER_LINK = re.compile(re.escape(FOLDERS) + r"([A-Za-z0-9_-]{1,2000})\.([A-Za-z0-9_-]{43})/(.+)", re.DOTALL)

SIGNATURE = "signature"
_EXPIRES = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True)
class Link:
    """`path` as the service decodes it; `key_id` is None in a service without keys; `expires` in seconds since 1970."""

    path: str
    key_id: str | None
    expires: int


@dataclass(frozen=True)
class FolderLink:
    """To what is in `folder` of a job's outputs, at any depth: "" is all of them, others end in a slash."""

    job_id: str
    folder: str
    key_id: str | None
    expires: int


@dataclass(frozen=True)
class Followed:
    """A request by a link to a folder. `path` is that of the output."""

    link: FolderLink
    path: str


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
        _check_time(link.expires, now)
        return link

    def folder_path(self, link: FolderLink) -> str:
        """The path of an address that the folder's files are beneath; it ends in a slash."""
        told = _base64(json.dumps([link.job_id, link.folder, link.expires, link.key_id]).encode())
        return f"{FOLDERS}{told}.{self._folder_signature(told)}/"

    def follow(self, path: str, now: datetime) -> Followed:
        """What a request for `path`, as the service decodes it, leads to. BadSignature, LinkExpired."""
        found = _FOLDER_LINK.fullmatch(path)
        if found is None:
            raise BadSignature("this is no link of this service")
        told, signature, rest = found.groups()
        if not hmac.compare_digest(self._folder_signature(told), signature):
            raise BadSignature("the signature does not fit this address")
        # what is signed was made by `folder_path`
        link = FolderLink(*_folder_fields(told))
        if any(part in ("", ".", "..") for part in rest.split("/")):
            raise BadSignature("this leads out of what the link is for")
        _check_time(link.expires, now)
        return Followed(link, f"{link.folder}{rest}")

    def _signature(self, link: Link) -> str:
        return self._digest([METHOD, link.path, link.expires, link.key_id])

    def _folder_signature(self, told: str) -> str:
        # five fields where other links have four: neither signature can pass for the other
        return self._digest([METHOD, FOLDERS, told, None, None])

    def _digest(self, signed: list[str | int | None]) -> str:
        return _base64(hmac.digest(self._secret, json.dumps(signed).encode(), hashlib.sha256))


def _check_time(expires: int, now: datetime) -> None:
    if expires <= now.timestamp():
        raise LinkExpired("this link has expired", expired_at=datetime.fromtimestamp(expires, UTC).isoformat())


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _folder_fields(told: str) -> tuple[str, str, str | None, int]:
    job_id, folder, expires, key_id = json.loads(base64.urlsafe_b64decode(told + "=" * (-len(told) % 4)))
    return job_id, folder, key_id, expires
