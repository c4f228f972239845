"""What encrypts a ladder: whole segments (AES-128) or the samples in them (SAMPLE-AES), RFC 8216, 4.3.2.4.

The cipher itself is passed in: the standard library has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pipelines.errors import UnsupportedSpec
from pipelines.packaging.layout import EncryptionPlan
from pipelines.packaging.m3u8 import Key
from pipelines.packaging.sealing.blocks import BlockSeal, Cipher
from pipelines.packaging.segments import Seal


@dataclass(frozen=True)
class SampleSeal:
    """What encrypts samples, and the id of its key (16 bytes; none in transport streams)."""

    blocks: BlockSeal
    key_id: bytes


@contextmanager
def sealing(path: str) -> Iterator[None]:
    """Samples that there is no rule for, or that can't be read, are no reason to leave them clear: UnsupportedSpec."""
    try:
        yield
    except ValueError as error:
        raise UnsupportedSpec(f"the samples of {path} can't be encrypted: {error}", stage="mux", path=path) from error


@dataclass(frozen=True)
class Seals:
    """One of them, or none."""

    segments: Seal | None = None
    samples: SampleSeal | None = None


def seals_of(plan: EncryptionPlan, cipher: Cipher) -> Seals:
    key = bytes.fromhex(plan.key.get_secret_value())
    if plan.method == "aes-128":
        return Seals(segments=_segment_seal(plan, key, cipher))
    assert plan.iv is not None
    return Seals(samples=SampleSeal(BlockSeal(cipher, key, bytes.fromhex(plan.iv)), bytes.fromhex(plan.key_id or "")))


def _segment_seal(plan: EncryptionPlan, key: bytes, cipher: Cipher) -> Seal:
    """Without an IV in the plan each segment has its media sequence number, which counts from 0."""
    fixed = None if plan.iv is None else bytes.fromhex(plan.iv)

    def seal(number: int, data: bytes) -> bytes:
        return cipher(key, fixed if fixed is not None else (number - 1).to_bytes(16, "big"), data)

    return seal


def key_tag(plan: EncryptionPlan | None) -> Key | None:
    """What playlists say of it."""
    if plan is None:
        return None
    return Key(plan.uri, None if plan.iv is None else bytes.fromhex(plan.iv), plan.method == "sample-aes")
