"""How many pictures there may be: said by the plan where the length is known, and by the run where it is not."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from pipelines.errors import LimitExceeded
from pipelines.pictures.layout import BestOf, Every, Middles, Picks, SceneStarts, Slots

MAX_ANIMATION_PIXELS = 64 << 20
"""Of all frames of a GIF together: they are kept until its palette is known."""


def expected_pictures(picks: Picks, duration: Fraction | None) -> int | None:
    """How many pictures `picks` take of an input of that length; None where only the input tells."""
    match picks:
        case Every():
            return None if duration is None else max(1, ceil(duration / picks.seconds))
        case Middles() | BestOf():
            return picks.count
        case Slots():
            taken = shown_seconds(picks, duration)
            return None if taken is None else max(1, ceil(taken * picks.fps))
        case SceneStarts():
            return None
        case _:
            return 1


def shown_seconds(picks: Slots, duration: Fraction | None) -> Fraction | None:
    """How long an animation lasts."""
    pieces = picks.cuts * picks.seconds
    if duration is None:
        return pieces or None
    return min(pieces, duration) if pieces else duration


def check_count(count: int, limit: int, *, stage: str = "plan") -> None:
    if count > limit:
        raise LimitExceeded(
            "limit_pictures",
            f"{count} pictures are more than the {limit} allowed: take them farther apart, clip the input, or allow "
            "more",
            stage="plan" if stage == "plan" else "run",
            limit=limit,
            pictures=count,
        )
