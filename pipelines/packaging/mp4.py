"""Fragments of MP4 as FFmpeg's muxer writes them for one track: taken apart, moved in time, joined (ISO/IEC 14496-12).

The muxer does what depends on codecs (sample entries, bitstreams as MP4 wants them); where a segment ends is ours.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SYNC_FLAGS = 0x02000000
"""Sample flags of what depends on nothing else."""
_NOT_SYNC = 0x00010000
_PARENTS = frozenset({b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf"})
_RECORDS = frozenset({b"avcC", b"hvcC", b"av1C", b"vpcC", b"esds", b"dOps", b"dfLa", b"dac3", b"dec3"})
ENTRY_HEADERS = {b"vide": 78, b"soun": 28}
"""Bytes of a sample entry before its boxes, by handler."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box inside `data`: its body lies from `begin` to `end`."""

    kind: bytes
    begin: int
    end: int


def boxes(data: bytes, begin: int = 0, end: int | None = None) -> Iterator[Box]:
    """The boxes of one level, with their whole bodies; ValueError where they don't fit into each other."""
    end = len(data) if end is None else end
    while begin + 8 <= end:
        size, kind = struct.unpack_from(">I4s", data, begin)
        head = 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, begin + 8)
            head = 16
        if size < head or begin + size > end:
            raise ValueError(f"a box {kind!r} of {size} bytes does not fit")
        yield Box(kind, begin + head, begin + size)
        begin += size
    if begin != end:
        raise ValueError("bytes behind the last box")


def find(data: bytes, *path: bytes) -> Box:
    """The first box at a path such as moof, traf, tfdt; ValueError when there is none."""
    begin, end = 0, len(data)
    found: Box | None = None
    for kind in path:
        found = next((box for box in boxes(data, begin, end) if box.kind == kind), None)
        if found is None:
            raise ValueError(f"no box {b'/'.join(path).decode()}")
        begin, end = found.begin, found.end
    assert found is not None
    return found


@dataclass(frozen=True, slots=True)
class Sample:
    """Times in the track's ticks; `offset`: presentation time less decode time."""

    duration: int
    size: int
    offset: int
    sync: bool


@dataclass(frozen=True)
class Fragment:
    """A moof with its mdat. `payload`: where the samples begin in `data`."""

    decode_time: int
    samples: tuple[Sample, ...]
    data: bytes
    payload: int

    @property
    def begin(self) -> int:
        """When its first picture is shown: the samples begin with one that nothing before it is shown after."""
        return self.decode_time + self.samples[0].offset

    @property
    def end(self) -> int:
        """When the last of its samples is over."""
        time, latest = self.decode_time, self.decode_time
        for sample in self.samples:
            latest = max(latest, time + sample.offset + sample.duration)
            time += sample.duration
        return latest

    @property
    def duration(self) -> int:
        return sum(sample.duration for sample in self.samples)

    @property
    def first_sample_end(self) -> int:
        """Bytes up to the end of the first sample: what a player needs for that picture alone."""
        return self.payload + self.samples[0].size

    def moved(self, ticks: int) -> Fragment:
        """The same at another time."""
        if ticks == 0:
            return self
        tfdt = find(self.data, b"moof", b"traf", b"tfdt")
        data = bytearray(self.data)
        struct.pack_into(">Q" if data[tfdt.begin] else ">I", data, tfdt.begin + 4, self.decode_time + ticks)
        return Fragment(self.decode_time + ticks, self.samples, bytes(data), self.payload)


class Mp4Stream:
    """What a muxer writes, as it comes: the init section, then fragments."""

    def __init__(self) -> None:
        self.init = b""
        self.timescale = 0
        self._pending = b""

    def feed(self, data: bytes) -> list[Fragment]:
        """The fragments that `data` completes."""
        self._pending += data
        fragments: list[Fragment] = []
        at = 0
        moof: tuple[int, int] | None = None
        for kind, begin, end in _whole(self._pending):
            if kind in (b"ftyp", b"moov"):
                self.init += self._pending[begin:end]
                if kind == b"moov":
                    self.timescale = track_timescale(self.init)
            elif kind == b"moof":
                moof = (begin, end)
                continue
            elif kind == b"mdat" and moof is not None:
                fragments.append(parse(self._pending[moof[0] : end]))
            moof, at = None, end
        self._pending = self._pending[at:]
        return fragments


def _whole(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    at = 0
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if size == 1:
            if at + 16 > len(data):
                return
            (size,) = struct.unpack_from(">Q", data, at + 8)
        if size < 8:
            raise ValueError(f"a box {kind!r} of {size} bytes")
        if at + size > len(data):
            return
        yield kind, at, at + size
        at += size


def parse(data: bytes) -> Fragment:
    """One moof and its mdat; ValueError when they are not of one run of one track, as the muxer writes them."""
    mdat = find(data, b"mdat")
    tfdt = find(data, b"moof", b"traf", b"tfdt")
    (decode_time,) = struct.unpack_from(">Q" if data[tfdt.begin] else ">I", data, tfdt.begin + 4)
    traf = find(data, b"moof", b"traf")
    defaults = _defaults(data, find(data, b"moof", b"traf", b"tfhd"))
    samples: list[Sample] = []
    for box in boxes(data, traf.begin, traf.end):
        if box.kind == b"trun":
            samples += _run(data, box, *defaults)
    if not samples or sum(sample.size for sample in samples) != mdat.end - mdat.begin:
        raise ValueError("a fragment's samples are not its data")
    return Fragment(decode_time, tuple(samples), data, mdat.begin)


def _flags(data: bytes, box: Box) -> int:
    (word,) = struct.unpack_from(">I", data, box.begin)
    return int(word & 0xFFFFFF)


def _defaults(data: bytes, tfhd: Box) -> tuple[int, int, int]:
    """Duration, size and flags of samples that say nothing themselves."""
    flags, at = _flags(data, tfhd), tfhd.begin + 8
    at += 8 * bool(flags & 0x1) + 4 * bool(flags & 0x2)
    values = [0, 0, 0]
    for number, bit in enumerate((0x8, 0x10, 0x20)):
        if flags & bit:
            (values[number],) = struct.unpack_from(">I", data, at)
            at += 4
    return values[0], values[1], values[2]


def _run(data: bytes, trun: Box, duration: int, size: int, sample_flags: int) -> Iterator[Sample]:
    flags = _flags(data, trun)
    (count,) = struct.unpack_from(">I", data, trun.begin + 4)
    at = trun.begin + 8 + 4 * bool(flags & 0x1)
    first_flags: int | None = None
    if flags & 0x4:
        (first_flags,) = struct.unpack_from(">I", data, at)
        at += 4
    fields = [bit for bit in (0x100, 0x200, 0x400, 0x800) if flags & bit]
    row = struct.Struct(">" + "".join("i" if bit == 0x800 else "I" for bit in fields))
    for number in range(count):
        values = dict(zip(fields, row.unpack_from(data, at + number * row.size), strict=True))
        own = values.get(0x400, sample_flags)
        if number == 0 and first_flags is not None:
            own = first_flags
        yield Sample(
            values.get(0x100, duration), values.get(0x200, size), values.get(0x800, 0), sync=not own & _NOT_SYNC
        )


def joined(fragments: Sequence[Fragment], sequence: int) -> Fragment:
    """One fragment of all: for sound, where each sample is independent."""
    samples = tuple(sample for fragment in fragments for sample in fragment.samples)
    payload = b"".join(fragment.data[fragment.payload :] for fragment in fragments)
    rows = b"".join(struct.pack(">II", sample.duration, sample.size) for sample in samples)
    decode_time = fragments[0].decode_time
    # default-base-is-moof, default sample flags; then data offset, and duration and size of each sample
    tfhd = make_box(b"tfhd", struct.pack(">III", 0x020020, 1, SYNC_FLAGS))
    tfdt = make_box(b"tfdt", struct.pack(">IQ", 1 << 24, decode_time))
    mfhd = make_box(b"mfhd", struct.pack(">II", 0, sequence))
    fixed = len(mfhd) + len(tfhd) + len(tfdt) + 8 + 8 + 8 + 12
    moof_size = fixed + len(rows)
    trun = make_box(b"trun", struct.pack(">III", 0x301, len(samples), moof_size + 8) + rows)
    moof = make_box(b"moof", mfhd + make_box(b"traf", tfhd + tfdt + trun))
    return Fragment(decode_time, samples, moof + make_box(b"mdat", payload), len(moof) + 8)


def make_box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body


def index_bytes(entries: int) -> int:
    """Size of an index of so many entries."""
    return 40 + 12 * entries


def index_box(timescale: int, begin: int, entries: Sequence[tuple[int, int]], *, gap: int) -> bytes:
    """A sidx of (bytes, ticks) that lie one behind the other, `gap` bytes after it. Each begins with a keyframe."""
    head = struct.pack(">IIIQQHH", 1 << 24, 1, timescale, begin, gap, 0, len(entries))
    rows = b"".join(struct.pack(">III", size & 0x7FFFFFFF, ticks, 0x90000000) for size, ticks in entries)
    return make_box(b"sidx", head + rows)


def free_box(size: int) -> bytes:
    """A box that is skipped, of `size` bytes in all (at least 8)."""
    return make_box(b"free", bytes(size - 8))


def with_edit_list(init: bytes, media_time: int) -> bytes:
    """An init section whose track is shown from `media_time` on (in its own ticks)."""
    if media_time <= 0:
        return init
    moov, trak, tkhd = (find(init, *path) for path in ((b"moov",), (b"moov", b"trak"), (b"moov", b"trak", b"tkhd")))
    # one entry, version 1: duration 0 (to the end), media time, rate 1
    edts = make_box(b"edts", make_box(b"elst", struct.pack(">IIQqI", 1 << 24, 1, 0, media_time, 1 << 16)))
    data = bytearray(init)
    for parent in (moov, trak):
        struct.pack_into(">I", data, parent.begin - 8, parent.end - parent.begin + 8 + len(edts))
    return bytes(data[: tkhd.end]) + edts + bytes(data[tkhd.end :])


def track_timescale(init: bytes) -> int:
    mdhd = find(init, b"moov", b"trak", b"mdia", b"mdhd")
    (timescale,) = struct.unpack_from(">I", init, mdhd.begin + (20 if init[mdhd.begin] else 12))
    return int(timescale)


def sample_entry(init: bytes) -> tuple[str, dict[str, bytes]]:
    """Name of the track's sample entry (avc1, mp4a …) and its configuration records by box name."""
    handler = find(init, b"moov", b"trak", b"mdia", b"hdlr")
    stsd = find(init, b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd")
    entry = next(boxes(init, stsd.begin + 8, stsd.end))
    head = ENTRY_HEADERS[init[handler.begin + 8 : handler.begin + 12]]
    records = {
        box.kind.decode(): init[box.begin : box.end]
        for box in boxes(init, entry.begin + head, entry.end)
        if box.kind in _RECORDS
    }
    return entry.kind.decode("latin-1"), records


def decoder_config(esds: bytes) -> tuple[int, bytes]:
    """Object type and decoder specific info of an esds box (ISO/IEC 14496-1 descriptors)."""
    kind, config = 0, b""
    at = 4
    while at < len(esds):
        tag = esds[at]
        at += 1
        size = 0
        while at < len(esds):
            byte = esds[at]
            at += 1
            size = size << 7 | byte & 0x7F
            if byte < 0x80:
                break
        if tag == 3:  # ES descriptor: id, flags, and descriptors in it
            at += 3
        elif tag == 4:  # decoder config: object type, stream type, buffer size, bitrates, and descriptors in it
            kind = esds[at]
            at += 13
        elif tag == 5:
            config = esds[at : at + size]
            at += size
        else:
            at += size
    return kind, config
