"""Whether pictures may be chosen among keyframes, which cost a fraction of what decoding everything does. Pure."""

from __future__ import annotations

from fractions import Fraction

from pipelines.asked.pictures import Decoding
from pipelines.facts.samples import SLOT_FORMATS
from pipelines.filters import Deinterlace, Filter
from pipelines.pictures.layout import BestOf, Every, Middles, Picks
from pipelines.source import SourceInfo, VideoInfo

FEWEST_KEYFRAMES = 3
"""In each part, for the best of them to be chosen among keyframes alone."""
UNTIMED = frozenset({*SLOT_FORMATS, "h264", "hevc", "vvc", "m4v", "mpegvideo", "vc1", "dirac"})
"""Formats whose packets don't say when a picture is due, so that none may be left out."""


def keyframes_will_do(
    wish: Decoding,
    picks: Picks,
    source: SourceInfo,
    track: VideoInfo,
    fields: tuple[Filter, ...],
    duration: Fraction | None,
) -> tuple[bool, str | None]:
    """And a reason where there is something to say.

    Keyframes lie within half an interval of each moment where they are no farther apart than the moments are.
    """
    if wish == "exact" or not isinstance(picks, Every | Middles | BestOf):
        return False, None
    obstacle = None
    if UNTIMED.intersection(source.format.split(",")):
        obstacle = f"{source.format} does not say when a picture is due"
    elif any(isinstance(step, Deinterlace) for step in fields):
        obstacle = "fields need the pictures beside theirs"
    if obstacle is not None:
        return False, f"every picture is decoded: {obstacle}" if wish == "keyframes" else None
    if wish == "keyframes":
        return True, "the nearest keyframes, as asked"
    gap, apart = track.keyframe_seconds, _seconds_apart(picks, duration)
    if gap is None or apart is None or gap > apart:
        return False, None
    return True, f"keyframes are at most {gap:.3g} s apart: near enough"


def _seconds_apart(picks: Every | Middles | BestOf, duration: Fraction | None) -> Fraction | None:
    """How far apart keyframes may be."""
    if isinstance(picks, Every):
        return picks.seconds
    if duration is None:
        return None
    if isinstance(picks, Middles):
        return duration / picks.count
    return duration / (picks.count * max(FEWEST_KEYFRAMES, picks.candidates // 2))
