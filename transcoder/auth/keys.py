"""API keys. Only the one who made a key has its secret; the service keeps the secret's hash."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from transcoder.auth.scopes import Scope

ID_BYTES, SECRET_BYTES = 8, 32

TENANT_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TOKEN = re.compile(rf"tk_([0-9a-f]{{{2 * ID_BYTES}}})_([0-9a-f]{{{2 * SECRET_BYTES}}})")


class ApiKey(BaseModel):
    """A key as operators see it. `queues`: the only ones that it may submit to; None: all."""

    model_config = ConfigDict(frozen=True)

    id: str
    tenant: str
    name: str
    scopes: tuple[Scope, ...]
    queues: tuple[str, ...] | None = None
    created_at: datetime
    last_used_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def ended(self, now: datetime) -> str | None:
        """Why the key is not valid; None while it is."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        return None


@dataclass(frozen=True)
class Token:
    """What a client sends. The secret has 256 random bits, so a plain hash of it is safe to keep."""

    key_id: str
    secret: str

    def __str__(self) -> str:
        return f"tk_{self.key_id}_{self.secret}"

    def __repr__(self) -> str:
        return f"Token(key_id={self.key_id!r})"

    def digest(self) -> str:
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def matches(self, digest: str) -> bool:
        return hmac.compare_digest(self.digest(), digest)


def new_token() -> Token:
    return Token(secrets.token_hex(ID_BYTES), secrets.token_hex(SECRET_BYTES))


def parse_token(text: str) -> Token | None:
    match = _TOKEN.fullmatch(text)
    return None if match is None else Token(match[1], match[2])
