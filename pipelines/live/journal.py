"""What an output remembers of its segments, a line each: after a restart numbers and playlists go on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

from pipelines.live.folder import write_whole
from pipelines.live.lines import line_of, values_of

SPARE_LINES = 512


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that is there. Times are on the output's clock; `fresh`: it does not go on from the one before."""

    rendition: str
    number: int
    path: str
    """Relative to the output's folder."""
    start: Fraction
    end: Fraction
    fresh: bool
    era: int
    """How many segments up to this one were fresh."""
    init: str | None
    size: int

    @property
    def seconds(self) -> Fraction:
        return self.end - self.start

    def line(self) -> str:
        return line_of(asdict(self))

    @classmethod
    def parse(cls, line: str) -> Segment:
        return cls(**values_of(line))


class Journal:
    """`known` are the segments whose files were still there at the start, oldest first."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / ".segments.jsonl"
        self.known = self._read()
        self._lines = 0
        self.compact(self.known)

    def _read(self) -> tuple[Segment, ...]:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return ()
        found = []
        for line in lines:
            try:
                found.append(Segment.parse(line))
            except (ValueError, TypeError, KeyError):
                continue  # the last line, when the machine lost its power
        return tuple(each for each in found if (self._folder / each.path).is_file())

    def add(self, segment: Segment) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(segment.line() + "\n")
        self._lines += 1

    def compact(self, kept: Iterable[Segment]) -> None:
        lines = [segment.line() for segment in kept]
        write_whole(self._path, "".join(f"{line}\n" for line in lines).encode())
        self._lines = len(lines)

    def needs_compacting(self, kept: int) -> bool:
        return self._lines > 2 * kept + SPARE_LINES
