"""What is remembered of the parts of an open segment: after a crash they are the segment, as far as it came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

from pipelines.live.folder import write_whole
from pipelines.live.lines import line_of, values_of


@dataclass(frozen=True, slots=True)
class Part:
    """A part that is there. `fresh` and `init` are those of its segment; `path` is relative to the output's folder."""

    segment: int
    path: str
    start: Fraction
    end: Fraction
    independent: bool
    fresh: bool
    init: str

    @property
    def seconds(self) -> Fraction:
        return self.end - self.start

    def line(self) -> str:
        return line_of(asdict(self))

    @classmethod
    def parse(cls, line: str) -> Part:
        return cls(**values_of(line))


class PartLog:
    """The parts of one rendition's open segment, a line each."""

    def __init__(self, folder: Path, rendition: str) -> None:
        self._folder, self._path = folder, folder / f".parts-{rendition}.jsonl"

    def left(self, segment: int) -> Sequence[Part]:
        """Those of the segment that are there, from its first one on without a gap."""
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return ()
        found: list[Part] = []
        for line in lines:
            try:
                part = Part.parse(line)
            except (ValueError, TypeError, KeyError):
                break  # the last line, when the machine lost its power
            if part.segment != segment:
                continue
            if not (self._folder / part.path).is_file():
                break
            found.append(part)
        return found

    def add(self, part: Part) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(part.line() + "\n")

    def clear(self) -> None:
        write_whole(self._path, b"")
