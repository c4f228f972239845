"""CODECS strings (RFC 6381) from what encoders and containers say of a track.

Extradata is taken in both of its forms: the container's configuration record (avcC, hvcC, av1C, esds' decoder
specific info) and the bitstream's own headers (Annex B parameter sets, AV1 OBUs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

_START_CODE = b"\x00\x00\x01"
_H264_SPS = 7
_HEVC_SPS = 33
_AV1_SEQUENCE_HEADER = 1


@dataclass(frozen=True)
class Shape:
    """What the headers of VP9 don't say and those of AV1 hide: size in pixels, pictures per second, bits."""

    width: int = 0
    height: int = 0
    frame_rate: Fraction = Fraction(30)
    bit_depth: int = 8


def codec_string(codec: str, extradata: bytes = b"", shape: Shape | None = None) -> str:
    """The CODECS entry of a track; `codec` in FFmpeg's words. ValueError where it has none or its headers lack it."""
    make = _STRINGS.get(codec)
    if make is None:
        raise ValueError(f"{codec} has no codec string")
    return make(extradata, shape or Shape())


def nal_units(data: bytes) -> Iterator[bytes]:
    """NAL units of an Annex B stream, without start codes."""
    at = data.find(_START_CODE)
    while at >= 0:
        begin = at + 3
        at = data.find(_START_CODE, begin)
        unit = data[begin:] if at < 0 else data[begin:at]
        if unit := unit.rstrip(b"\x00"):
            yield unit


def without_emulation(unit: bytes) -> bytes:
    """A NAL unit's payload: without the bytes that keep start codes out of it."""
    return unit.replace(b"\x00\x00\x03", b"\x00\x00")


def _avc(extradata: bytes, shape: Shape) -> str:
    if extradata[:1] == b"\x01" and len(extradata) >= 4:
        return f"avc1.{extradata[1:4].hex().upper()}"
    for unit in nal_units(extradata):
        if unit[0] & 0x1F == _H264_SPS and len(unit) >= 4:
            return f"avc1.{unit[1:4].hex().upper()}"
    raise ValueError("H.264 without a sequence parameter set")


def _hevc(extradata: bytes, shape: Shape) -> str:
    if extradata[:1] == b"\x01" and len(extradata) >= 13:
        return _hevc_string(extradata[1:13])
    for unit in nal_units(extradata):
        if unit[0] >> 1 & 0x3F == _HEVC_SPS:
            profile = without_emulation(unit)[3:15]  # after two bytes of header and one of ids
            if len(profile) == 12:
                return _hevc_string(profile)
    raise ValueError("HEVC without a sequence parameter set")


def _hevc_string(profile: bytes) -> str:
    """From the twelve bytes that begin profile_tier_level (ISO/IEC 14496-15, annex E)."""
    space, tier, number = profile[0] >> 6, profile[0] >> 5 & 1, profile[0] & 0x1F
    compatible = int(f"{int.from_bytes(profile[1:5], 'big'):032b}"[::-1], 2)
    constraints = profile[5:11].rstrip(b"\x00")
    parts = [
        f"hvc1.{('', 'A', 'B', 'C')[space]}{number}",
        f"{compatible:X}",
        f"{'LH'[tier]}{profile[11]}",
        *(f"{byte:X}" for byte in constraints),
    ]
    return ".".join(parts)


def _av1(extradata: bytes, shape: Shape) -> str:
    if extradata[:1] == b"\x81" and len(extradata) >= 4:
        profile, level, tier = extradata[1] >> 5, extradata[1] & 0x1F, extradata[2] >> 7
        deep, deepest = extradata[2] >> 6 & 1, extradata[2] >> 5 & 1
        return _av1_string(profile, level, tier, 12 if deepest else 10 if deep else 8)
    for kind, payload in _obus(extradata):
        if kind == _AV1_SEQUENCE_HEADER:
            return _av1_string(*_av1_sequence(payload), shape.bit_depth)
    raise ValueError("AV1 without a sequence header")


def _av1_string(profile: int, level: int, tier: int, bit_depth: int) -> str:
    return f"av01.{profile}.{level:02d}{'MH'[tier]}.{bit_depth:02d}"


def _obus(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and payload of each OBU (AV1 specification, 5.3)."""
    at = 0
    while at < len(data):
        header = data[at]
        at += 1 + (header >> 2 & 1)
        size = len(data) - at
        if header >> 1 & 1:
            size = shift = 0
            while at < len(data):
                byte = data[at]
                at += 1
                size |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
        yield header >> 3 & 0xF, data[at : at + size]
        at += size


class _Bits:
    """Bits of a header, the highest of each byte first; zeros behind its end."""

    def __init__(self, data: bytes) -> None:
        self._bits = "".join(f"{byte:08b}" for byte in data)
        self._at = 0

    def take(self, count: int) -> int:
        taken = self._bits[self._at : self._at + count].ljust(count, "0")
        self._at += count
        return int(taken, 2)

    def skip_uvlc(self) -> None:
        zeros = 0
        while zeros < 32 and self.take(1) == 0:
            zeros += 1
        self._at += zeros


def _av1_sequence(payload: bytes) -> tuple[int, int, int]:
    """Profile, level and tier of the first operating point (AV1 specification, 5.5.1)."""
    bits = _Bits(payload)
    profile = bits.take(3)
    bits.take(1)
    if bits.take(1):
        return profile, bits.take(5), 0
    if bits.take(1):
        bits.take(64)
        if bits.take(1):
            bits.skip_uvlc()
        if bits.take(1):
            bits.take(47)
    bits.take(1)
    bits.take(5)
    bits.take(12)
    level = bits.take(5)
    return profile, level, bits.take(1) if level > 7 else 0


_VP9_LEVELS: tuple[tuple[int, int, int], ...] = (
    (10, 829_440, 36_864), (11, 2_764_800, 73_728), (20, 4_608_000, 122_880), (21, 9_216_000, 245_760),
    (30, 20_736_000, 552_960), (31, 36_864_000, 983_040), (40, 83_558_400, 2_228_224), (41, 160_432_128, 2_228_224),
    (50, 311_951_360, 8_912_896), (51, 588_251_136, 8_912_896), (52, 1_176_502_272, 8_912_896),
    (60, 1_176_502_272, 35_651_584), (61, 2_353_004_544, 35_651_584),
)  # fmt: skip
"""Level, luma samples a second, luma samples a picture (VP9 levels, webmproject.org)."""


def _vp9(extradata: bytes, shape: Shape) -> str:
    """Profiles 0 and 2 (4:2:0), by depth; the level that the size and rate need."""
    picture = shape.width * shape.height
    rate = picture * shape.frame_rate
    level = next((level for level, fast, large in _VP9_LEVELS if rate <= fast and picture <= large), 62)
    return f"vp09.{'02' if shape.bit_depth > 8 else '00'}.{level}.{shape.bit_depth:02d}"


def _aac(extradata: bytes, shape: Shape) -> str:
    """From the AudioSpecificConfig; without one (ADTS) it is AAC-LC."""
    if len(extradata) < 2:
        return "mp4a.40.2"
    kind = extradata[0] >> 3
    if kind == 31:
        kind = 32 + ((extradata[0] & 7) << 3 | extradata[1] >> 5)
    return f"mp4a.40.{kind}"


def _fixed(name: str) -> Callable[[bytes, Shape], str]:
    return lambda extradata, shape: name


_STRINGS: dict[str, Callable[[bytes, Shape], str]] = {
    "h264": _avc,
    "hevc": _hevc,
    "av1": _av1,
    "vp9": _vp9,
    "aac": _aac,
    "mp3": _fixed("mp4a.40.34"),
    "opus": _fixed("opus"),
    "flac": _fixed("fLaC"),
    "ac3": _fixed("ac-3"),
    "eac3": _fixed("ec-3"),
    "webvtt": _fixed("wvtt"),
}
