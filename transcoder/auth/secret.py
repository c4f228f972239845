"""The server's own secret, which signs links: made once, kept in the data folder for its owner's eyes only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

SECRET_BYTES = 32


class UnusableSecret(OSError):
    """The file is there and too short to be a secret."""


def server_secret(path: Path) -> bytes:
    """The secret in `path`, which is made when it is not there. The caller holds the folder's lock. Blocks."""
    try:
        secret = path.read_bytes()
    except FileNotFoundError:
        secret = secrets.token_bytes(SECRET_BYTES)
        _write(path, secret)
    if len(secret) < SECRET_BYTES:
        raise UnusableSecret(0, "the secret is too short; delete the file to make a new one", str(path))
    return secret


def _write(path: Path, secret: bytes) -> None:
    """Whole or not at all: a half secret would end the next start."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
