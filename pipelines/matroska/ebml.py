"""EBML (RFC 8794), the syntax of Matroska: elements of identifier, size and body, read and put together again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zlib import crc32

CRC = b"\xbf"
VOID = b"\xec"
_LONGEST_SIZE = 8


@dataclass(frozen=True)
class Element:
    """`begin`: where its identifier is; `body`: where its body is, which ends at `end`."""

    kind: bytes
    begin: int
    body: int
    end: int


def elements(data: bytes, begin: int = 0, end: int | None = None) -> Iterator[Element]:
    """Those side by side in `data`; ValueError where one is not whole but for the last one's body."""
    end = len(data) if end is None else end
    while begin < end:
        kind, _ = _number(data, begin, keeps_mark=True)
        size, length = _number(data, begin + len(kind))
        body = begin + len(kind) + length
        following = body + int.from_bytes(size)
        yield Element(kind, begin, body, following)
        begin = following


def element(kind: bytes, body: bytes) -> bytes:
    return kind + _size(len(body)) + body


def number(kind: bytes, value: int) -> bytes:
    """An element of an unsigned integer."""
    return element(kind, value.to_bytes(max(1, (value.bit_length() + 7) // 8)))


def parent(kind: bytes, children: Iterable[bytes]) -> bytes:
    """An element of others. Where the first of them is a checksum, it is made anew: it is one of those that follow."""
    parts = list(children)
    if parts and parts[0][:1] == CRC:
        rest = b"".join(parts[1:])
        return element(kind, element(CRC, crc32(rest).to_bytes(4, "little")) + rest)
    return element(kind, b"".join(parts))


def void(length: int) -> bytes:
    """`length` bytes, at least 2, that mean nothing."""
    if length < 2:
        raise ValueError("an element that means nothing has at least two bytes")
    if length < 2 + _LONGEST_SIZE:
        return VOID + bytes([0x80 | length - 2]) + bytes(length - 2)
    body = length - 1 - _LONGEST_SIZE
    return VOID + (1 << 56 | body).to_bytes(_LONGEST_SIZE) + bytes(body)


def _size(value: int) -> bytes:
    """As short as it gets; all bits set would mean that it is not known."""
    length = next(length for length in range(1, _LONGEST_SIZE + 1) if value < (1 << 7 * length) - 1)
    return (1 << 7 * length | value).to_bytes(length)


def _number(data: bytes, at: int, *, keeps_mark: bool = False) -> tuple[bytes, int]:
    """A number whose leading zeros say how long it is: its bytes (with that mark in identifiers alone), its length."""
    length = 9 - data[at].bit_length() if at < len(data) else 9
    taken = data[at : at + length]
    if length > _LONGEST_SIZE or len(taken) < length:
        raise ValueError("no whole element")
    if keeps_mark:
        return taken, length
    value = int.from_bytes(taken) & (1 << 7 * length) - 1
    return value.to_bytes(_LONGEST_SIZE), length
