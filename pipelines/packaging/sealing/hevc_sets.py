"""What of HEVC's parameter sets says how long a slice's header is (ITU-T H.265, 7.3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.packaging.sealing.bits import BitReader, bounded

_LAST_PROFILE = 5
"""Format ranges and high throughput; those behind it, of layers and of screens, have other headers."""


@dataclass(frozen=True)
class RefSet:
    """Pictures that are kept as references: differences of order, nearest first, and whether each is used."""

    before: tuple[tuple[int, bool], ...] = ()
    after: tuple[tuple[int, bool], ...] = ()

    @property
    def used(self) -> int:
        return sum(used for _, used in (*self.before, *self.after))


@dataclass(frozen=True)
class Sps:
    separate_planes: bool
    has_chroma: bool
    tree_blocks: int
    order_bits: int
    sao: bool
    ref_sets: tuple[RefSet, ...]
    long_term: tuple[bool, ...] | None
    """Whether each of the listed pictures is used; None: none are kept for long."""
    temporal_motion: bool


@dataclass(frozen=True)
class Pps:
    sps: int
    dependent: bool
    output_flag: bool
    extra_bits: int
    cabac_init: bool
    references: tuple[int, int]
    chroma_offsets: bool
    weighted: bool
    weighted_b: bool
    tiles: bool
    wavefront: bool
    across_slices: bool
    deblocking_override: bool
    deblocking_off: bool
    list_changes: bool
    extended: bool
    chroma_offset_lists: bool


def read_sps(bits: BitReader) -> tuple[int, Sps]:
    bits.u(4)
    sub_layers = bits.u(3)
    bits.u(1)
    _skip_profile(bits, sub_layers)
    number = bounded(bits.ue(), 15, "a sequence parameter set's number")
    chroma = bounded(bits.ue(), 3, "a chroma format")
    separate = chroma == 3 and bits.flag()
    width, height = bits.ue(), bits.ue()
    if bits.flag():
        bits.skip_ue(4)
    bits.skip_ue(2)
    order_bits = 4 + bounded(bits.ue(), 12, "bits of orders")
    bits.skip_ue(3 * (sub_layers + 1 if bits.flag() else 1))
    tree_bits = 3 + bits.ue() + bits.ue()
    bounded(tree_bits, 6, "bits of a tree block's side")
    bits.skip_ue(4)
    if bits.flag() and bits.flag():
        _skip_scaling(bits)
    bits.u(1)
    sao = bits.flag()
    if bits.flag():
        bits.u(8)
        bits.skip_ue(2)
        bits.u(1)
    sets: list[RefSet] = []
    count = bounded(bits.ue(), 64, "sets of references")
    for place in range(count):
        sets.append(read_ref_set(bits, place, sets, inline=False))
    long_term: tuple[bool, ...] | None = None
    if bits.flag():
        long_term = tuple(_listed(bits, order_bits) for _ in range(bounded(bits.ue(), 32, "references")))
    side = 1 << tree_bits
    blocks = -(-width // side) * -(-height // side)
    has_chroma = chroma != 0 and not separate
    return number, Sps(separate, has_chroma, blocks, order_bits, sao, tuple(sets), long_term, bits.flag())


def _listed(bits: BitReader, order_bits: int) -> bool:
    bits.u(order_bits)
    return bits.flag()


def _skip_profile(bits: BitReader, sub_layers: int) -> None:
    bits.u(3)
    if bits.u(5) > _LAST_PROFILE:
        raise ValueError("a profile of layers or of screens")
    bits.u(80)
    bits.u(8)
    present = [(bits.flag(), bits.flag()) for _ in range(sub_layers)]
    if sub_layers:
        bits.u(2 * (8 - sub_layers))
    for profile, level in present:
        bits.u(88 * profile + 8 * level)


def _skip_scaling(bits: BitReader) -> None:
    for size in range(4):
        for _ in range(0, 6, 3 if size == 3 else 1):
            if not bits.flag():
                bits.ue()
                continue
            bits.skip_ue(int(size > 1) + min(64, 1 << (4 + 2 * size)))


def read_ref_set(bits: BitReader, place: int, sets: Sequence[RefSet], *, inline: bool = True) -> RefSet:
    """The set at that place; `inline`: in a slice, which may go by any one of `sets`."""
    if place and bits.flag():
        return _predicted(bits, place, sets, inline=inline)
    counts = bounded(bits.ue(), 16, "references"), bounded(bits.ue(), 16, "references")
    sides = []
    for count, sign in zip(counts, (-1, 1), strict=True):
        order, side = 0, []
        for _ in range(count):
            order += sign * (bits.ue() + 1)
            side.append((order, bits.flag()))
        sides.append(tuple(side))
    return RefSet(*sides)


def _predicted(bits: BitReader, place: int, sets: Sequence[RefSet], *, inline: bool) -> RefSet:
    """From another set, moved by a difference (7.4.8)."""
    back = 1 + (bits.ue() if inline else 0)
    if back > place:
        raise ValueError("a set of references that there is not")
    other = sets[place - back]
    sign = -1 if bits.flag() else 1
    moved = sign * (bits.ue() + 1)
    kept: list[tuple[int, bool]] = []
    for order in [*(order for order, _ in (*other.before, *other.after)), 0]:
        used = bits.flag()
        if (used or bits.flag()) and order + moved:
            kept.append((order + moved, used))
    if len(kept) > 16:
        raise ValueError("too many references")
    before = sorted((pair for pair in kept if pair[0] < 0), reverse=True)
    return RefSet(tuple(before), tuple(sorted(pair for pair in kept if pair[0] > 0)))


def read_pps(bits: BitReader) -> tuple[int, Pps]:
    number = bounded(bits.ue(), 63, "a picture parameter set's number")
    sps, dependent, output_flag, extra_bits = bits.ue(), bits.flag(), bits.flag(), bits.u(3)
    bits.u(1)
    cabac_init = bits.flag()
    references = bits.ue() + 1, bits.ue() + 1
    bits.ue()
    bits.u(1)
    skips_transform = bits.flag()
    if bits.flag():
        bits.ue()
    bits.skip_ue(2)
    chroma_offsets, weighted, weighted_b = bits.flag(), bits.flag(), bits.flag()
    bits.u(1)
    tiles, wavefront = bits.flag(), bits.flag()
    if tiles:
        columns, rows = bounded(bits.ue(), 19, "columns of tiles"), bounded(bits.ue(), 21, "rows of tiles")
        if not bits.flag():
            bits.skip_ue(columns + rows)
        bits.u(1)
    across = bits.flag()
    override = off = False
    if bits.flag():
        override, off = bits.flag(), bits.flag()
        bits.skip_ue(0 if off else 2)
    if bits.flag():
        _skip_scaling(bits)
    list_changes = bits.flag()
    bits.ue()
    extended = bits.flag()
    offset_lists = False
    if bits.flag():
        ranges, others = bits.flag(), bits.u(7)
        if others >> 4:
            raise ValueError("an extension for layers or for screens")
        if ranges:
            bits.skip_ue(int(skips_transform))
            bits.u(1)
            offset_lists = bits.flag()
    return number, Pps(
        sps, dependent, output_flag, extra_bits, cabac_init, references, chroma_offsets, weighted, weighted_b,
        tiles, wavefront, across, override, off, list_changes, extended, offset_lists,
    )  # fmt: skip
