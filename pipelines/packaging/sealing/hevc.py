"""Where the header of an HEVC slice segment ends (ITU-T H.265, 7.3.6)."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.packaging.sealing.bits import BitReader, bounded, place_in_unit, sized_units
from pipelines.packaging.sealing.hevc_sets import Pps, RefSet, Sps, read_pps, read_ref_set, read_sps

_SPS, _PPS = 33, 34
_FIRST_IRAP, _LAST_IRAP, _IDRS = 16, 23, (19, 20)
_VCL = range(32)
_B, _P, _I = range(3)
HEADER_ROOM = 4096
"""Bytes that no header passes: 440 tiles or rows at most, with four bytes for each, and an extension of 256."""


@dataclass(frozen=True)
class _Segment:
    """What was read of a segment's header, for what comes later in it."""

    kind: int
    refs: int
    temporal_motion: bool
    sao: bool


class HevcHeaders:
    """The parameter sets of a stream, and with them the length of its slices' headers."""

    def __init__(self) -> None:
        self._sps: dict[int, Sps] = {}
        self._pps: dict[int, Pps] = {}

    @staticmethod
    def config_units(record: bytes) -> list[bytes]:
        """Parameter sets of an hvcC record (ISO/IEC 14496-15, 8.3.3.1)."""
        at, units = 23, list[bytes]()
        for _ in range(record[22]):
            some, at = sized_units(record, at + 3, int.from_bytes(record[at + 1 : at + 3], "big"))
            units += some
        return units

    def take(self, unit: bytes) -> int | None:
        """Bytes of the NAL unit up to where its slice data begins; None: it is not encrypted.

        ValueError for what is damaged, or not understood.
        """
        if len(unit) < 2:
            raise ValueError("a NAL unit without a header")
        kind, layer = unit[0] >> 1 & 0x3F, (unit[0] & 1) << 5 | unit[1] >> 3
        if layer:
            raise ValueError("pictures in layers")
        if kind == _SPS:
            number, sps = read_sps(BitReader(unit[2:]))
            self._sps[number] = sps
        elif kind == _PPS:
            number, pps = read_pps(BitReader(unit[2:]))
            self._pps[number] = pps
        elif kind in _VCL:
            return place_in_unit(unit, 2 + self._slice(BitReader(unit[2:HEADER_ROOM]), kind))
        return None

    def _slice(self, bits: BitReader, nal: int) -> int:
        is_first = bits.flag()
        if _FIRST_IRAP <= nal <= _LAST_IRAP:
            bits.u(1)
        pps = self._pps.get(bits.ue())
        sps = None if pps is None else self._sps.get(pps.sps)
        if pps is None or sps is None:
            raise ValueError("a slice without its parameter sets")
        depends = False
        if not is_first:
            depends = pps.dependent and bits.flag()
            bits.u((sps.tree_blocks - 1).bit_length())
        if not depends:
            _skip_slice(bits, _begin(bits, sps, pps, nal), sps, pps)
        if pps.tiles or pps.wavefront:
            entries = bounded(bits.ue(), 440, "entry points")
            size = bounded(bits.ue(), 31, "bits of entry points") + 1 if entries else 0
            for _ in range(entries):
                bits.u(size)
        if pps.extended:
            bits.u(8 * bounded(bits.ue(), 256, "bytes of an extension"))
        # a one, and zeros to the next byte
        return bits.at // 8 + 1


def _begin(bits: BitReader, sps: Sps, pps: Pps, nal: int) -> _Segment:
    """Up to the flags of sample adaptive offset."""
    bits.u(pps.extra_bits)
    kind = bounded(bits.ue(), 2, "a kind of slice")
    bits.u(pps.output_flag + 2 * sps.separate_planes)
    refs, temporal_motion = 0, False
    if nal not in _IDRS:
        bits.u(sps.order_bits)
        refs = _ref_set(bits, sps).used + _long_term(bits, sps)
        temporal_motion = sps.temporal_motion and bits.flag()
    sao = False
    if sps.sao:
        luma = bits.flag()
        sao = bool(bits.u(int(sps.has_chroma))) or luma
    return _Segment(kind, refs, temporal_motion, sao)


def _ref_set(bits: BitReader, sps: Sps) -> RefSet:
    if not bits.flag():
        return read_ref_set(bits, len(sps.ref_sets), sps.ref_sets)
    number = bits.u((len(sps.ref_sets) - 1).bit_length()) if len(sps.ref_sets) > 1 else 0
    if number >= len(sps.ref_sets):
        raise ValueError("a set of references that there is not")
    return sps.ref_sets[number]


def _long_term(bits: BitReader, sps: Sps) -> int:
    """How many pictures that are kept for long are used."""
    if sps.long_term is None:
        return 0
    listed = bounded(bits.ue(), 32, "references") if sps.long_term else 0
    own = bounded(bits.ue(), 32, "references")
    used = 0
    for number in range(listed + own):
        if number < listed:
            place = bits.u((len(sps.long_term) - 1).bit_length())
            if place >= len(sps.long_term):
                raise ValueError("a reference that there is not")
            used += sps.long_term[place]
        else:
            bits.u(sps.order_bits)
            used += bits.flag()
        if bits.flag():
            bits.ue()
    return used


def _skip_slice(bits: BitReader, segment: _Segment, sps: Sps, pps: Pps) -> None:
    """From the lists of references to what filters do across slices."""
    if segment.kind != _I:
        _skip_inter(bits, segment, sps, pps)
    bits.ue()
    bits.skip_ue(2 * pps.chroma_offsets)
    bits.u(int(pps.chroma_offset_lists))
    overridden = pps.deblocking_override and bits.flag()
    deblocked = not pps.deblocking_off
    if overridden:
        deblocked = not bits.flag()
        bits.skip_ue(2 * deblocked)
    if pps.across_slices and (segment.sao or deblocked):
        bits.u(1)


def _skip_inter(bits: BitReader, segment: _Segment, sps: Sps, pps: Pps) -> None:
    lists = 2 if segment.kind == _B else 1
    counts = pps.references[:lists]
    if bits.flag():
        counts = tuple(bits.ue() + 1 for _ in range(lists))
    for count in counts:
        bounded(count, 16, "references")
    if pps.list_changes and segment.refs > 1:
        for count in counts:
            if bits.flag():
                bits.u(count * (segment.refs - 1).bit_length())
    if segment.kind == _B:
        bits.u(1)
    bits.u(int(pps.cabac_init))
    if segment.temporal_motion:
        second = segment.kind == _B and not bits.flag()
        bits.skip_ue(int(counts[second] > 1))
    if pps.weighted_b if segment.kind == _B else pps.weighted:
        _skip_weights(bits, counts, has_chroma=sps.has_chroma)
    bits.ue()


def _skip_weights(bits: BitReader, counts: tuple[int, ...], *, has_chroma: bool) -> None:
    bits.skip_ue(1 + has_chroma)
    for count in counts:
        luma = [bits.flag() for _ in range(count)]
        chroma = [has_chroma and bits.flag() for _ in range(count)]
        for one, two in zip(luma, chroma, strict=True):
            bits.skip_ue(2 * one + 4 * two)
