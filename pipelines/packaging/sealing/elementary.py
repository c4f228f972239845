"""Samples of transport streams encrypted: H.264 and AAC, as Apple's "MPEG-2 Stream Encryption Format for HTTP Live
Streaming" has it. What players need to find their way stays clear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipelines.packaging.sealing.blocks import BlockSeal

_START_CODE = b"\x00\x00\x00\x01"
_SLICES = (1, 5)
_PARTITIONS = (2, 3, 4)
_CLEAR_NAL_BYTES = 48
"""NAL units up to this size stay clear."""
_NAL_LEADER_BYTES = 32
_FRAME_LEADER_BYTES = 16
_UNSAFE = re.compile(rb"\x00\x00(?=[\x00-\x03])")


def seal_h264(data: bytes, seal: BlockSeal) -> bytes:
    """An access unit in Annex B. Each NAL unit gets a start code of four bytes, and no zeros behind it.

    A slice is encrypted as it is, with the bytes that keep start codes out of it, and then gets such bytes once more.
    """
    return b"".join(_START_CODE + _sealed(unit, seal) for unit in _units(data))


def _sealed(unit: bytes, seal: BlockSeal) -> bytes:
    kind = unit[0] & 0x1F
    if kind in _PARTITIONS:
        raise ValueError("SAMPLE-AES has no rule for slices in data partitions")
    if kind not in _SLICES or len(unit) <= _CLEAR_NAL_BYTES:
        return unit
    # the last block of a NAL unit is clear: 16 bytes are encrypted where more than 16 are left
    return _UNSAFE.sub(b"\x00\x00\x03", seal.stripes(unit, _NAL_LEADER_BYTES, 17))


def _units(data: bytes) -> Iterator[bytes]:
    at = data.find(b"\x00\x00\x01")
    if at < 0 or data[:at].strip(b"\x00"):
        raise ValueError("not a picture in Annex B")
    while at >= 0:
        begin = at + 3
        at = data.find(b"\x00\x00\x01", begin)
        unit = (data[begin:] if at < 0 else data[begin:at]).rstrip(b"\x00")
        if unit:
            yield unit


def seal_adts(data: bytes, seal: BlockSeal) -> bytes:
    """Frames of AAC behind their ADTS headers: 16 bytes more stay clear, then all whole blocks are encrypted."""
    made = []
    for begin, end in _frames(data):
        header = 7 if data[begin + 1] & 1 else 9
        clear = min(begin + header + _FRAME_LEADER_BYTES, end)
        made += [data[begin:clear], seal.blocks(data[clear:end])]
    return b"".join(made)


def _frames(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(data):
        head = data[at : at + 7]
        size = 0 if len(head) < 7 else (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
        if len(head) < 7 or head[0] != 0xFF or head[1] & 0xF6 != 0xF0 or size < 7 or at + size > len(data):
            raise ValueError("not frames of AAC in ADTS")
        yield at, at + size
        at += size


def aac_setup(data: bytes) -> bytes:
    """What decoders are told of AAC before its first frame (AudioSpecificConfig), from an ADTS header."""
    next(_frames(data))
    kind, rate, channels = (data[2] >> 6) + 1, data[2] >> 2 & 0xF, (data[2] & 1) << 2 | data[3] >> 6
    return (kind << 11 | rate << 7 | channels << 3).to_bytes(2, "big")
