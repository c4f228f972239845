"""Where segments begin and end. Pure: pieces in, finished segments out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from pipelines.live.units import Piece, Track

LAG_SECONDS = Fraction(3)
"""How far a track may stay behind the one that cuts before its segment is closed without it."""


@dataclass
class Cut:
    """A finished segment. `start` and `end` on the output's clock; `fresh`: time does not go on from the one before."""

    tracks: tuple[Track, ...]
    start: Fraction
    end: Fraction
    fresh: bool
    pieces: list[Piece] = field(default_factory=list)

    @property
    def seconds(self) -> Fraction:
        return self.end - self.start


class Cutter:
    """Cuts the pieces of some tracks into segments at keyframes of the first one (or at any piece, without video).

    All cutters of one encoder's ladder cut at the same times: at the first keyframe of each span of `seconds`. The
    other tracks follow: a segment is finished when each of them has passed the cut, or is hopelessly behind.
    """

    def __init__(self, names: Sequence[str], seconds: Fraction, *, offsets: bool = True) -> None:
        """`offsets`: the spans count from the output's time 0; else each from its segment's start."""
        self._leader, self._names = names[0], tuple(names)
        self._seconds, self._offsets = seconds, offsets
        self._tracks: dict[str, Track] = {}
        self._open: Cut | None = None
        self._following: list[Cut] = []
        self._early: list[Piece] = []
        """Of the others, as long as no segment is open: copies come sooner than what is encoded."""
        self._reached: dict[str, Fraction] = {}
        self._fresh = True

    def take(self, piece: Piece) -> list[Cut]:
        """The segments that this piece finishes."""
        name = piece.track.name
        changed = self._tracks.get(name) not in (None, piece.track)
        self._tracks[name] = piece.track
        finished: list[Cut] = []
        if name == self._leader:
            if self._begins(piece, changed=changed):
                self._begin(piece, fresh=piece.fresh or changed)
        elif changed or piece.fresh:
            self._fresh = True
        self._reached[name] = max(piece.time, self._reached.get(name, piece.time))
        target = self._target(piece)
        if target is not None:
            target.pieces.append(piece)
            if name == self._leader:
                target.end = max(target.end, piece.end)
        elif name != self._leader and self._open is None:
            self._early = [each for each in self._early if piece.time - each.time <= LAG_SECONDS]
            self._early.append(piece)
        while self._following and self._is_complete(self._following[0].start):
            assert self._open is not None
            done, self._open = self._open, self._following.pop(0)
            if done.pieces:
                finished.append(self._closed(done, self._open))
        return finished

    @property
    def unfinished(self) -> Cut | None:
        """The segment that is finished next: what it has so far stays in it."""
        return self._open

    def flush(self) -> list[Cut]:
        """What is left, at the end or where the source went away."""
        left = [cut for cut in (self._open, *self._following) if cut is not None and cut.pieces]
        self._open, self._following, self._fresh = None, [], True
        return [self._closed(cut, None) for cut in left]

    def _begins(self, piece: Piece, *, changed: bool) -> bool:
        latest = self._following[-1] if self._following else self._open
        if not piece.unit.key:
            return False
        if latest is None or piece.fresh or changed:
            return True
        if self._offsets:
            return piece.time // self._seconds > latest.start // self._seconds
        return piece.time - latest.start >= self._seconds - Fraction(1, 1000)

    def _begin(self, piece: Piece, *, fresh: bool) -> None:
        time = piece.unit.pts * piece.track.time_base
        cut = Cut((), time, time, fresh or self._fresh)
        self._fresh = False
        if self._open is None:
            self._open = cut
            cut.pieces, self._early = [each for each in self._early if each.time >= time], []
        else:
            self._following.append(cut)

    def _target(self, piece: Piece) -> Cut | None:
        """The segment that the piece belongs to; None before the first, and for what comes too late."""
        candidates = [cut for cut in (self._open, *self._following) if cut is not None]
        if piece.track.name == self._leader:
            return candidates[-1] if candidates else None
        return next((cut for cut in reversed(candidates) if piece.time >= cut.start), None)

    def _is_complete(self, start: Fraction) -> bool:
        lead = self._reached.get(self._leader, start)
        others = [self._reached[name] for name in self._names[1:] if name in self._reached]
        return all(reached >= start for reached in others) or lead - start > LAG_SECONDS

    def _closed(self, cut: Cut, following: Cut | None) -> Cut:
        if following is not None and not following.fresh:
            cut.end = following.start
        order = {name: number for number, name in enumerate(self._names)}
        seen = {piece.track.name: piece.track for piece in cut.pieces}
        cut.tracks = tuple(sorted(seen.values(), key=lambda track: order[track.name]))
        return cut
