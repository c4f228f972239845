"""Secrets that webhooks are signed with, in the form that receivers' libraries take (Standard Webhooks)."""

from __future__ import annotations

import base64
import secrets

SECRET_BYTES = 32
PREFIX = "whsec_"


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def is_secret(text: str) -> bool:
    """Whether `text` is `whsec_` and 24 to 64 bytes in base64, as the specification asks."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except ValueError:
        return False
    return text.startswith(PREFIX) and 24 <= len(key) <= 64
