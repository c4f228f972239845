"""Bitrates of sound: what is usual, and what a codec can do at a sample rate and channel count. All bit/s."""

from __future__ import annotations

from collections.abc import Callable

USUAL: dict[str, dict[int, int]] = {
    "aac": {1: 96_000, 2: 160_000, 6: 384_000, 8: 512_000},
    "opus": {1: 64_000, 2: 128_000, 6: 320_000, 8: 450_000},
    "mp3": {1: 96_000, 2: 192_000},
}
"""By channel count; codecs that are not here are lossless and have no bitrate."""

FULL_RATE = 32_000
"""Below this sample rate there is less to carry, and less is taken in proportion."""
LEAST_USUAL = 24_000

_MPEG1_LAYER3 = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_MPEG2_LAYER3 = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_MPEG25_LAYER3 = _MPEG2_LAYER3[:8]
"""kbit/s. MPEG-2.5, the extension to 8-12 kHz, is used up to 64 by encoders."""


def _mp3(asked: int, channels: int, sample_rate: int) -> int:
    table = _MPEG1_LAYER3 if sample_rate >= 32_000 else _MPEG2_LAYER3 if sample_rate >= 16_000 else _MPEG25_LAYER3
    return min((step * 1000 for step in table), key=lambda step: (abs(step - asked), -step))


def _aac(asked: int, channels: int, sample_rate: int) -> int:
    # a channel has at most 6144 bits in a frame of 1024 samples (ISO 14496-3)
    return min(asked, 6 * sample_rate * channels)


def _opus(asked: int, channels: int, sample_rate: int) -> int:
    # RFC 6716, section 2.1.1: from 6 kbit/s to 510 kbit/s for two channels
    return min(max(asked, 6_000 * channels), 255_000 * channels)


POSSIBLE: dict[str, Callable[[int, int, int], int]] = {"aac": _aac, "mp3": _mp3, "opus": _opus}
"""(asked, channels, sample rate) → the nearest bitrate that the codec has."""


def usual_bitrate(codec: str, channels: int, sample_rate: int) -> int | None:
    """None for lossless codecs."""
    table = USUAL.get(codec)
    if table is None:
        return None
    known = max(count for count in table if count <= channels)
    bit_rate = table[known] * channels // known
    if sample_rate < FULL_RATE:
        bit_rate = max(LEAST_USUAL, bit_rate * sample_rate // 48_000 // 8_000 * 8_000)
    return POSSIBLE[codec](bit_rate, channels, sample_rate)
