"""AES-128 in CBC on parts of samples: whole blocks, never padded, each part from the same initialisation vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

BLOCK_BYTES = 16
STRIPE_BLOCKS = 10
"""Of so many blocks of a picture one is encrypted."""

Cipher = Callable[[bytes, bytes, bytes], bytes]
"""Key, initialisation vector and data to data in AES-128-CBC with PKCS #7 padding."""


@dataclass(frozen=True)
class BlockSeal:
    """What encrypts. The key is in nothing that is printed of it."""

    cipher: Cipher = field(repr=False)
    key: bytes = field(repr=False)
    iv: bytes

    def blocks(self, data: bytes) -> bytes:
        """All whole blocks encrypted; what is left behind them stays clear."""
        whole = len(data) - len(data) % BLOCK_BYTES
        if not whole:
            return data
        # CBC goes from the front to the back: without the padding's block the others are the same
        return self.cipher(self.key, self.iv, data[:whole])[:whole] + data[whole:]

    def stripes(self, data: bytes, begin: int, least: int) -> bytes:
        """One block of ten encrypted from `begin` on, wherever `least` bytes or more are left, in one chain."""
        places = range(begin, len(data) - least + 1, BLOCK_BYTES * STRIPE_BLOCKS)
        if not places:
            return data
        sealed = self.blocks(b"".join(data[place : place + BLOCK_BYTES] for place in places))
        made = bytearray(data)
        for number, place in enumerate(places):
            made[place : place + BLOCK_BYTES] = sealed[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]
        return bytes(made)
