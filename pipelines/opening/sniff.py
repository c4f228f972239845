"""What a file is, by its bytes: the one demuxer that may read it. Names and extensions play no part."""

from __future__ import annotations

import os
from collections.abc import Callable

from pipelines.errors import BadInput
from pipelines.opening import elementary
from pipelines.opening.signatures import BINARY_KINDS, MOV_BOXES, SIGNATURES, TEXT_KINDS, Demuxer

WINDOW_BYTES = 65_536
"""Bytes that are looked at; MXF allows as much before its header."""
ID3_HEADER_BYTES = 10
MAX_TAGS = 4
MXF_HEADER_PARTITION = b"\x06\x0e\x2b\x34\x02\x05\x01\x01\x0d\x01\x02\x01\x01\x02"

ANIMATED: dict[Demuxer, tuple[Callable[[bytes], bool], Demuxer]] = {
    # it says so before its first picture data
    Demuxer.PNG: (lambda data: b"acTL" in data.partition(b"IDAT")[0], Demuxer.APNG),
    # its extended header has a flag
    Demuxer.WEBP: (lambda data: data[12:16] == b"VP8X" and bool(data[20:21]) and data[20] & 2 != 0, Demuxer.WEBP_ANIM),
}
"""Kinds of pictures of which some move: what those have, and their own reader."""

TAGGED = (
    Demuxer.AAC, Demuxer.AC3, Demuxer.AIFF, Demuxer.APE, Demuxer.DSF, Demuxer.EAC3, Demuxer.FLAC, Demuxer.MP3,
    Demuxer.MPC, Demuxer.MPC8, Demuxer.OMA, Demuxer.TAK, Demuxer.TTA, Demuxer.WAV, Demuxer.WV,
)  # fmt: skip
"""Formats that are found with an ID3v2 tag in front."""


def sniff(descriptor: int) -> Demuxer:
    """The demuxer for an open file (its position stays). BadInput when it is no media that is read here."""
    data = os.pread(descriptor, WINDOW_BYTES, 0)
    if not data:
        raise BadInput("the file is empty", stage="open", looks_like="empty")
    size = os.fstat(descriptor).st_size
    start = tags_end(descriptor)
    if start:
        data = os.pread(descriptor, WINDOW_BYTES, start)
    demuxer = identify(data, whole=start + len(data) >= size)
    if start and demuxer not in TAGGED:
        # a tag and something unreadable behind it: still most likely MP3, whose demuxer searches farther
        return Demuxer.MP3
    if demuxer is None:
        kind = describe(data)
        raise BadInput(f"the input is not media that can be read: it looks like {kind}", stage="open", looks_like=kind)
    return demuxer


def identify(data: bytes, *, whole: bool = True) -> Demuxer | None:
    """The demuxer for a file that starts with `data`; `whole` says that there is no more."""
    return next((found for test in _TESTS if (found := test(data, whole)) is not None), None)


def describe(data: bytes) -> str:
    """What an unreadable file looks like, in a few words."""
    known = next((kind for magic, kind in BINARY_KINDS if data.startswith(magic)), None)
    if known is not None:
        return known
    text = _as_text(data[:1024])
    if text is None:
        return "unknown data"
    start = text.lstrip().lower()
    return next((kind for prefix, kind in TEXT_KINDS if start.startswith(prefix)), None) or (
        "subtitles (SRT)" if b"-->" in start else "text"
    )


def _as_text(data: bytes) -> bytes | None:
    """UTF-8 of what seems to be text in UTF-8, UTF-16 or an 8-bit encoding; None for other data."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace").encode("utf-8", errors="replace")
    data = data.removeprefix(b"\xef\xbb\xbf")
    printable = sum(byte >= 0x20 or byte in b"\t\n\r\f" for byte in data)
    return data if data and printable == len(data) and sum(byte < 0x80 for byte in data) > 0.7 * len(data) else None


def tags_end(descriptor: int) -> int:
    """Where the ID3v2 tags at the start end (their sizes are stored 7 bits to the byte)."""
    at = 0
    for _ in range(MAX_TAGS):
        head = os.pread(descriptor, ID3_HEADER_BYTES, at)
        if len(head) < ID3_HEADER_BYTES or head[:3] != b"ID3" or max(head[6:10]) > 0x7F or 0xFF in head[3:5]:
            break
        size = head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]
        has_footer = bool(head[5] & 0x10)
        at += ID3_HEADER_BYTES + size + (ID3_HEADER_BYTES if has_footer else 0)
    return at


def _by_signature(data: bytes, whole: bool) -> Demuxer | None:
    for parts, demuxer in SIGNATURES:
        if all(data.startswith(magic, offset) for offset, magic in parts):
            is_animated, reader = ANIMATED.get(demuxer, (None, demuxer))
            return reader if is_animated is not None and is_animated(data) else demuxer
    return None


def _by_first_box(data: bytes, whole: bool) -> Demuxer | None:
    size = int.from_bytes(data[:4])
    return Demuxer.MOV if data[4:8] in MOV_BOXES and (size >= 8 or size in (0, 1)) else None


def _mxf_after_run_in(data: bytes, whole: bool) -> Demuxer | None:
    return Demuxer.MXF if MXF_HEADER_PARTITION in data else None


_TESTS: tuple[Callable[[bytes, bool], Demuxer | None], ...] = (
    _by_signature,
    _by_first_box,
    lambda data, whole: Demuxer.MPEGTS if elementary.transport_stream(data) else None,
    lambda data, whole: Demuxer.MPEGPS if elementary.program_stream(data) else None,
    lambda data, whole: elementary.video_stream(data),
    lambda data, whole: elementary.av1_stream(data),
    lambda data, whole: elementary.audio_stream(data, whole=whole),
    _mxf_after_run_in,
)
