"""Whether a run got what its input promised. The rule is stated once, here.

A job fails as `no_frames` when a track that was asked for gave nothing, as `truncated` when more than the job's
`max_missing` share of the promised time is missing at the end of every track, as `bad_input` when more than that share
of a track's packets could not be decoded. Less than that is counted in the warnings.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from pipelines.errors import BadInput, NoFrames, Truncated
from pipelines.rendition import Plan
from pipelines.source import SourceInfo, Track
from pipelines.tracks import TrackState
from pipelines.warning_log import WarningLog

SLACK_SECONDS = 0.15
"""Headers round, and count what encoders padded: this much is never called missing."""

PROMISING_FORMATS = frozenset({"mov"})
"""Formats whose headers say how long each track is, exactly; elsewhere a track's length is a guess or the file's."""


def promised_end(source: SourceInfo, track: Track) -> Fraction | None:
    """When the track ends, in seconds on the input's clock, by its own header; None where that says nothing."""
    if track.duration_seconds is None or not PROMISING_FORMATS.intersection(source.format.split(",")):
        return None
    return Fraction((track.start_seconds or 0.0) + track.duration_seconds).limit_denominator(1_000_000)


def check_complete(plan: Plan, source: SourceInfo, states: Iterable[TrackState], warnings: WarningLog) -> None:
    """Raises NoFrames, Truncated or BadInput; else adds a warning for what is missing within the allowance."""
    tracks = list(states)
    silent = [track for track in tracks if track.frames == 0]
    if tracks and len(silent) == len(tracks):
        raise NoFrames("nothing could be decoded from the input", stage="decode", errors=sum(t.errors for t in tracks))
    for track in silent:
        if plan.max_missing < 1:
            raise NoFrames(f"track {track.stream} gave nothing", stage="decode", stream=track.stream)
        warnings.add("track_missing", f"track {track.stream} gave nothing")
    _check_damage(plan, tracks)
    _check_end(plan, source, tracks, warnings)


def _check_damage(plan: Plan, tracks: list[TrackState]) -> None:
    for track in tracks:
        share = track.errors / max(1, track.errors + track.frames)
        if track.errors > 1 and share > plan.max_missing:
            raise BadInput(
                f"{share:.1%} of track {track.stream} could not be decoded ({plan.max_missing:.1%} allowed)",
                stage="decode",
                stream=track.stream,
                errors=track.errors,
            )


def _check_end(plan: Plan, source: SourceInfo, tracks: list[TrackState], warnings: WarningLog) -> None:
    promised = plan.duration_seconds
    ends = [float(track.end) - plan.start_seconds for track in tracks if track.end is not None]
    if promised is None or not ends or any(track.done for track in tracks):
        return
    missing = promised - max(ends)
    frame_seconds = max((1 / track.frame_rate for track in source.video if track.frame_rate), default=0)
    if missing <= SLACK_SECONDS + float(frame_seconds):
        return
    if missing > promised * plan.max_missing:
        raise Truncated(
            f"the input ends {missing:.2f} s before the {promised:.2f} s that it promises",
            stage="decode",
            missing_seconds=round(missing, 3),
            promised_seconds=round(promised, 3),
        )
    warnings.add("short_input", f"the input ends {missing:.2f} s early", max(ends) + plan.start_seconds)
