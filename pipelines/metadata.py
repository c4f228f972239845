"""What outputs say about themselves: the tags of a file that are kept, and the labels and roles of its tracks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TypedDict

from av.stream import Disposition

from pipelines.packaging.languages import long_code
from pipelines.source import Chapter, Track
from pipelines.tracks import Span

KEPT_TAGS = (
    "title", "artist", "album", "album_artist", "composer", "performer", "date", "genre", "track", "disc", "comment",
    "description", "synopsis", "copyright", "publisher", "language", "lyrics", "show", "season_number", "episode_id",
    "episode_sort", "network", "creation_time",
)  # fmt: skip
"""FFmpeg's names of what tells of the work. What tells of the old file (encoder, brands, handlers, statistics) would be
wrong of the new one, and places and devices of recording are nobody's business."""

OTHER_NAMES = {"year": "date", "author": "artist", "albumartist": "album_artist", "tracknumber": "track"}

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?")

ROLES: dict[str, Disposition] = {
    name: getattr(Disposition, name)
    for name in (
        "dub", "original", "comment", "lyrics", "karaoke", "hearing_impaired", "visual_impaired", "clean_effects",
        "captions", "descriptions",
    )
}  # fmt: skip
"""What a track is for. Containers keep those that they have a place for."""


QUICKTIME_LANGUAGES = {
    "fre": "fra", "deu": "ger", "nld": "dut", "swe": "sve", "nob": "nor", "ell": "gre", "isl": "ice", "zho": "chi",
    "cze": "ces", "slo": "slk", "rum": "ron", "sqi": "alb", "fas": "per", "cym": "wel", "eus": "baq", "msa": "may",
    "kat": "geo", "hye": "arm", "mkd": "mac",
}  # fmt: skip
"""ISO 639-2 codes that FFmpeg's table of QuickTime's languages has under another name. A language that is not in that
table at all (Croatian, Serbian) has no place in MOV."""


def language_for(muxer: str, language: str) -> str:
    """As the muxer's files have it; MP4 and MOV know codes of three letters only."""
    if muxer in ("mov", "mp4") and len(language) == 2:
        language = long_code(language)
    return QUICKTIME_LANGUAGES.get(language.lower(), language) if muxer == "mov" else language


class Labels(TypedDict):
    language: str | None
    title: str | None
    default: bool
    forced: bool
    roles: tuple[str, ...]


def labels(track: Track, *, default: bool) -> Labels:
    """The labels of the track made from `track`."""
    return Labels(language=track.language, title=track.title, default=default, forced=track.forced, roles=track.roles)


def kept_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Those of KEPT_TAGS that are there, under their usual names; a time only where it is one."""
    named: dict[str, str] = {}
    for key, value in tags.items():
        name = key.lower()
        named.setdefault(OTHER_NAMES.get(name, name), value)
    kept = {name: named[name] for name in KEPT_TAGS if name in named}
    if not _TIME.fullmatch(kept.get("creation_time", "")):
        kept.pop("creation_time", None)
    return kept


def clipped_chapters(chapters: Iterable[Chapter], span: Span, pace: Fraction) -> tuple[Chapter, ...]:
    """The source's chapters on the output's clock: those inside, cut to it."""
    start = float(span.start)
    end = float("inf") if span.end is None else float(span.end) - start
    shifted = (
        chapter.model_copy(
            update={
                "start_seconds": max(0.0, chapter.start_seconds - start) / float(pace),
                "end_seconds": min(end, chapter.end_seconds - start) / float(pace),
            }
        )
        for chapter in chapters
    )
    return tuple(chapter for chapter in shifted if chapter.end_seconds > chapter.start_seconds)


def chapter_comments(chapters: Iterable[Chapter]) -> dict[str, str]:
    """Chapters as Vorbis comments: their starts and titles. FFmpeg's own writing of them rounds seconds up."""
    comments: dict[str, str] = {}
    for number, chapter in enumerate(chapters):
        seconds, milliseconds = divmod(round(chapter.start_seconds * 1000), 1000)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        comments[f"CHAPTER{number:03}"] = f"{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}"
        comments[f"CHAPTER{number:03}NAME"] = chapter.title or f"{number + 1}"
    return comments


def roles_of(disposition: Disposition) -> tuple[str, ...]:
    return tuple(name for name, flag in ROLES.items() if disposition & flag)


def disposition_of(*, default: bool, forced: bool, roles: tuple[str, ...]) -> Disposition:
    disposition = Disposition.default * default | Disposition.forced * forced
    for role in roles:
        disposition |= ROLES[role]
    return Disposition(disposition)
