"""Decisions on a rendition's timing: whether fields become frames, and at which rate. Pure."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from pipelines.filters import Deinterlace, Filter, Retag
from pipelines.source import VideoInfo
from pipelines.spec import Rung

ASSUMED_RATE = Fraction(25)
"""Rate that GOP lengths are counted with when a source does not tell its own."""

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
    bob = rung.deinterlace == "bob"
    how = "measured" if source.interlacing else "as the file says"
    reasons.append(f"interlaced, {first} field first ({how}): one frame per {'field' if bob else 'frame'}")
    return (Deinterlace(field_first=first, bob=bob),)


def stays_interlaced(source: VideoInfo, fields: tuple[Filter, ...]) -> bool:
    """Whether the pictures' lines are those of two fields when they are encoded."""
    is_so = source.interlacing in ("top", "bottom") or (source.interlacing is None and source.field_order in FIRST_SAID)
    return is_so and not any(isinstance(step, Deinterlace) for step in fields)


def plan_rate(rung: Rung, source: VideoInfo, fields: tuple[Filter, ...], reasons: list[str]) -> Fraction:
    if rung.frame_rate is not None:
        reasons.append(f"constant {float(rung.frame_rate):.6g} fps as asked")
        return rung.frame_rate
    if source.frame_rate is None:
        reasons.append("source rate unknown: source timing is kept, GOP counted at 25 fps")
    bob = any(isinstance(step, Deinterlace) and step.bob for step in fields)
    return (source.frame_rate or ASSUMED_RATE) * (2 if bob else 1)
