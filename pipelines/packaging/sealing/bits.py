"""Reading bits of H.264 and HEVC headers, and finding the place in the NAL unit where they end."""

from __future__ import annotations

_GUARD = b"\x00\x00\x03"


class BitReader:
    """The payload of a NAL unit's beginning: without the bytes that keep start codes out of it.

    ValueError behind its end, and for a number of more than 32 bits.
    """

    def __init__(self, unit: bytes) -> None:
        payload = unit.replace(_GUARD, b"\x00\x00")
        self._value = int.from_bytes(payload, "big")
        self._size = 8 * len(payload)
        self.at = 0
        """Bits that have been read."""

    def u(self, count: int) -> int:
        if self.at + count > self._size:
            raise ValueError("a header ends too early")
        self.at += count
        return self._value >> (self._size - self.at) & ((1 << count) - 1)

    def flag(self) -> bool:
        return self.u(1) == 1

    def ue(self) -> int:
        zeros = 0
        while not self.u(1):
            zeros += 1
            if zeros > 32:
                raise ValueError("a number that is no number")
        return (1 << zeros) - 1 + self.u(zeros)

    def se(self) -> int:
        code = self.ue()
        return (code + 1) // 2 if code & 1 else -(code // 2)

    def skip_ue(self, count: int) -> None:
        for _ in range(count):
            self.ue()


def place_in_unit(unit: bytes, payload_bytes: int) -> int:
    """How many bytes of the NAL unit the first bytes of its payload take. ValueError where it has not so many."""
    at = left = 0
    zeros = 0
    while left < payload_bytes:
        if at == len(unit):
            raise ValueError("a header ends too early")
        byte = unit[at]
        at += 1
        if zeros >= 2 and byte == 3:
            zeros = 0
            continue
        zeros = zeros + 1 if byte == 0 else 0
        left += 1
    return at


def bounded(value: int, most: int, what: str) -> int:
    """`value`, which streams may say anything of; ValueError above `most`."""
    if value > most:
        raise ValueError(f"{what}: {value} is above {most}")
    return value


def sized_units(record: bytes, at: int, count: int) -> tuple[list[bytes], int]:
    """NAL units, each behind two bytes of its size; and where the record goes on."""
    units = []
    for _ in range(count):
        size = int.from_bytes(record[at : at + 2], "big")
        units.append(record[at + 2 : at + 2 + size])
        at += 2 + size
    return units, at
