"""AAC's headers in transport streams (ADTS, ISO/IEC 13818-7), which other containers say once for the whole track."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Header:
    """`config` is the AudioSpecificConfig that says the same (ISO/IEC 14496-3)."""

    size: int
    config: bytes


def parse(data: bytes) -> Header | None:
    """The header that a packet begins with; None when it has none."""
    if len(data) < 7 or data[0] != 0xFF or data[1] & 0xF6 != 0xF0:
        return None
    has_checksum = not data[1] & 1
    object_type = (data[2] >> 6) + 1
    rate_index = data[2] >> 2 & 0xF
    channels = (data[2] & 1) << 2 | data[3] >> 6
    config = object_type << 11 | rate_index << 7 | channels << 3
    return Header(9 if has_checksum else 7, config.to_bytes(2))
