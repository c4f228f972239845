"""Recognising raw streams without a container: a sync word is short, so it is believed only over frames in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipelines.opening.signatures import Demuxer

FrameSize = Callable[[bytes, int], int | None]
"""Bytes of the frame that starts at a place in the data; None when none starts there."""

CHAIN = 4
"""Frames in a row that make a raw audio stream."""
SEARCH_BYTES = 16_384
"""How far into the data a raw audio stream may start."""

_MPEG_AUDIO_KBPS = {
    (1, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (1, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (1, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (2, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (2, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Bit rates by (1 for MPEG-1 else 2, layer): ISO 11172-3 and 13818-3."""
_MPEG_AUDIO_HZ = (44_100, 48_000, 32_000)
_AC3_KBPS = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640)
_AC3_HZ = (48_000, 44_100, 32_000)


def mpeg_audio_size(data: bytes, at: int) -> int | None:
    """Layers I to III of MPEG-1, 2 and 2.5."""
    if at + 4 > len(data) or data[at] != 0xFF or data[at + 1] & 0xE0 != 0xE0:
        return None
    version, layer = (data[at + 1] >> 3) & 3, 4 - ((data[at + 1] >> 1) & 3)
    rate_index, hz_index, padding = data[at + 2] >> 4, (data[at + 2] >> 2) & 3, (data[at + 2] >> 1) & 1
    if version == 1 or layer == 4 or rate_index in (0, 15) or hz_index == 3:
        return None
    bits = _MPEG_AUDIO_KBPS[1 if version == 3 else 2, layer][rate_index - 1] * 1000
    hz = _MPEG_AUDIO_HZ[hz_index] >> {3: 0, 2: 1, 0: 2}[version]
    if layer == 1:
        return (12 * bits // hz + padding) * 4
    samples = 576 if layer == 3 and version != 3 else 1152
    return samples // 8 * bits // hz + padding


def adts_size(data: bytes, at: int) -> int | None:
    """AAC with ADTS headers."""
    if at + 7 > len(data) or data[at] != 0xFF or data[at + 1] & 0xF6 != 0xF0 or (data[at + 2] >> 2) & 15 > 12:
        return None
    size = (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5
    return size if size > 7 else None


def loas_size(data: bytes, at: int) -> int | None:
    """AAC in LOAS/LATM."""
    if at + 3 > len(data) or data[at] != 0x56 or data[at + 1] & 0xE0 != 0xE0:
        return None
    return 3 + ((data[at + 1] & 0x1F) << 8 | data[at + 2])


def ac3_size(data: bytes, at: int) -> int | None:
    """AC-3 (bsid up to 10)."""
    if at + 6 > len(data) or data[at : at + 2] != b"\x0b\x77" or data[at + 5] >> 3 > 10:
        return None
    hz_index, size_index = data[at + 4] >> 6, data[at + 4] & 0x3F
    if hz_index == 3 or size_index >= 2 * len(_AC3_KBPS):
        return None
    # a frame is 1536 samples, in words of 16 bits; at 44.1 kHz odd codes carry one more
    words = _AC3_KBPS[size_index >> 1] * 1000 * 1536 // _AC3_HZ[hz_index] // 16
    return 2 * (words + (size_index & 1 if hz_index == 1 else 0))


def eac3_size(data: bytes, at: int) -> int | None:
    """Enhanced AC-3 (bsid 11 to 16), and AC-3 frames, which may alternate with it."""
    if at + 6 > len(data) or data[at : at + 2] != b"\x0b\x77":
        return None
    if data[at + 5] >> 3 <= 10:
        return ac3_size(data, at)
    return 2 * (((data[at + 2] & 7) << 8 | data[at + 3]) + 1) if data[at + 5] >> 3 <= 16 else None


AUDIO_STREAMS: tuple[tuple[FrameSize, Demuxer], ...] = (
    (adts_size, Demuxer.AAC),
    (mpeg_audio_size, Demuxer.MP3),
    (ac3_size, Demuxer.AC3),
    (eac3_size, Demuxer.EAC3),
    (loas_size, Demuxer.LOAS),
)


def audio_stream(data: bytes, *, whole: bool) -> Demuxer | None:
    """The raw audio stream whose frames follow each other somewhere near the start. `whole`: `data` is all there is."""
    for frame_size, demuxer in AUDIO_STREAMS:
        for start in range(min(SEARCH_BYTES, len(data))):
            if frame_size(data, start) is not None and _chain(data, start, frame_size, whole=whole):
                return demuxer
    return None


def _chain(data: bytes, at: int, frame_size: FrameSize, *, whole: bool) -> bool:
    """CHAIN frames in a row; fewer where a short file is frames to its very end."""
    from_start = at == 0
    for _ in range(CHAIN):
        size = frame_size(data, at)
        if size is None:
            return False
        at += size
        if at >= len(data):
            return whole and at == len(data) and from_start
    return True


def transport_stream(data: bytes) -> bool:
    """MPEG-TS in packets of 188, 192 (with time codes) or 204 bytes (with parity), garbage before them allowed."""
    for size in (188, 192, 204):
        needed = min(8, len(data) // size)
        if needed < 3:
            continue
        for start in range(min(4 * size, len(data) - size * (needed - 1))):
            if all(data[start + size * n] == 0x47 for n in range(needed)):
                return True
    return _late_transport_stream(data)


def _late_transport_stream(data: bytes) -> bool:
    start = data.find(0x47)
    while 0 <= start < len(data) - 188 * 16:
        if all(data[start + 188 * n] == 0x47 for n in range(16)):
            return True
        start = data.find(0x47, start + 1)
    return False


def start_codes(data: bytes) -> Iterator[int]:
    """Places of the bytes that follow 00 00 01."""
    at = data.find(b"\x00\x00\x01")
    while 0 <= at < len(data) - 4:
        yield at + 3
        at = data.find(b"\x00\x00\x01", at + 3)


def program_stream(data: bytes) -> bool:
    """MPEG-PS: a pack header of MPEG-1 or 2, or PES packets one after the other."""
    at = data.find(b"\x00\x00\x01")
    if at < 0 or data[:at].strip(b"\x00") or at + 12 > len(data):
        return False
    code, marks = data[at + 3], data[at + 4]
    if code == 0xBA:
        return marks & 0xC4 == 0x44 or marks & 0xF1 == 0x21
    for _ in range(3):
        if data[at : at + 3] != b"\x00\x00\x01" or not (data[at + 3] >= 0xC0 or data[at + 3] in (0xBB, 0xBD)):
            return False
        at += 6 + int.from_bytes(data[at + 4 : at + 6])
        if at + 6 > len(data):
            return False
    return True


def video_stream(data: bytes) -> Demuxer | None:
    """A raw video stream, by the headers that must come before its first picture."""
    places = list(start_codes(data))
    if not places or data[: places[0] - 3].strip(b"\x00"):
        return None
    first = [data[place] for place in places]
    heads = [(data[place], data[place + 1]) for place in places]
    tests = (
        (_is_mpeg_video(first), Demuxer.MPEGVIDEO),
        (_is_mpeg4_video(first), Demuxer.M4V),
        (_is_vc1(first), Demuxer.VC1),
        (_is_h264(first), Demuxer.H264),
        (_is_hevc(heads), Demuxer.HEVC),
        (_is_vvc(heads), Demuxer.VVC),
    )
    return next((demuxer for found, demuxer in tests if found), None)


def _is_mpeg_video(codes: list[int]) -> bool:
    return codes[0] == 0xB3 and 0x00 in codes and any(1 <= code <= 0xAF for code in codes)


def _is_mpeg4_video(codes: list[int]) -> bool:
    layer = next((n for n, code in enumerate(codes) if 0x20 <= code <= 0x2F), None)
    return layer is not None and (codes[0] <= 0x1F or codes[0] in (0xB0, 0xB5)) and 0xB6 in codes[layer:]


def _is_vc1(codes: list[int]) -> bool:
    return codes[0] == 0x0F and (0x0E in codes or 0x0D in codes)


def _is_h264(codes: list[int]) -> bool:
    kinds = {code & 0x1F for code in codes}
    clean = all(code & 0x80 == 0 for code in codes)
    return clean and codes[0] & 0x1F in (6, 7, 9) and {7, 8} <= kinds and bool(kinds & {1, 5})


def _is_hevc(heads: list[tuple[int, int]]) -> bool:
    kinds = {first >> 1 for first, _ in heads}
    clean = all(first & 0x80 == 0 and second & 7 != 0 for first, second in heads)
    return clean and heads[0][0] >> 1 in (32, 33, 35, 39) and {33, 34} <= kinds and any(kind < 22 for kind in kinds)


def _is_vvc(heads: list[tuple[int, int]]) -> bool:
    kinds = {second >> 3 for _, second in heads}
    clean = all(first & 0xC0 == 0 and second & 7 != 0 for first, second in heads)
    return clean and {15, 16} <= kinds and any(kind <= 10 for kind in kinds)


def av1_stream(data: bytes) -> Demuxer | None:
    """Raw AV1: a temporal delimiter and a sequence header, with sizes inside (section 5) or around (annex B) them."""
    if data[:2] == b"\x12\x00" and len(data) > 2 and data[2] & 0xFA == 0x0A:
        return Demuxer.OBU
    try:
        unit, at = _leb128(data, 0)
        frame, at = _leb128(data, at)
        size, at = _leb128(data, at)
        if not (unit > frame > size and size in (1, 2) and data[at] & 0xF8 == 0x10):
            return None
        _, at = _leb128(data, at + size)
        return Demuxer.AV1_ANNEXB if data[at] & 0xF8 == 0x08 else None
    except IndexError:
        return None


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place after it."""
    value = 0
    for n in range(8):
        value |= (data[at + n] & 0x7F) << 7 * n
        if not data[at + n] & 0x80:
            return value, at + n + 1
    raise IndexError
