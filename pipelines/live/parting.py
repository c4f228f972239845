"""Where parts of segments begin and end, for low-latency playlists. Pure: pieces in, filled parts out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from pipelines.live.cutting import LAG_SECONDS
from pipelines.live.units import Piece, Track
from pipelines.timestamps import nearest

SLACK = Fraction(1, 4)
"""Of a picture, that parts may be longer where pictures come at times of their own: such times are rounded."""


@dataclass(frozen=True)
class Filled:
    """The pieces of one part. Times are those of decoding, in seconds: what follows begins at `end`."""

    pieces: tuple[Piece, ...]
    start: Fraction
    end: Fraction

    @property
    def independent(self) -> bool:
        return any(piece.unit.key for piece in self.pieces)


class Parting:
    """Fills parts with the pieces of one track; `target`: what no part is longer than.

    Parts are equally long, but for the last one of a segment: the fewest pictures that last as long as asked for.
    Tracks whose pieces last as long as they say have a part filled by its last piece, others by the one after it.
    """

    def __init__(self, seconds: Fraction) -> None:
        self._seconds = seconds
        self.target = seconds
        self._track: Track | None = None
        self._longest = 0
        self._pieces: list[Piece] = []

    def take(self, piece: Piece) -> list[Filled]:
        """The parts that this piece fills: none or one, and two where it comes late and is long."""
        if piece.track is not self._track:
            self._aim(piece)
        unit, filled = piece.unit, []
        if self._pieces and unit.dts + unit.duration - self._pieces[0].unit.dts > self._longest:
            filled.append(self._fill(unit.dts))
        self._pieces.append(piece)
        end = unit.dts + unit.duration
        if piece.track.steady and end + unit.duration - self._pieces[0].unit.dts > self._longest:
            filled.append(self._fill(end))
        return filled

    def rest(self, end: Fraction | None = None) -> list[Filled]:
        """What is left at the end of a segment, whose successor begins at `end`."""
        if not self._pieces:
            return []
        last = self._pieces[-1].unit
        ticks = last.dts + last.duration
        if end is not None and self._track is not None and not self._track.steady:
            ticks = max(last.dts + 1, nearest(end / self._track.time_base))
        return [self._fill(ticks)]

    def _aim(self, piece: Piece) -> None:
        track, base = piece.track, piece.track.time_base
        frame = piece.unit.duration * base if track.steady else _frame_seconds(track)
        aimed = self._seconds
        if frame:
            count = ceil(self._seconds / frame)
            aimed = count * frame if track.steady else (count + SLACK) * frame
        # a playlist that has parts as long as the target keeps it
        self.target = aimed if self._track is None else max(self.target, aimed)
        self._track, self._longest = track, int(self.target / base)

    def _fill(self, end: int) -> Filled:
        """The part up to `end`, in ticks. A gap behind its last piece is in no part."""
        pieces, self._pieces = self._pieces, []
        first, last = pieces[0], pieces[-1]
        assert self._track is not None
        end = min(end, first.unit.dts + self._longest)
        if not self._track.steady and end > last.unit.dts:
            pieces[-1] = replace(last, unit=replace(last.unit, duration=end - last.unit.dts))
        base = first.track.time_base
        return Filled(tuple(pieces), first.unit.dts * base, end * base)


def _frame_seconds(track: Track) -> Fraction | None:
    return 1 / track.frame_rate if track.frame_rate else None


class InStep:
    """Holds back what runs ahead of the track that cuts, so that each piece is in the segment of its time."""

    def __init__(self, leader: str) -> None:
        self._leader = leader
        self._reached: Fraction | None = None
        self._held: deque[Piece] = deque()

    def take(self, piece: Piece) -> Sequence[Piece]:
        """What goes on now. Without anything of the leader for long, the others go on alone."""
        if piece.track.name == self._leader:
            self._reached = piece.time
            return [piece, *self._due()]
        self._held.append(piece)
        return self._due()

    def rest(self) -> Sequence[Piece]:
        held = list(self._held)
        self._held.clear()
        return held

    def _due(self) -> list[Piece]:
        due = []
        while self._held and (self._has_reached(self._held[0]) or self._waits_too_long()):
            due.append(self._held.popleft())
        return due

    def _has_reached(self, piece: Piece) -> bool:
        return self._reached is not None and piece.time <= self._reached

    def _waits_too_long(self) -> bool:
        return self._held[-1].time - self._held[0].time > LAG_SECONDS
