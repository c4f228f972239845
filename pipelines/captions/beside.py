"""Subtitle tracks from files beside an input: facts for the plan, and cues in step with the input for a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from av.packet import Packet

from pipelines.asked.subtitle_files import SubtitleFile
from pipelines.captions.subtitles import Subtitles
from pipelines.captions.text_files import cues_of, opened_text, read_text_file
from pipelines.facts.tracks import clean, codec_name
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.source import SourceInfo, SubtitleInfo, TextOrigin, Track
from pipelines.timestamps import microseconds

TICK = Fraction(1, 1_000_000)
"""Seconds: fine enough for any offset."""
AHEAD = Fraction(1)
"""Cues are handed on so much before the input gets there."""


def with_texts(source: SourceInfo, asked: Sequence[SubtitleFile], file: LocalFile) -> SourceInfo:
    """The source with a track more for each file. BadSubtitles and LimitExceeded name the file that is wrong."""
    if not asked:
        return source
    tracks: tuple[Track, ...] = (*source.video, *source.audio, *source.subtitles, *source.pictures)
    taken = [*(track.index for track in tracks), *(track.index for track in source.other)]
    index = max(taken, default=-1) + 1
    position = len(source.subtitles)
    made = [_info(each, number, index + number, position + number, file) for number, each in enumerate(asked)]
    return source.model_copy(update={"subtitles": (*source.subtitles, *made)})


def _info(asked: SubtitleFile, number: int, index: int, position: int, file: LocalFile) -> SubtitleInfo:
    text = read_text_file(file.beside.get(asked.key), number + 1, asked.label, asked.charset, asked.language)
    with opened_text(text) as container:
        codec = codec_name(container.streams.subtitles[0])
        cues = cues_of(container, text)
    time_base = cues[0].time_base or TICK
    end = max((cue.pts or 0) + (cue.duration or 0) for cue in cues) * time_base
    return SubtitleInfo(
        index=index,
        position=position,
        codec=codec,
        decodable=True,
        kind="text",
        duration_seconds=float(end),
        language=asked.language,
        title=clean(asked.title or "") or None,
        default=asked.default,
        forced=asked.forced,
        beside=TextOrigin(
            number=number + 1,
            key=asked.key,
            label=asked.label,
            charset=text.charset,
            guessed=text.guessed,
            asked_charset=asked.charset,
            offset_seconds=asked.offset_seconds,
        ),
    )


@dataclass
class _Reel:
    """The cues of one file, and the tracks that are made of it. `streams` is as a container has it."""

    container: Any
    cues: deque[Packet[Any]]
    followers: list[Subtitles] = field(default_factory=list)

    def hand_on(self, until: Fraction | None) -> None:
        while self.cues and (until is None or (self.cues[0].pts or 0) * TICK <= until):
            cue = self.cues.popleft()
            for follower in self.followers:
                follower.write(cue, TICK, shared=True)


class Texts:
    """The files that a run makes tracks of."""

    def __init__(self, wanted: set[int], source: SourceInfo, file: LocalFile, limits: Limits, stack: ExitStack) -> None:
        self._reels: Mapping[int, _Reel] = {
            track.index: _reel(track.index, track.beside, track.language, source, file, limits, stack)
            for track in source.subtitles
            if track.beside is not None and track.index in wanted
        }

    def container(self, stream: int) -> Any | None:
        """What has the stream of that index, where it is from one of these files."""
        reel = self._reels.get(stream)
        return None if reel is None else reel.container

    def follow(self, stream: int, track: Subtitles) -> None:
        self._reels[stream].followers.append(track)

    def reached(self, time: Fraction) -> None:
        """The input is read up to about `time`."""
        for reel in self._reels.values():
            reel.hand_on(time + AHEAD)

    def all_cues(self, stream: int) -> Iterator[tuple[Packet[Any], Fraction]]:
        """On the input's clock."""
        for cue in self._reels[stream].cues:
            yield cue, TICK

    def finish(self) -> list[tuple[Subtitles, Fraction]]:
        """Hands on the rest; gives the tracks, which are to be finished, with their time base."""
        for reel in self._reels.values():
            reel.hand_on(None)
        return [(track, TICK) for reel in self._reels.values() for track in reel.followers]


def _reel(
    index: int,
    origin: TextOrigin,
    language: str | None,
    source: SourceInfo,
    file: LocalFile,
    limits: Limits,
    stack: ExitStack,
) -> _Reel:
    """Cues on the input's clock, up to its end: time 0 of the file is the input's first presented moment."""
    text = read_text_file(file.beside.get(origin.key), origin.number, origin.label, origin.asked_charset, language)
    opened = stack.enter_context(opened_text(text))
    lasts = limits.max_duration_seconds if source.duration_seconds is None else source.duration_seconds
    start = microseconds(source.start_seconds)
    shift, end = start + microseconds(origin.offset_seconds), start + microseconds(lasts)
    cues: deque[Packet[Any]] = deque()
    for cue in cues_of(opened, text):
        time_base = cue.time_base or TICK
        begin = (cue.pts or 0) * time_base + shift
        until = min(begin + (cue.duration or 0) * time_base, end)
        if until > begin:
            cue.pts = cue.dts = round(begin / TICK)
            cue.duration, cue.time_base = round((until - begin) / TICK), TICK
            cues.append(cue)
    return _Reel(SimpleNamespace(streams={index: opened.streams.subtitles[0]}), cues)
