"""The segments of one rendition: numbered, written, listed, and deleted when nobody can want them any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from fractions import Fraction
from pathlib import Path

from pipelines.live.cutting import Cut
from pipelines.live.folder import remove, write_whole
from pipelines.live.journal import Segment
from pipelines.live.remux import Continuity, segment, split_header
from pipelines.live.units import Piece, Track
from pipelines.packaging.m3u8 import Entry, InitSection, MediaPlaylist, target_seconds

EXTENSIONS = {"fmp4": "m4s", "ts": "ts"}
FEWEST_LISTED = 3

Wall = Callable[[Fraction], datetime]
"""The wall clock's time of a moment on the output's clock."""


class Shelf:
    """`keeps`: the names of the tracks that go into the segments."""

    def __init__(
        self, name: str, folder: Path, container: str, keeps: Iterable[str], seconds: float, known: Iterable[Segment]
    ) -> None:
        self.name, self.keeps = name, frozenset(keeps)
        self._folder, self._container = folder, container
        self._continuity = Continuity()
        self.segments: list[Segment] = list(known)
        newest = self.segments[-1] if self.segments else None
        self._next = 1 if newest is None else newest.number + 1
        self._target = max(1, target_seconds([Fraction(seconds)]), target_seconds([s.seconds for s in self.segments]))
        self._inits = {each.init for each in self.segments if each.init is not None}
        self._init_number = max((int(str(init).split("-")[-1].split(".")[0]) for init in self._inits), default=0)
        self._init: tuple[str, bytes] | None = None
        self._fresh = newest is not None
        """What comes first after a restart does not go on from what was before."""

    def add(self, cut: Cut) -> Segment | None:
        """Writes the segment; None when none of its tracks is kept here. OSError when it can't be written."""
        pieces = [piece for piece in cut.pieces if piece.track.name in self.keeps]
        if not pieces:
            return None
        tracks = [track for track in cut.tracks if track.name in self.keeps]
        try:
            data, init, renewed = self._contents(tracks, pieces)
            path = self._path()
            write_whole(self._folder / path, data)
        except OSError:
            self._fresh = True
            raise
        fresh = (cut.fresh or renewed or self._fresh) and self._next > 1
        start, end = self._span(cut, pieces)
        made = Segment(self.name, self._next, path, start, end, fresh, self._era(fresh=fresh), init, len(data))
        self._keep(made)
        self._fresh = False
        return made

    def _contents(self, tracks: Sequence[Track], pieces: Sequence[Piece]) -> tuple[bytes, str | None, bool]:
        """The segment's bytes, its init section, and whether that is another one than before."""
        data = segment(self._container, tracks, pieces, self._next)
        if self._container != "fmp4":
            return self._continuity.carry_on(data), None, False
        header, data = split_header(data)
        return data, *self._init_for(header)

    def _path(self) -> str:
        """Of the next segment."""
        return f"{self.name}/{self._next:08d}.{EXTENSIONS[self._container]}"

    def _span(self, cut: Cut, pieces: Sequence[Piece]) -> tuple[Fraction, Fraction]:
        return cut.start, cut.end

    def _era(self, *, fresh: bool) -> int:
        """Of the next segment."""
        return (self.segments[-1].era if self.segments else 0) + fresh

    def _keep(self, made: Segment) -> None:
        self._next = made.number + 1
        self.segments.append(made)
        self._target = max(self._target, target_seconds([made.seconds]))

    def _init_for(self, header: bytes) -> tuple[str, bool]:
        """The path of this header's init section, and whether it is another one than before."""
        if self._init is not None and self._init[1] == header:
            return self._init[0], False
        renewed = self._init is not None
        self._init_number += 1
        path = f"{self.name}/init-{self._init_number}.mp4"
        write_whole(self._folder / path, header)
        self._init = (path, header)
        return path, renewed

    def drop_before(self, moment: Fraction) -> int:
        """Deletes segments that ended before `moment`; how many."""
        gone = 0
        while len(self.segments) > FEWEST_LISTED and self.segments[0].end < moment:
            old = self.segments.pop(0)
            remove(self._folder / old.path)
            gone += 1
        if gone:
            used = {each.init for each in self.segments if each.init is not None}
            used |= {self._init[0]} if self._init is not None else set()
            for init in self._inits - used:
                remove(self._folder / init)
            self._inits = used
        return gone

    def listed(self, window: Fraction) -> list[Segment]:
        """The newest segments that reach back for at least `window`, or all."""
        if not self.segments:
            return []
        earliest = self.segments[-1].end - window
        count = sum(1 for each in self.segments if each.end > earliest)
        return self.segments[-max(count, FEWEST_LISTED) :]

    def playlist(self, window: Fraction, wall: Wall, *, ended: bool = False) -> MediaPlaylist:
        """That of the newest segments."""
        listed = self.listed(window)
        first = listed[0] if listed else None
        entries, init = [], first.init if first is not None else None
        for place, each in enumerate(listed):
            entries.append(
                Entry(
                    uri=each.path,
                    seconds=each.seconds,
                    # the first one's is in the sequence number, as it says nothing of what is listed
                    discontinuity=each.fresh and place > 0,
                    init=InitSection(each.init) if each.init is not None and each.init != init else None,
                    starts_at=wall(each.start) if place == 0 or each.fresh else None,
                )
            )
            init = each.init
        return MediaPlaylist(
            target_seconds=self._target,
            entries=entries,
            init=InitSection(first.init) if first is not None and first.init is not None else None,
            media_sequence=first.number if first is not None else self._next,
            discontinuity_sequence=first.era if first is not None else 0,
            ended=ended,
        )

    @property
    def bit_rates(self) -> tuple[int, int]:
        """Highest and average of the segments that are kept, bit/s."""
        rates = [float(each.size * 8 / each.seconds) for each in self.segments if each.seconds > 0]
        length = sum((each.seconds for each in self.segments), Fraction(0))
        if not rates or length <= 0:
            return 0, 0
        return round(max(rates)), round(sum(each.size for each in self.segments) * 8 / length)
