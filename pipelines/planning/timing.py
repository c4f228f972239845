"""Decisions on a rendition's timing: whether fields become frames, and at which rate. Pure."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Literal

from pipelines.errors import UnsupportedSpec
from pipelines.filters import Deinterlace, Filter, InverseTelecine, Retag
from pipelines.source import VideoInfo
from pipelines.spec import Rung
from pipelines.video.telecine import FILM_SHARE, TELECINED_RATES

FILM_RATE = Fraction(24_000, 1001)

ASSUMED_RATE = Fraction(25)
"""Rate that GOP lengths are counted with when a source does not tell its own."""

MOST_PLAYED_RATE = Fraction(60)
"""What players and their screens are made for; a source that has more keeps it."""

First = Literal["top", "bottom"]
FIRST_SAID: dict[str | None, First] = {"tt": "top", "bt": "top", "bb": "bottom", "tb": "bottom"}
"""By the file's word: its first letter is the field coded first, the second the one shown first."""
FIRST_FOUND: dict[str, First | None] = {"progressive": None, "top": "top", "bottom": "bottom"}


def plan_fields(rung: Rung, source: VideoInfo, reasons: list[str]) -> tuple[Filter, ...]:
    """Whether fields are made into frames. What was measured counts more than what the file says."""
    said = FIRST_SAID.get(source.field_order)
    first: First | None = said if source.interlacing is None else FIRST_FOUND[source.interlacing]
    unflagged: tuple[Filter, ...] = (Retag(progressive=True),) if said else ()
    if rung.deinterlace == "off":
        if first or said:
            reasons.append("interlaced source left as it is, as asked")
        return unflagged
    if rung.deinterlace == "on":
        order = first or said
        reasons.append(f"deinterlaced as asked ({order or 'unknown'} field first)")
        return (Deinterlace(field_first=order or "auto"),)
    if first is None:
        if said:
            reasons.append("called interlaced, but its pictures are whole: not deinterlaced")
        return unflagged
    if rung.deinterlace == "ivtc":
        return (_telecined(source, first, reasons),)
    if rung.deinterlace == "auto" and source.pulldown == "hard" and source.frame_rate is not None:
        reasons.append(
            f"film in 3:2 pulldown, {first} field first (measured all over it): taken back, not deinterlaced"
        )
        return (InverseTelecine(field_first=first, rate=source.frame_rate),)
    bob = rung.deinterlace == "bob"
    how = "measured" if source.interlacing else "as the file says"
    reasons.append(f"interlaced, {first} field first ({how}): one frame per {'field' if bob else 'frame'}")
    return (Deinterlace(field_first=first, bob=bob),)


def _telecined(source: VideoInfo, first: First, reasons: list[str]) -> InverseTelecine:
    slowest, fastest = TELECINED_RATES
    if source.frame_rate is None or not slowest <= source.frame_rate <= fastest:
        raise UnsupportedSpec("3:2 pulldown is of 29.97 pictures a second, this is not", stage="plan", filter="ivtc")
    if source.bit_depth > 8:
        raise UnsupportedSpec("fields are matched in 8 bits only", stage="plan", filter="ivtc")
    reasons.append(f"3:2 pulldown taken back as asked, {first} field first")
    return InverseTelecine(field_first=first, rate=source.frame_rate)


def stays_interlaced(source: VideoInfo, fields: tuple[Filter, ...]) -> bool:
    """Whether the pictures' lines are those of two fields when they are encoded."""
    is_so = source.interlacing in ("top", "bottom") or (source.interlacing is None and source.field_order in FIRST_SAID)
    return is_so and not any(isinstance(step, Deinterlace | InverseTelecine) for step in fields)


def plan_rate(
    rung: Rung, source: VideoInfo, fields: tuple[Filter, ...], pace: Fraction, reasons: list[str]
) -> tuple[Fraction, bool]:
    """The rate, and whether it is constant: one that is asked for is, and so is what a faster pace is cut down to."""
    if pace != 1:
        reasons.append(f"played {float(pace):.6g} times as fast")
    if rung.frame_rate is not None:
        reasons.append(f"constant {float(rung.frame_rate):.6g} fps as asked")
        return rung.frame_rate, True
    if rung.deinterlace == "auto" and source.pulldown == "soft":
        reasons.append("film in soft pulldown (pictures of two and three fields in turn): evenly spaced again")
        return FILM_RATE * pace, True
    if source.frame_rate is None:
        reasons.append("source rate unknown: source timing is kept, GOP counted at 25 fps")
    bob = any(isinstance(step, Deinterlace) and step.bob for step in fields)
    own = (source.frame_rate or ASSUMED_RATE) * (2 if bob else 1)
    if any(isinstance(step, InverseTelecine) for step in fields):
        own *= FILM_SHARE
    most = max(own, MOST_PLAYED_RATE)
    if own * pace <= most:
        return own * pace, False
    kept = own * pace / ceil(own * pace / most)
    reasons.append(f"constant {float(kept):.6g} fps, for players may not take {float(own * pace):.6g}")
    return kept, True
