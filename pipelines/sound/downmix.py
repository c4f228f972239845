"""Where channels go: which layout carries a source's channels, and the matrix that takes them there.

Gains follow ITU-R BS.775 (annex 4): what moves to two speakers, or joins a channel that has sound of its own, does so
at −3 dB. LFE has no place in a layout without one and is left out. Where the gains of an output channel sum up to more
than 1, channels that are loud together clip: peaks have to be limited, or all rows are divided by the largest sum
(`scaled`), which no input can clip. Both keep the balance of the channels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import av

Matrix = tuple[tuple[float, ...], ...]
"""A row of gains for each output channel, one gain for each source channel."""

Gains = Mapping[str, float]

LAYOUTS: dict[str, tuple[str, ...]] = {
    "mono": ("FC",),
    "stereo": ("FL", "FR"),
    "3.0": ("FL", "FR", "FC"),
    "4.0": ("FL", "FR", "FC", "BC"),
    "quad": ("FL", "FR", "BL", "BR"),
    "5.0": ("FL", "FR", "FC", "BL", "BR"),
    "5.1": ("FL", "FR", "FC", "LFE", "BL", "BR"),
    "6.1": ("FL", "FR", "FC", "LFE", "BC", "SL", "SR"),
    "7.1": ("FL", "FR", "FC", "LFE", "BL", "BR", "SL", "SR"),
}
"""Delivery layouts by FFmpeg's names, channels in their order there."""

BY_COUNT: dict[int, str] = {
    1: "mono", 2: "stereo", 3: "3.0", 4: "quad", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1",
}  # fmt: skip
"""What is meant by a number of channels without names."""

_HALF = 0.5
_DOWN_3_DB = math.sqrt(0.5)


def _both(left: str, right: str, gain: float = _DOWN_3_DB) -> Gains:
    return {left: gain, right: gain}


def _surround(side: str, other_pair: str) -> tuple[Gains, ...]:
    return ({other_pair: 1.0}, {"BC": _DOWN_3_DB}, {f"F{side}": _DOWN_3_DB}, {"FC": _HALF})


def _height(side: str) -> tuple[Gains, ...]:
    return ({f"F{side}": _DOWN_3_DB}, {"FC": _HALF})


def _height_behind(side: str) -> tuple[Gains, ...]:
    return (
        {f"B{side}": _DOWN_3_DB}, {f"S{side}": _DOWN_3_DB}, {"BC": _HALF}, {f"F{side}": _HALF}, {"FC": _HALF},
    )  # fmt: skip


def _middle(*pairs: str) -> tuple[Gains, ...]:
    return (*(_both(f"{pair}L", f"{pair}R") for pair in pairs), _both("FL", "FR", _HALF), {"FC": _HALF})


FOLDS: dict[str, tuple[Gains, ...]] = {
    "FL": ({"FC": _DOWN_3_DB},), "FR": ({"FC": _DOWN_3_DB},), "FC": (_both("FL", "FR"),),
    "FLC": ({"FL": 1.0}, {"FC": _DOWN_3_DB}), "FRC": ({"FR": 1.0}, {"FC": _DOWN_3_DB}),
    "BL": _surround("L", "SL"), "BR": _surround("R", "SR"), "SL": _surround("L", "BL"), "SR": _surround("R", "BR"),
    "BC": _middle("B", "S"),
    "DL": ({"FL": 1.0}, {"FC": _DOWN_3_DB}), "DR": ({"FR": 1.0}, {"FC": _DOWN_3_DB}),
    "WL": ({"FL": 1.0}, {"FC": _DOWN_3_DB}), "WR": ({"FR": 1.0}, {"FC": _DOWN_3_DB}),
    "TFL": _height("L"), "TFR": _height("R"), "TFC": (_both("FL", "FR", _HALF), {"FC": _HALF}),
    "TSL": _height_behind("L"), "TSR": _height_behind("R"), "TBL": _height_behind("L"), "TBR": _height_behind("R"),
    "TBC": _middle("B", "S"), "TC": _middle(),
    "BFL": _height("L"), "BFR": _height("R"), "BFC": (_both("FL", "FR", _HALF), {"FC": _HALF}),
    "LFE": (), "LFE2": ({"LFE": 1.0},),
    "AMBI0": (_both("FL", "FR"), {"FC": 1.0}),
}  # fmt: skip
"""Where a channel goes that the output does not have: the first row whose channels all exist there. A channel that is
not here (one of ambisonics' directions, or without a name) has no place."""


def speakers(layout: str, channels: int) -> tuple[str, ...]:
    """The channels of a layout, named as FFmpeg describes it.

    Channels without names are the usual ones for their number. Above 8 there is no usual one: the first two are taken
    for left and right, and the others (`NONE`) have no place. One channel is mono whatever it is called.
    """
    if channels == 1:
        return LAYOUTS["mono"]
    listed = re.fullmatch(r"\d+ channels \((.+)\)", layout)
    if listed is not None:
        return tuple(name.split("@")[0] for name in listed[1].split("+"))
    try:
        names = tuple(channel.name for channel in av.AudioLayout(layout).channels)
    except ValueError:
        names = ("NONE",) * channels
    if has_place(names):
        return names
    usual = LAYOUTS[BY_COUNT.get(channels, "stereo")]
    return (*usual, *("NONE",) * (channels - len(usual)))


def has_place(channels: Iterable[str]) -> tuple[str, ...]:
    """Those of the channels that can be heard in some layout."""
    return tuple(channel for channel in channels if channel in FOLDS)


def matrix(source: Sequence[str], target: str, *, scaled: bool = True) -> Matrix:
    """The gains that take `source` channels to the layout `target`."""
    outputs = LAYOUTS[target]
    columns = [_gains(channel, source, outputs) for channel in source]
    rows = [[column.get(output, 0.0) for column in columns] for output in outputs]
    loudest = max(1.0, *(sum(row) for row in rows)) if scaled else 1.0
    return tuple(tuple(gain / loudest for gain in row) for row in rows)


def _gains(channel: str, source: Sequence[str], outputs: Sequence[str]) -> Gains:
    if channel in outputs:
        return {channel: 1.0}
    for gains in FOLDS.get(channel, ()):
        if all(output in outputs for output in gains):
            return {output: min(gain, _DOWN_3_DB) if output in source else gain for output, gain in gains.items()}
    return {}


def can_clip(gains: Matrix) -> bool:
    return any(sum(row) > 1 + 1e-9 for row in gains)


def is_identity(gains: Matrix) -> bool:
    return all(
        gain == (1.0 if row == column else 0.0) for row, line in enumerate(gains) for column, gain in enumerate(line)
    ) and len(gains) == len(gains[0])


def loudness_db(gains: Matrix) -> float:
    """The change in level of the loudest single path, in dB: 0 or less."""
    return 20 * math.log10(max(max(row) for row in gains))


def carrier(source: Sequence[str], offered: Iterable[str]) -> str:
    """The smallest of the `offered` layouts that keeps all source channels apart, which may leave some of its own
    silent; where none does, the largest that has no more channels than the source."""
    named = has_place(source)
    by_size = sorted(offered, key=lambda name: len(LAYOUTS[name]))
    keeping = [name for name in by_size if keeps(name, named)]
    return keeping[0] if keeping else [name for name in by_size if len(LAYOUTS[name]) <= len(named)][-1]


def keeps(target: str, source: Sequence[str]) -> bool:
    """Whether no source channel is left out and no two of them meet in an output channel."""
    gains = matrix(source, target)
    heard = all(any(row[column] for row in gains) for column in range(len(source)))
    return heard and all(sum(gain > 0 for gain in row) <= 1 for row in gains)
