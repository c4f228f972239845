"""Segments that are published in parts while they are made, for low-latency playlists."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from pipelines.live.cutting import Cut
from pipelines.live.folder import remove, write_whole
from pipelines.live.journal import Segment
from pipelines.live.parting import Filled, Parting
from pipelines.live.partlog import Part, PartLog
from pipelines.live.remux import segment, split_header
from pipelines.live.shelf import EXTENSIONS, Shelf, Wall
from pipelines.live.units import Piece, Track
from pipelines.packaging import parts as told
from pipelines.packaging.m3u8 import Entry, InitSection, MediaPlaylist

PART_NAME = "part-"
"""What the names of parts begin with."""
LISTED_TARGETS = 3
"""Target durations behind the edge that parts are listed for; segments alone do for what is older."""
KEPT_TARGETS = 2 * LISTED_TARGETS
"""That parts stay on the disk for: a player may have read of them just before they left."""


@dataclass
class _Open:
    """The segment that is being made. `lacking`: a part could not be written, so no more of it are listed."""

    cut: Cut
    track: Track
    fresh: bool
    taken: int = 0
    data: list[bytes] = field(default_factory=list)
    header: bytes = b""
    init: str | None = None
    renewed: bool = False
    parts: list[Part] = field(default_factory=list)
    lacking: bool = False


class PartedShelf(Shelf):
    """A shelf of fMP4 whose newest segment grows: it is made of the same bytes as its parts."""

    def __init__(
        self, name: str, folder: Path, keeps: Iterable[str], seconds: float, known: Iterable[Segment], part: Fraction
    ) -> None:
        super().__init__(name, folder, "fmp4", keeps, seconds, known)
        self._parting = Parting(part)
        self._open: _Open | None = None
        self._trouble: OSError | None = None
        """Why the open segment lacks parts."""
        self._parts: dict[int, list[Part]] = {}
        self._log = PartLog(folder, name)
        # another run may have left off in mid-segment: what it called a part may be in a cache
        self._run, self._count = secrets.token_hex(4), 0
        self._fragments = self._next

    @property
    def part_target(self) -> Fraction:
        return self._parting.target

    @property
    def position(self) -> tuple[int, int] | None:
        """The newest segment that has a part, and its newest part; None before the first."""
        if self._open is not None and self._open.parts:
            return self._next, len(self._open.parts) - 1
        if not self.segments:
            return None
        newest = self.segments[-1].number
        return newest, max(0, len(self._parts.get(newest, ())) - 1)

    def restore(self) -> Segment | None:
        """Makes a segment of the parts that an earlier run left. OSError where it can't be written."""
        left = self._log.left(self._next)
        made = None
        if left:
            data = b"".join((self._folder / part.path).read_bytes() for part in left)
            path = self._path()
            write_whole(self._folder / path, data)
            first, fresh = left[0], left[0].fresh
            era = self._era(fresh=fresh)
            made = Segment(self.name, self._next, path, first.start, left[-1].end, fresh, era, first.init, len(data))
            self._keep(made)
            self._fresh = True
            self._fragments += len(left)
        self.clear()
        return made

    def clear(self) -> None:
        """Deletes all parts: nobody is told of them any more."""
        self._parts.clear()
        self._log.clear()
        for path in (self._folder / self.name).glob(f"{PART_NAME}*"):
            remove(path)

    def feed(self, cut: Cut | None) -> bool:
        """Publishes what the segment being made has by now; whether there is a new part. OSError, once a segment."""
        if cut is None:
            return False
        count, well = self._count, self._trouble is None
        self._take(cut)
        if self._trouble is not None and well:
            raise self._trouble
        return self._count > count

    def add(self, cut: Cut) -> Segment | None:
        self._take(cut)
        for filled in self._parting.rest(self._end(cut)):
            self._publish(filled)
        try:
            made = super().add(cut)
            if made is not None and self._open is not None:
                self._parts[made.number] = self._open.parts
                self._log.clear()
        finally:
            self._open = self._trouble = None
        return made

    def _take(self, cut: Cut) -> None:
        for piece in self._new(cut):
            for filled in self._parting.take(piece):
                self._publish(filled)

    def _new(self, cut: Cut) -> list[Piece]:
        """Pieces of the cut that no part has yet."""
        begun = self._open is not None and self._open.cut is cut
        new = cut.pieces[self._open.taken if begun and self._open is not None else 0 :]
        kept = [piece for piece in new if piece.track.name in self.keeps]
        if not begun and kept:
            self._open = _Open(cut, kept[0].track, (cut.fresh or self._fresh) and self._next > 1)
            begun = True
        if begun and self._open is not None:
            self._open.taken = len(cut.pieces)
        return kept

    def _publish(self, filled: Filled) -> None:
        """Writes a part. Where that fails its bytes are still in the segment."""
        current = self._open
        assert current is not None
        self._fragments += 1
        header, data = split_header(segment("fmp4", [current.track], filled.pieces, self._fragments))
        current.data.append(data)
        current.header = current.header or header
        if current.lacking:
            return
        try:
            self._settle_init(current)
            assert current.init is not None
            path = self._hint()
            write_whole(self._folder / path, data)
            fresh = current.fresh or (current.renewed and self._next > 1)
            part = Part(self._next, path, filled.start, filled.end, filled.independent, fresh, current.init)
            self._log.add(part)
        except OSError as error:
            current.lacking, self._trouble = True, error
            return
        current.parts.append(part)
        self._count += 1

    def _settle_init(self, current: _Open) -> None:
        if current.init is None:
            current.init, current.renewed = self._init_for(current.header)

    def _contents(self, tracks: Sequence[Track], pieces: Sequence[Piece]) -> tuple[bytes, str | None, bool]:
        current = self._open
        assert current is not None
        self._settle_init(current)
        return b"".join(current.data), current.init, current.renewed

    def _end(self, cut: Cut) -> Fraction | None:
        """Where the decoding of what follows begins; None where sound ends by itself."""
        first = next((piece for piece in cut.pieces if piece.track.name in self.keeps), None)
        if first is None or first.track.kind == "audio":
            return None
        return cut.end - (first.unit.pts - first.unit.dts) * first.track.time_base

    def _span(self, cut: Cut, pieces: Sequence[Piece]) -> tuple[Fraction, Fraction]:
        """Sound is cut by its own pieces: its parts are as long as the segment."""
        first, last = pieces[0], pieces[-1]
        if first.track.kind == "video":
            return cut.start, cut.end
        return first.unit.pts * first.track.time_base, last.end

    def _hint(self) -> str:
        """Where the next part will be, in whichever segment."""
        return f"{self.name}/{PART_NAME}{self._run}-{self._count:06d}.{EXTENSIONS['fmp4']}"

    def drop_before(self, moment: Fraction) -> int:
        gone = super().drop_before(moment)
        ends = {each.number: each.end for each in self.segments}
        oldest = self.segments[-1].end - KEPT_TARGETS * self._target if self.segments else None
        for number in list(self._parts):
            end = ends.get(number)
            if oldest is None or end is None or end < oldest:
                for part in self._parts.pop(number):
                    remove(self._folder / part.path)
        return gone

    def low_latency(
        self, window: Fraction, wall: Wall, longest_target: Fraction, reports: Sequence[told.Report]
    ) -> MediaPlaylist:
        """The playlist with its parts, up to the newest one."""
        whole = self.playlist(window, wall)
        listed = self.listed(window)
        current = self._open if self._open is not None and self._open.parts else None
        entries = list(whole.entries)
        behind = sum((part.seconds for part in current.parts), Fraction(0)) if current is not None else Fraction(0)
        for place in range(len(listed) - 1, -1, -1):
            if behind >= LISTED_TARGETS * self._target:
                break
            entries[place] = replace(entries[place], parts=_told(self._parts.get(listed[place].number, ())))
            behind += listed[place].seconds
        if current is not None:
            entries.append(self._unfinished(current, listed, wall))
        first = whole if listed or current is None else replace(
            whole, init=InitSection(current.parts[0].init), discontinuity_sequence=self._era(fresh=current.fresh)
        )  # fmt: skip
        control = told.LowLatency(self.part_target, longest_target, self._hint(), reports)
        return replace(first, entries=entries, low_latency=control)

    def _unfinished(self, current: _Open, listed: Sequence[Segment], wall: Wall) -> Entry:
        first = current.parts[0]
        init = listed[-1].init if listed else first.init
        return Entry(
            None,
            Fraction(0),
            discontinuity=first.fresh and bool(listed),
            init=InitSection(first.init) if first.init != init else None,
            starts_at=wall(first.start) if first.fresh or not listed else None,
            parts=_told(current.parts),
        )


def _told(parts: Iterable[Part]) -> tuple[told.Part, ...]:
    return tuple(told.Part(part.path, part.seconds, part.independent) for part in parts)
