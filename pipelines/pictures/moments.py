"""The moments that pictures are taken of, and which decoded picture belongs to each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from pipelines.pictures.layout import At, BestOf, Every, Middles, Picks, SceneStarts, Slots
from pipelines.pictures.score import SceneMeter

SAMPLE_SECONDS = Fraction(8, 100)
"""Pictures closer than this are not compared: a scene begins at most so much before it is seen."""


@dataclass(frozen=True)
class Moment:
    """A picture is wanted of `time`; it stands for what follows `begin`. Those of one `group` are candidates for one.

    Times are seconds from the start of the output.
    """

    time: Fraction
    begin: Fraction
    group: int


@dataclass(frozen=True)
class Chosen:
    """A decoded picture for a moment, with those decoded before and after it."""

    frame: Any
    time: Fraction
    begin: Fraction
    group: int
    before: Any = None
    after: Any = None
    after_time: Fraction | None = None


class Selector(Protocol):
    def see(self, frame: Any, time: Fraction) -> Iterator[Chosen]:
        """Frames come in order; each goes out for the moments that it is for."""

    def finish(self, end: Fraction) -> Iterator[Chosen]:
        """No more frames: the last one is shown until `end`."""


def selector_for(picks: Picks, duration: Fraction | None, *, nearest: bool) -> Selector:
    """`duration` None: not known, of picks that don't need it."""
    if isinstance(picks, SceneStarts):
        return SceneSelector(picks)
    # players work out the number of a regular one from the time, so that those are repeated
    repeats = isinstance(picks, Every | Slots)
    return TimedSelector(moments(picks, duration), nearest=nearest, repeats=repeats, open_ended=repeats)


def moments(picks: Picks, duration: Fraction | None) -> Iterator[Moment]:
    """In rising order."""
    whole = duration or Fraction(0)
    match picks:
        case Every():
            number = 0
            while duration is None or number == 0 or number * picks.seconds < duration:
                yield Moment(number * picks.seconds, number * picks.seconds, number)
                number += 1
        case Middles():
            for number in range(picks.count):
                part = whole / picks.count
                yield Moment((number + Fraction(1, 2)) * part, number * part, number)
        case BestOf():
            part = whole / picks.count
            step = part / picks.candidates
            for number in range(picks.count):
                for candidate in range(picks.candidates):
                    yield Moment(number * part + (candidate + Fraction(1, 2)) * step, number * part, number)
        case At():
            yield Moment(picks.seconds, Fraction(0), 0)
        case Slots():
            yield from _slots(picks, duration)
        case _:
            raise AssertionError(picks)


def _slots(picks: Slots, duration: Fraction | None) -> Iterator[Moment]:
    pieces = picks.cuts * picks.seconds
    if not pieces or (duration is not None and duration <= pieces):
        number = 0
        while duration is None or number == 0 or number / picks.fps < duration:
            yield Moment(number / picks.fps, number / picks.fps, number)
            number += 1
        return
    assert duration is not None
    frames = max(1, round(picks.seconds * picks.fps))
    for piece in range(picks.cuts):
        start = (piece + Fraction(1, 2)) * duration / picks.cuts - picks.seconds / 2
        for frame in range(frames):
            number = piece * frames + frame
            yield Moment(start + frame / picks.fps, number / picks.fps, number)


class TimedSelector:
    """What is on screen at each moment; `nearest`: the decoded picture nearest to it, whether before or after.

    `repeats`: one picture may stand for several moments. `open_ended`: moments after the end are none.
    """

    def __init__(self, wanted: Iterator[Moment], *, nearest: bool, repeats: bool, open_ended: bool) -> None:
        self._wanted, self._nearest, self._repeats, self._open_ended = wanted, nearest, repeats, open_ended
        self._next = next(wanted, None)
        self._before: Any = None
        self._held: tuple[Any, Fraction] | None = None
        self._used: Any = None

    def see(self, frame: Any, time: Fraction) -> Iterator[Chosen]:
        if self._held is not None:
            held, held_time = self._held
            while self._next is not None and self._next.time < time:
                if self._nearest and time - self._next.time < self._next.time - held_time:
                    break  # the new one is nearer
                yield from self._chosen(self._next, frame, time)
                self._next = next(self._wanted, None)
            self._before = held
        self._held = (frame, time)

    def finish(self, end: Fraction) -> Iterator[Chosen]:
        while self._held is not None and self._next is not None:
            if self._open_ended and self._next.time >= end and self._next.group > 0:
                return
            yield from self._chosen(self._next, None, None)
            self._next = next(self._wanted, None)

    def _chosen(self, moment: Moment, after: Any, after_time: Fraction | None) -> Iterator[Chosen]:
        assert self._held is not None
        frame, time = self._held
        if frame is self._used and not self._repeats:
            return
        self._used = frame
        yield Chosen(frame, time, moment.begin, moment.group, self._before, after, after_time)


class SceneSelector:
    """The first picture, and the first one of each scene."""

    def __init__(self, picks: SceneStarts) -> None:
        self._picks = picks
        self._meter = SceneMeter()
        self._before: Any = None
        self._held: tuple[Any, Fraction] | None = None
        self._is_start = False
        self._sampled: Fraction | None = None
        self._last = Fraction(0)
        self._count = 0

    def see(self, frame: Any, time: Fraction) -> Iterator[Chosen]:
        yield from self._chosen(frame, time)
        self._before = None if self._held is None else self._held[0]
        self._held = (frame, time)
        if self._sampled is not None and time - self._sampled < SAMPLE_SECONDS:
            return
        changed = self._meter.change(frame)
        is_first, self._sampled = self._sampled is None, time
        if is_first or (changed >= self._picks.threshold and time - self._last >= self._picks.min_seconds):
            self._is_start, self._last = True, time

    def finish(self, end: Fraction) -> Iterator[Chosen]:
        yield from self._chosen(None, None)

    def _chosen(self, after: Any, after_time: Fraction | None) -> Iterator[Chosen]:
        if self._held is None or not self._is_start:
            return
        frame, time = self._held
        begin = time if self._count else Fraction(0)
        yield Chosen(frame, time, begin, self._count, self._before, after, after_time)
        self._is_start = False
        self._count += 1
