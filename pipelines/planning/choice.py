"""Which of an input's tracks are meant. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from pipelines.errors import UnsupportedSpec
from pipelines.source import AudioInfo, SubtitleInfo, Track, VideoInfo

AnyTrack = TypeVar("AnyTrack", VideoInfo, AudioInfo, SubtitleInfo)


def main_video(tracks: Iterable[VideoInfo]) -> VideoInfo | None:
    """The video track that is meant: decodable, marked default if any is, then the largest.

    One that is known to be a single picture stands back: a sequence (AVIF) may have its poster beside it.
    """
    decodable = [track for track in tracks if track.decodable]
    return max(decodable, key=lambda t: (t.frame_count != 1, t.default, t.width * t.height, -t.index), default=None)


def default_of(tracks: Sequence[Track]) -> Track | None:
    return next((track for track in tracks if track.default), tracks[0] if tracks else None)


def select(
    tracks: Sequence[AnyTrack], which: str | tuple[int, ...], languages: tuple[str, ...] | None
) -> list[AnyTrack]:
    """Tracks by position ("all", "default" or positions) and language, in the source's order."""
    chosen = list(tracks)
    if languages is not None:
        wanted = {language.casefold() for language in languages}
        chosen = [track for track in chosen if (track.language or "und").casefold() in wanted]
    if which == "all":
        return chosen
    if which == "default":
        best = [track for track in chosen if track.decodable] or chosen
        return [next((track for track in best if track.default), best[0])] if best else []
    positions = [track.position for track in tracks]
    missing = [position for position in which if position not in positions]
    if missing:
        raise UnsupportedSpec(f"there is no track {missing[0]} (counted from 0)", stage="plan", tracks=len(tracks))
    return [track for track in chosen if track.position in which]
