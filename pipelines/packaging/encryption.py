"""AES-128 on whole segments (RFC 8216, 4.3.2.4). The cipher itself is passed in: the standard library has none."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.packaging.layout import EncryptionPlan
from pipelines.packaging.m3u8 import Key
from pipelines.packaging.segments import Seal

Cipher = Callable[[bytes, bytes, bytes], bytes]
"""Key, initialisation vector and data to data in AES-128-CBC with PKCS #7 padding."""


def sealer(plan: EncryptionPlan, cipher: Cipher) -> Seal:
    """What encrypts segments; without an IV in the plan each has its media sequence number, which counts from 0."""
    key = bytes.fromhex(plan.key.get_secret_value())
    fixed = None if plan.iv is None else bytes.fromhex(plan.iv)

    def seal(number: int, data: bytes) -> bytes:
        return cipher(key, fixed if fixed is not None else (number - 1).to_bytes(16, "big"), data)

    return seal


def key_tag(plan: EncryptionPlan | None) -> Key | None:
    """What playlists say of it."""
    return None if plan is None else Key(plan.uri, None if plan.iv is None else bytes.fromhex(plan.iv))
