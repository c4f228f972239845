"""AMF0, in which RTMP's commands are written: the few types that publishers use."""

from __future__ import annotations

import struct
from typing import Any

MAX_DEPTH = 8
_NUMBER, _BOOLEAN, _STRING, _OBJECT, _NULL, _UNDEFINED, _ECMA, _END, _STRICT, _LONG = 0, 1, 2, 3, 5, 6, 8, 9, 10, 12


class Malformed(ValueError):
    """Bytes that are no AMF0."""


class Reader:
    """Values of a message, in order."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._data)

    def value(self, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise Malformed("too deep")
        kind = self._take(1)[0]
        if kind == _NUMBER:
            return struct.unpack(">d", self._take(8))[0]
        if kind == _BOOLEAN:
            return self._take(1) != b"\0"
        if kind == _STRING:
            return self._string(2)
        if kind == _LONG:
            return self._string(4)
        if kind in (_NULL, _UNDEFINED):
            return None
        if kind == _ECMA:
            self._take(4)
            return self._pairs(depth)
        if kind == _OBJECT:
            return self._pairs(depth)
        if kind == _STRICT:
            return [self.value(depth + 1) for _ in range(int.from_bytes(self._take(4)))]
        raise Malformed(f"type {kind}")

    def _pairs(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while True:
            name = self._string(2)
            if not name and self._data[self._at : self._at + 1] == bytes([_END]):
                self._at += 1
                return found
            found[name] = self.value(depth + 1)

    def _string(self, length_bytes: int) -> str:
        return self._take(int.from_bytes(self._take(length_bytes))).decode("utf-8", "replace")

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise Malformed("it ends too early")
        self._at += size
        return taken


def encode(*values: Any) -> bytes:
    """Numbers, strings, booleans, None and flat dictionaries."""
    return b"".join(map(_encoded, values))


def _encoded(value: Any) -> bytes:
    if value is None:
        return bytes([_NULL])
    if isinstance(value, bool):
        return bytes([_BOOLEAN, value])
    if isinstance(value, int | float):
        return bytes([_NUMBER]) + struct.pack(">d", value)
    if isinstance(value, str):
        return bytes([_STRING]) + _text(value)
    pairs = b"".join(_text(name) + _encoded(each) for name, each in value.items())
    return bytes([_OBJECT]) + pairs + b"\0\0" + bytes([_END])


def _text(value: str) -> bytes:
    data = value.encode()
    return len(data).to_bytes(2) + data
