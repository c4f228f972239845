"""Transport packets with encrypted samples: each PES packet is taken out of them, encrypted, and put into new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pipelines.packaging.sealing.blocks import BlockSeal
from pipelines.packaging.sealing.elementary import aac_setup, seal_adts, seal_h264

PACKET_BYTES = 188
_PAYLOAD_BYTES = PACKET_BYTES - 4
_REGISTRATION, _PRIVATE_DATA = 0x05, 0x0F


@dataclass(frozen=True)
class Encrypted:
    """How a stream type looks when it is encrypted. `setup`: what its registration says, from its first samples."""

    stream_type: int
    indicator: bytes
    seal: Callable[[bytes, BlockSeal], bytes]
    setup: Callable[[bytes], bytes] | None = None


def _aac_registration(data: bytes) -> bytes:
    config = aac_setup(data)
    # audio type, samples of priming, version, and the setup behind its size
    return b"apad" + b"zaac" + bytes([0, 0, 1, len(config)]) + config


ENCRYPTED = {
    0x1B: Encrypted(0xDB, b"zavc", seal_h264),
    0x0F: Encrypted(0xCF, b"aacd", seal_adts, _aac_registration),
}
"""By the stream type that it has in the clear."""


class SealedTransport:
    """Of one track, from its table of contents (the PMT) and its packets as the muxer wrote them."""

    def __init__(self, seal: BlockSeal, table: bytes) -> None:
        """ValueError where the table has a stream that there is no rule for."""
        self._seal = seal
        self._table = _Table.parse(table)
        found = ENCRYPTED.get(self._table.stream_type)
        if found is None:
            raise ValueError(f"SAMPLE-AES has no rule for stream type {self._table.stream_type:#04x}")
        self._rule: Encrypted = found
        self._count = 0

    def table(self, packets: bytes) -> bytes:
        """The PMT for the encrypted stream; `packets` are of its first samples, in the clear."""
        added = _descriptor(_PRIVATE_DATA, self._rule.indicator)
        if self._rule.setup is not None:
            _, pes = next(_pes(packets))
            added += _descriptor(_REGISTRATION, self._rule.setup(pes[_head_bytes(pes) :]))
        return self._table.packet(self._rule.stream_type, added)

    def packets(self, data: bytes) -> bytes:
        """The same with samples encrypted; there may be more."""
        return b"".join(self._packets(first, pes) for first, pes in _pes(data))

    def _packets(self, first: bytes, pes: bytes) -> bytes:
        head = _head_bytes(pes)
        sealed = self._rule.seal(pes[head:], self._seal)
        size = head - 6 + len(sealed)
        # only pictures may come without a size, and only they grow
        told = size if pes[4:6] != b"\x00\x00" and size <= 0xFFFF else 0
        rest = pes[:4] + told.to_bytes(2, "big") + pes[6:head] + sealed
        pid = first[1] & 0x1F, first[2]
        fields, starts, made = _fields(first), 0x40, []
        while rest:
            room = _PAYLOAD_BYTES - (1 + len(fields) if fields else 0)
            part, rest = rest[:room], rest[room:]
            adaptation = _adaptation(fields, _PAYLOAD_BYTES - len(part))
            control = (0x30 if adaptation else 0x10) | self._count
            made.append(bytes([0x47, starts | pid[0], pid[1], control]) + adaptation + part)
            self._count = (self._count + 1) & 0xF
            fields, starts = b"", 0
        return b"".join(made)


def _pes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each PES packet, with the transport packet that it began in."""
    first: bytes | None = None
    parts: list[bytes] = []
    for at in range(0, len(data), PACKET_BYTES):
        packet = data[at : at + PACKET_BYTES]
        if packet[1] & 0x40:
            if first is not None:
                yield first, b"".join(parts)
            first, parts = packet, []
        elif first is None or _fields(packet):
            raise ValueError("a transport packet is not of the PES packet before it")
        parts.append(packet[4 + (1 + packet[4] if packet[3] & 0x20 else 0) :])
    if first is not None:
        yield first, b"".join(parts)


def _fields(packet: bytes) -> bytes:
    """What the adaptation field says (flags and clock), without stuffing; empty where it says nothing."""
    if not packet[3] & 0x20 or not packet[4] or not packet[5]:
        return b""
    if packet[5] & 0x0F:
        raise ValueError("an adaptation field with more than a clock")
    return packet[5 : 12 if packet[5] & 0x10 else 6]


def _adaptation(fields: bytes, size: int) -> bytes:
    """An adaptation field of `size` bytes in all."""
    if size == 0:
        return b""
    if size == 1:
        return b"\x00"
    fields = fields or b"\x00"
    return bytes([size - 1]) + fields + b"\xff" * (size - 1 - len(fields))


def _head_bytes(pes: bytes) -> int:
    if len(pes) < 9 or pes[:3] != b"\x00\x00\x01" or pes[6] & 0xC0 != 0x80:
        raise ValueError("not a PES packet")
    return 9 + pes[8]


def _descriptor(tag: int, body: bytes) -> bytes:
    return bytes([tag, len(body)]) + body


@dataclass(frozen=True)
class _Table:
    """A PMT of one stream: the packet's head, the section up to its stream, and that."""

    head: bytes
    begin: bytes
    stream_type: int
    pid: bytes
    descriptors: bytes

    @classmethod
    def parse(cls, packet: bytes) -> _Table:
        section = packet[5 + packet[4] :]
        length = (section[1] & 0xF) << 8 | section[2]
        body = section[: 3 + length - 4]
        stream = 12 + ((body[10] & 0xF) << 8 | body[11])
        size = (body[stream + 3] & 0xF) << 8 | body[stream + 4]
        if packet[3] & 0x20 or section[0] != 2 or len(body) != stream + 5 + size:
            raise ValueError("not a program map of one stream")
        return cls(packet[:4], body[:stream], body[stream], body[stream + 1 : stream + 3], body[stream + 5 :])

    def packet(self, stream_type: int, added: bytes) -> bytes:
        descriptors = self.descriptors + added
        stream = bytes([stream_type]) + self.pid + (0xF000 | len(descriptors)).to_bytes(2, "big") + descriptors
        length = len(self.begin) - 3 + len(stream) + 4
        section = self.begin[:1] + (0xB000 | length).to_bytes(2, "big") + self.begin[3:] + stream
        whole = self.head + b"\x00" + section + _crc(section).to_bytes(4, "big")
        if len(whole) > PACKET_BYTES:
            raise ValueError("a program map of more than one packet")
        return whole.ljust(PACKET_BYTES, b"\xff")


def _crc(data: bytes) -> int:
    """CRC-32 of MPEG-2 (ISO/IEC 13818-1, annex A): not reflected, not inverted at the end."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ 0x04C11DB7 if crc & 0x80000000 else crc << 1) & 0xFFFFFFFF
    return crc
