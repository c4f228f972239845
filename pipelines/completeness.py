"""Whether a run got what its input promised. The rule is stated once, here.

- `no_frames`: nothing came out of any track, or nothing out of one that was asked for and had packets.
- `truncated`: the input, or a track whose own length is known, ends more than the job's `max_missing` share before its
  header promises; where the format's structure says how long the file is, more than that share of its bytes is missing.
- `bad_input`: more than `max_missing` of a track's packets could not be decoded, or, in an input with damage, more than
  that share of its time is holes in which no track has anything.

What stays within the allowance is counted in the warnings. A track that never had a packet is left out with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from pipelines.errors import BadInput, NoFrames, Truncated
from pipelines.rendition import Plan
from pipelines.source import SourceInfo, Track, VideoInfo
from pipelines.tracks import Holes, TrackState
from pipelines.warning_log import WarningLog

SLACK_SECONDS = 0.15
"""Headers round, and count what encoders padded: this much is never called missing."""
EXACT_FORMATS = frozenset({"mov"})
"""Formats whose headers say how long each track is."""
END_TAGGED_FORMATS = frozenset({"matroska", "webm"})
"""Formats where a tag says when each track ends, counted from 0 (some writers: from its start, which is less)."""
UNSURE_FORMATS = frozenset({"avi", "wav"})
"""Formats judged by their bytes, and AVI by its pictures: other durations are worked out from what is there."""
SIGNS_OF_DAMAGE = ("decode_error", "corrupt_packet", "corrupt_frame", "damaged_packet", "read_error")
"""Codes of warnings."""


def exact_end(source: SourceInfo, track: Track) -> Fraction | None:
    """When the track ends, in seconds on the input's clock, by its own header; None where that says nothing exact."""
    if track.duration_seconds is None or not EXACT_FORMATS.intersection(source.format.split(",")):
        return None
    return Fraction((track.start_seconds or 0.0) + track.duration_seconds).limit_denominator(1_000_000)


def _promised_end(source: SourceInfo, track: Track) -> float | None:
    if track.duration_seconds is not None and END_TAGGED_FORMATS.intersection(source.format.split(",")):
        return track.duration_seconds
    if source.format in UNSURE_FORMATS and isinstance(track, VideoInfo) and track.duration_seconds is not None:
        return (track.start_seconds or 0.0) + track.duration_seconds
    end = exact_end(source, track)
    return None if end is None else float(end)


def _tracks(source: SourceInfo) -> tuple[Track, ...]:
    return (*source.video, *source.audio)


def check_complete(
    plan: Plan, source: SourceInfo, states: Iterable[TrackState], holes: Holes, warnings: WarningLog
) -> None:
    """Raises NoFrames, Truncated or BadInput; else adds a warning for what is missing within the allowance."""
    tracks = list(states)
    if not tracks:
        return  # subtitles, or a cover picture, alone: nothing tells what is missing of them
    if all(track.frames == 0 for track in tracks):
        raise NoFrames("nothing could be decoded from the input", stage="decode", errors=sum(t.errors for t in tracks))
    for track in tracks:
        if track.frames == 0:
            _check_silent(plan, source, track, warnings)
        _check_damage(plan, track)
    _check_holes(plan, source, tracks, holes, warnings)
    _check_ends(plan, source, tracks, warnings)


def _check_silent(plan: Plan, source: SourceInfo, track: TrackState, warnings: WarningLog) -> None:
    promised = any(_promised_end(source, info) for info in _tracks(source) if info.index == track.stream)
    if plan.max_missing < 1 and not track.done:
        if track.packets:
            raise NoFrames(f"track {track.stream} gave nothing", stage="decode", stream=track.stream)
        if promised:
            message = f"the input ends before anything of track {track.stream}"
            raise Truncated(message, stage="decode", stream=track.stream)
    warnings.add("track_missing", f"track {track.stream} gave nothing")


def _check_damage(plan: Plan, track: TrackState) -> None:
    share = track.errors / max(1, track.errors + track.frames)
    if track.errors > 1 and share > plan.max_missing:
        raise BadInput(
            f"{share:.1%} of track {track.stream} could not be decoded ({plan.max_missing:.1%} allowed)",
            stage="decode",
            stream=track.stream,
            errors=track.errors,
        )


def _check_holes(plan: Plan, source: SourceInfo, tracks: list[TrackState], holes: Holes, warnings: WarningLog) -> None:
    """Pictures may stay for long, so that a hole alone is no fault; where there is sound, it is worth a warning."""
    taken = {track.stream for track in tracks}
    lasts = max((float(track.end) for track in tracks if track.end is not None), default=0.0) - plan.start_seconds
    damage = sum(warnings.count(code) for code in SIGNS_OF_DAMAGE)
    if damage and holes.seconds > lasts * plan.max_missing:
        raise BadInput(
            f"{holes.seconds:.2f} s inside the input are lost ({plan.max_missing:.1%} allowed)",
            stage="decode",
            missing_seconds=round(holes.seconds, 3),
        )
    if holes.count and (damage or taken.intersection(track.index for track in source.audio)):
        warnings.add("hole", f"for {holes.seconds:.2f} s nothing is in any track", holes.first)


def _check_ends(plan: Plan, source: SourceInfo, tracks: list[TrackState], warnings: WarningLog) -> None:
    """Of each track that has a promise of its own; where none has, of the input as a whole."""
    promises = {track.index: _promised_end(source, track) for track in _tracks(source)}
    ends = {track.stream: float(track.end) for track in tracks if track.end is not None and not track.done}
    own = {stream: promise for stream, end in ends.items() if (promise := promises.get(stream)) is not None}
    for stream, promise in own.items():
        limit = promise if plan.end_seconds is None else min(promise, plan.end_seconds)
        _check_end(plan, source, limit - plan.start_seconds, ends[stream] - plan.start_seconds, warnings)
    if any(track.done for track in tracks):
        return
    if source.format not in UNSURE_FORMATS:
        # where the clock jumped, what the header promises is the difference of two clocks
        if plan.duration_seconds is not None and not own and not warnings.count("clock_jump"):
            got = max(ends.values(), default=0.0) - plan.start_seconds
            _check_end(plan, source, plan.duration_seconds, got, warnings)
    elif source.missing_bytes and source.missing_bytes > plan.max_missing:
        raise Truncated(
            f"the input has {source.size_bytes} of the {source.promised_bytes} bytes that it promises",
            stage="decode",
            size_bytes=source.size_bytes,
            promised_bytes=source.promised_bytes,
        )


def _check_end(plan: Plan, source: SourceInfo, promised: float, got: float, warnings: WarningLog) -> None:
    missing = promised - got
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
    warnings.add("short_input", f"the input ends {missing:.2f} s early", got + plan.start_seconds)
