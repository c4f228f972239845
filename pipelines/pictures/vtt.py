"""WebVTT files whose cues name pictures: players show them while their owners scrub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

SHORTEST = Fraction(1, 1000)


@dataclass(frozen=True)
class PictureCue:
    """What is shown from `begin` on: a file beside the index, or a part of one (`#xywh=`)."""

    begin: Fraction
    target: str


def index_text(cues: Sequence[PictureCue], end: Fraction) -> str:
    """Each cue lasts until the next one begins, the last one until `end`."""
    ends = [*(cue.begin for cue in cues[1:]), end]
    blocks = [
        f"{_clock(cue.begin)} --> {_clock(max(until, cue.begin + SHORTEST))}\n{cue.target}\n"
        for cue, until in zip(cues, ends, strict=True)
    ]
    return "\n".join(["WEBVTT\n", *blocks])


def _clock(seconds: Fraction) -> str:
    milliseconds = round(seconds * 1000)
    rest, thousandths = divmod(milliseconds, 1000)
    minutes, second = divmod(rest, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02}:{minute:02}:{second:02}.{thousandths:03}"
