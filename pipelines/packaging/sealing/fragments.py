"""Samples of fragmented MP4 encrypted by the `cbcs` scheme (ISO/IEC 23001-7, 10.4).

Of pictures one block of ten is encrypted, from the first whole byte behind each slice's header on; of sound all whole
blocks. Each part begins with the one initialisation vector that the init section tells.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pipelines.packaging.mp4 import ENTRY_HEADERS, Box, Fragment, boxes, find, make_box, parse, sample_entry
from pipelines.packaging.sealing.avc import AvcHeaders
from pipelines.packaging.sealing.blocks import BLOCK_BYTES, STRIPE_BLOCKS, BlockSeal
from pipelines.packaging.sealing.hevc import HevcHeaders

Headers = AvcHeaders | HevcHeaders
HEADERS: dict[str, type[AvcHeaders] | type[HevcHeaders]] = {"avcC": AvcHeaders, "hvcC": HevcHeaders}
"""By the configuration record that the codec has."""
PICTURES = b"vide"
_LENGTH_BYTES = {"avcC": 4, "hvcC": 21}
"""Where the record says how long the sizes of NAL units are."""
MOST_PARTS = 42
"""Of a picture: what is told of it (2 bytes for their number, 6 for each) has its size in a byte."""

Part = tuple[int, int]
"""Bytes that stay clear, and bytes behind them that are encrypted."""


class SealedFragments:
    """Of one track, from its init section as the muxer wrote it. ValueError for codecs without a rule."""

    def __init__(self, seal: BlockSeal, key_id: bytes, init: bytes) -> None:
        self._seal, self._key_id = seal, key_id
        handler = find(init, b"moov", b"trak", b"mdia", b"hdlr")
        self._headers: Headers | None = None
        self._size_bytes = 0
        self.is_picture = init[handler.begin + 8 : handler.begin + 12] == PICTURES
        if self.is_picture:
            name, records = sample_entry(init)
            record = next((each for each in HEADERS if each in records), None)
            if record is None:
                raise ValueError(f"SAMPLE-AES has no rule for {name}")
            self._headers = HEADERS[record]()
            self._size_bytes = (records[record][_LENGTH_BYTES[record]] & 3) + 1
            for unit in self._headers.config_units(records[record]):
                self._headers.take(unit)

    def init(self, init: bytes) -> bytes:
        """The init section with a protected sample entry."""
        path = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd")
        stsd = find(init, *path)
        handler = find(init, b"moov", b"trak", b"mdia", b"hdlr")
        entry = next(boxes(init, stsd.begin + 8, stsd.end))
        # the entry has its own boxes behind a head of fixed size
        assert entry.end - entry.begin >= ENTRY_HEADERS[init[handler.begin + 8 : handler.begin + 12]]
        protection = self._protection(entry.kind)
        data = bytearray(init)
        data[entry.begin - 4 : entry.begin] = b"encv" if self.is_picture else b"enca"
        parents = [find(init, *path[: depth + 1]) for depth in range(len(path))]
        for box in (*parents, entry):
            struct.pack_into(">I", data, box.begin - 8, box.end - box.begin + 8 + len(protection))
        return bytes(data[: entry.end]) + protection + bytes(data[entry.end :])

    def _protection(self, codec: bytes) -> bytes:
        pattern = 1 << 4 | (STRIPE_BLOCKS - 1) if self.is_picture else 0
        # reserved, pattern, protected, no vectors of samples' own; then the key's id and the vector of all
        told = bytes([0, pattern, 1, 0]) + self._key_id + bytes([len(self._seal.iv)]) + self._seal.iv
        scheme = make_box(b"schm", bytes(4) + b"cbcs" + (1 << 16).to_bytes(4, "big"))
        return make_box(
            b"sinf",
            make_box(b"frma", codec) + scheme + make_box(b"schi", make_box(b"tenc", bytes([1, 0, 0, 0]) + told)),
        )

    def fragment(self, fragment: Fragment) -> Fragment:
        """The same with its samples encrypted, and told which bytes of them are."""
        data, at = fragment.data, fragment.payload
        samples: list[bytes] = []
        parts: list[list[Part]] = []
        for sample in fragment.samples:
            sealed, told = self._sample(data[at : at + sample.size])
            samples.append(sealed)
            parts.append(told)
            at += sample.size
        return parse(
            _with_parts(data, parts if self.is_picture else None, len(samples)) + make_box(b"mdat", b"".join(samples))
        )

    def _sample(self, sample: bytes) -> tuple[bytes, list[Part]]:
        if self._headers is None:
            return self._seal.blocks(sample), []
        pieces: list[bytes] = []
        parts: list[Part] = []
        clear = 0
        for begin, end in _units(sample, self._size_bytes):
            unit = sample[begin:end]
            head = self._headers.take(unit) if unit else None
            if head is None or head + BLOCK_BYTES > len(unit):
                pieces += [sample[begin - self._size_bytes : end]]
                clear += self._size_bytes + len(unit)
                continue
            pieces += [sample[begin - self._size_bytes : begin], self._seal.stripes(unit, head, BLOCK_BYTES)]
            parts += _split(clear + self._size_bytes + head, len(unit) - head)
            clear = 0
        if clear:
            parts += _split(clear, 0)
        if len(parts) > MOST_PARTS:
            raise ValueError(f"a picture of more than {MOST_PARTS} parts")
        return b"".join(pieces), parts


def _split(clear: int, sealed: int) -> Iterator[Part]:
    """A part, whose clear bytes are told in 16 bits."""
    while clear > 0xFFFF:
        yield 0xFFFF, 0
        clear -= 0xFFFF
    yield clear, sealed


def _units(sample: bytes, size_bytes: int) -> Iterator[tuple[int, int]]:
    """Where NAL units lie behind their sizes."""
    at = 0
    while at < len(sample):
        begin = at + size_bytes
        at = begin + int.from_bytes(sample[at:begin], "big")
        if at > len(sample):
            raise ValueError("a NAL unit is longer than its sample")
        yield begin, at


def _with_parts(data: bytes, parts: list[list[Part]] | None, count: int) -> bytes:
    """The moof with what is told of its samples. Without parts (sound) their number is all."""
    moof, traf = find(data, b"moof"), find(data, b"moof", b"traf")
    start = moof.begin - 8
    head = struct.pack(">II", 0 if parts is None else 2, count)
    if parts is None:
        added = make_box(b"senc", head)
    else:
        rows = [struct.pack(">H", len(told)) + b"".join(struct.pack(">HI", *part) for part in told) for told in parts]
        sizes = bytes(len(row) for row in rows)
        senc = make_box(b"senc", head + b"".join(rows))
        # both offsets count from the moof's first byte
        place = traf.end - start + 8 + len(head)
        added = senc + make_box(b"saiz", struct.pack(">IBI", 0, 0, count) + sizes)
        added += make_box(b"saio", struct.pack(">III", 0, 1, place))
    moved = bytearray(data[start : moof.end])
    for box in boxes(data, traf.begin, traf.end):
        _move(moved, box, box.begin - start, len(added))
    for parent in (moof, traf):
        struct.pack_into(">I", moved, parent.begin - 8 - start, parent.end - parent.begin + 8 + len(added))
    return bytes(moved[: traf.end - start]) + added + bytes(moved[traf.end - start :])


def _move(moof: bytearray, box: Box, at: int, by: int) -> None:
    """A run's data lies that much further behind."""
    flags = int.from_bytes(moof[at + 1 : at + 4], "big")
    if box.kind == b"tfhd" and flags & 1:
        raise ValueError("data that is not placed by its moof")
    if box.kind == b"trun" and flags & 1:
        (offset,) = struct.unpack_from(">i", moof, at + 8)
        struct.pack_into(">i", moof, at + 8, offset + by)
