"""Where the header of an H.264 slice ends (ITU-T H.264, 7.3.2 to 7.3.3)."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.packaging.sealing.bits import BitReader, bounded, place_in_unit, sized_units

_SPS, _PPS, _IDR = 7, 8, 5
_SLICES, _PARTITIONS = (1, 5), (2, 3, 4)
_CHROMA_PROFILES = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})
_P, _B, _I, _SP, _SI = range(5)
_MOST_REFERENCES = 32
HEADER_ROOM = 1024
"""Bytes that no header passes: of lists and weights there are 32 at most."""


@dataclass(frozen=True)
class _Sps:
    separate_planes: bool
    has_chroma: bool
    frame_num_bits: int
    order_type: int
    order_bits: int
    order_is_always_zero: bool
    frames_only: bool


@dataclass(frozen=True)
class _Pps:
    sps: int
    cabac: bool
    bottom_order: bool
    references: tuple[int, int]
    weighted: bool
    weighted_b: bool
    deblocking: bool
    redundant: bool


class AvcHeaders:
    """The parameter sets of a stream, and with them the length of its slices' headers."""

    def __init__(self) -> None:
        self._sps: dict[int, _Sps] = {}
        self._pps: dict[int, _Pps] = {}

    @staticmethod
    def config_units(record: bytes) -> list[bytes]:
        """Parameter sets of an avcC record (ISO/IEC 14496-15, 5.3.3.1)."""
        at, units = 5, list[bytes]()
        for mask in (0x1F, 0xFF):
            some, at = sized_units(record, at + 1, record[at] & mask)
            units += some
        return units

    def take(self, unit: bytes) -> int | None:
        """Bytes of the NAL unit up to where its slice data begins; None: it is not encrypted.

        ValueError for what is damaged, or not understood.
        """
        kind = unit[0] & 0x1F
        if kind == _SPS:
            number, sps = _read_sps(BitReader(unit[1:]))
            self._sps[number] = sps
        elif kind == _PPS:
            number, pps = _read_pps(BitReader(unit[1:]))
            self._pps[number] = pps
        elif kind in _PARTITIONS:
            raise ValueError("slices in data partitions")
        elif kind in _SLICES:
            return self._slice(unit, idr=kind == _IDR)
        return None

    def _slice(self, unit: bytes, *, idr: bool) -> int:
        bits = BitReader(unit[1:HEADER_ROOM])
        bits.ue()
        kind = bits.ue() % 5
        pps = self._pps.get(bits.ue())
        sps = None if pps is None else self._sps.get(pps.sps)
        if pps is None or sps is None:
            raise ValueError("a slice without its parameter sets")
        bits.u(2 * sps.separate_planes + sps.frame_num_bits)
        field = False
        if not sps.frames_only:
            field = bits.flag()
            bits.u(int(field))
        bits.skip_ue(int(idr))
        order_pairs = pps.bottom_order and not field
        if sps.order_type == 0:
            bits.u(sps.order_bits)
            bits.skip_ue(int(order_pairs))
        elif sps.order_type == 1 and not sps.order_is_always_zero:
            bits.skip_ue(1 + order_pairs)
        bits.skip_ue(int(pps.redundant))
        if kind == _B:
            bits.u(1)
        references = _references(bits, kind, pps)
        for _ in references:
            _skip_reordering(bits)
        if (pps.weighted and kind in (_P, _SP)) or (pps.weighted_b and kind == _B):
            _skip_weights(bits, references, has_chroma=sps.has_chroma)
        if unit[0] >> 5 & 3:
            _skip_marking(bits, idr=idr)
        if pps.cabac and kind not in (_I, _SI):
            bits.ue()
        bits.ue()
        if kind in (_SP, _SI):
            bits.u(int(kind == _SP))
            bits.ue()
        if pps.deblocking and bits.ue() != 1:
            bits.skip_ue(2)
        return place_in_unit(unit, 1 + -(-bits.at // 8))


def _read_sps(bits: BitReader) -> tuple[int, _Sps]:
    profile = bits.u(8)
    bits.u(16)
    number = bounded(bits.ue(), 31, "a sequence parameter set's number")
    chroma, separate = 1, False
    if profile in _CHROMA_PROFILES:
        chroma = bits.ue()
        separate = chroma == 3 and bits.flag()
        bits.skip_ue(2)
        bits.u(1)
        if bits.flag():
            for place in range(8 if chroma != 3 else 12):
                if bits.flag():
                    _skip_scaling(bits, 16 if place < 6 else 64)
    frame_num_bits = 4 + bounded(bits.ue(), 12, "bits of frame numbers")
    order_type, order_bits, always_zero = bits.ue(), 0, False
    if order_type == 0:
        order_bits = 4 + bounded(bits.ue(), 12, "bits of orders")
    elif order_type == 1:
        always_zero = bits.flag()
        bits.skip_ue(2)
        bits.skip_ue(bounded(bits.ue(), 255, "a cycle of orders"))
    bits.ue()
    bits.u(1)
    bits.skip_ue(2)
    has_chroma = chroma != 0 and not separate
    return number, _Sps(separate, has_chroma, frame_num_bits, order_type, order_bits, always_zero, bits.flag())


def _skip_scaling(bits: BitReader, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.se()) % 256
        last = following or last


def _read_pps(bits: BitReader) -> tuple[int, _Pps]:
    number = bounded(bits.ue(), 255, "a picture parameter set's number")
    sps, cabac, bottom_order = bits.ue(), bits.flag(), bits.flag()
    if bits.ue():
        raise ValueError("groups of slices")
    references = bits.ue() + 1, bits.ue() + 1
    weighted, weighted_b = bits.flag(), bits.u(2) == 1
    bits.skip_ue(3)
    deblocking = bits.flag()
    bits.u(1)
    return number, _Pps(sps, cabac, bottom_order, references, weighted, weighted_b, deblocking, bits.flag())


def _references(bits: BitReader, kind: int, pps: _Pps) -> tuple[int, ...]:
    """Entries of each list of references that the slice has."""
    lists = {_P: 1, _SP: 1, _B: 2}.get(kind, 0)
    found = pps.references[:lists]
    if lists and bits.flag():
        found = tuple(bits.ue() + 1 for _ in range(lists))
    return tuple(bounded(count, _MOST_REFERENCES, "references") for count in found)


def _skip_reordering(bits: BitReader) -> None:
    if not bits.flag():
        return
    while (operation := bits.ue()) != 3:
        bounded(operation, 2, "a change of references")
        bits.ue()


def _skip_weights(bits: BitReader, references: tuple[int, ...], *, has_chroma: bool) -> None:
    bits.skip_ue(1 + has_chroma)
    for count in references:
        for _ in range(count):
            if bits.flag():
                bits.skip_ue(2)
            if has_chroma and bits.flag():
                bits.skip_ue(4)


def _skip_marking(bits: BitReader, *, idr: bool) -> None:
    if idr:
        bits.u(2)
        return
    if not bits.flag():
        return
    while operation := bits.ue():
        bits.skip_ue({1: 1, 2: 1, 3: 2, 4: 1, 5: 0, 6: 1}[bounded(operation, 6, "a marking of references")])
