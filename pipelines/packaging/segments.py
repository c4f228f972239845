"""Cutting a track into segments, and the files that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pipelines.packaging.m3u8 import ByteRange
from pipelines.packaging.mp4 import free_box, index_box, index_bytes

SINGLE_STEM = "media"
"""Name of the one file, but for its extension."""


@dataclass(frozen=True)
class IFrame:
    """A picture that can be decoded alone: when it is shown, and the bytes of its file that a player needs for it."""

    begin: Fraction
    byte_range: ByteRange


@dataclass(frozen=True)
class Segment:
    """Times in seconds on the output's clock. `path` is relative to the track's folder."""

    begin: Fraction
    end: Fraction
    path: str
    offset: int
    size: int
    iframes: tuple[IFrame, ...] = ()

    @property
    def seconds(self) -> Fraction:
        return self.end - self.begin


class Piece(Protocol):
    """What segments are put together from: it begins at a time, and a segment may begin with it or not."""

    @property
    def begin(self) -> Fraction: ...
    @property
    def cuttable(self) -> bool: ...


P = TypeVar("P", bound=Piece)


Seal = Callable[[int, bytes], bytes]
"""Encrypts the segment of a number (from 1)."""


@dataclass(frozen=True)
class Assembled:
    """The bytes of a segment, and its I-frames: time, first byte and length inside it."""

    data: bytes
    iframes: tuple[tuple[Fraction, int, int], ...] = ()


class SegmentFiles:
    """Where a track's segments go: a file each, or all into one behind the init section."""

    def __init__(
        self, folder: Path, extension: str, *, single: bool, index_entries: int = 0, seal: Seal | None = None
    ) -> None:
        """`index_entries`: segments that the index of the one file has room for; 0: it gets none."""
        self._seal = seal
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.init_path: str | None = None
        self.init_size = self.index_size = 0
        self._index_entries = index_entries if single else 0
        self.paths: list[str] = []
        self._extension = extension
        self._single = f"{SINGLE_STEM}.{'mp4' if extension == 'm4s' else extension}" if single else None
        self._offset = 0

    def write_init(self, data: bytes) -> None:
        self.init_size = len(data)
        room = free_box(index_bytes(self._index_entries)) if self._index_entries else b""
        self.init_path, _ = self._write("init.mp4", data + room)

    def write_index(self, segments: Sequence[Segment], timescale: int) -> None:
        """Into the room behind the init section. Where there are more segments than entries, each is for several."""
        if not self._index_entries or self._single is None or not segments:
            return
        step = -(-len(segments) // self._index_entries)
        parts = [segments[at : at + step] for at in range(0, len(segments), step)]
        times = [round(part[0].begin * timescale) for part in parts] + [round(segments[-1].end * timescale)]
        entries = [
            (sum(segment.size for segment in part), end - begin)
            for part, (begin, end) in zip(parts, pairwise(times), strict=True)
        ]
        room = index_bytes(self._index_entries) - index_bytes(len(entries))
        index = index_box(timescale, times[0], entries, gap=room)
        self.index_size = len(index)
        with (self.folder / self._single).open("r+b") as file:
            file.seek(self.init_size)
            file.write(index + (free_box(room) if room else b""))

    def write(self, number: int, data: bytes) -> tuple[str, int]:
        """Path and offset of the segment of that number (from 1)."""
        return self._write(f"{number:05d}.{self._extension}", data)

    def sealed(self, number: int, data: bytes) -> bytes:
        """The segment of that number as it is written."""
        return data if self._seal is None else self._seal(number, data)

    def write_file(self, name: str, data: bytes) -> str:
        """A file beside the segments."""
        with (self.folder / name).open("wb") as file:
            file.write(data)
        self.paths.append(name)
        return name

    def _write(self, name: str, data: bytes) -> tuple[str, int]:
        path, offset = (name, 0) if self._single is None else (self._single, self._offset)
        with (self.folder / path).open("wb" if offset == 0 else "ab") as file:
            file.write(data)
        if path not in self.paths[-1:]:
            self.paths.append(path)
        self._offset += len(data)
        return path, offset


class Segmenter(Generic[P]):
    """Begins a segment with the first cuttable piece in each cell of a grid of `seconds`.

    All tracks have the same grid, and keyframes are made at the first picture of each cell: so cuts are at the same
    times in all rungs, whatever their rate, and sound is cut within one of its frames of them.
    """

    def __init__(
        self, seconds: Fraction, files: SegmentFiles, assemble: Callable[[Sequence[P], int], Assembled]
    ) -> None:
        self._seconds, self._files, self._assemble = seconds, files, assemble
        self._pieces: list[P] = []
        self.segments: list[Segment] = []

    def add(self, piece: P) -> None:
        if self._pieces and piece.cuttable and self._cell(piece) > self._cell(self._pieces[0]):
            self._flush(piece.begin)
        self._pieces.append(piece)

    def finish(self, end: Fraction) -> None:
        """The track ends then."""
        if self._pieces:
            self._flush(end)

    def _cell(self, piece: P) -> int:
        return int(piece.begin // self._seconds)

    def _flush(self, end: Fraction) -> None:
        pieces, self._pieces = self._pieces, []
        number = len(self.segments) + 1
        made = self._assemble(pieces, number)
        data = self._files.sealed(number, made.data)
        path, offset = self._files.write(number, data)
        iframes = tuple(IFrame(begin, ByteRange(length, offset + at)) for begin, at, length in made.iframes)
        self.segments.append(Segment(pieces[0].begin, end, path, offset, len(data), iframes))
