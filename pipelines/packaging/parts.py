"""What low-latency HLS adds to a media playlist: parts, what comes next, how the other renditions stand. Pure.

The rules are those of the second edition of HLS (draft-pantos-hls-rfc8216bis).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pipelines.packaging.tags import attributes, decimal, quoted, uri

HOLD_BACK_PARTS = 3
"""How many parts behind the edge players are told to stay: the fewest that the rules recommend."""
PLACES = 5
"""Of seconds: a part's length and the target are rounded alike."""


@dataclass(frozen=True)
class Part:
    """`independent`: it has a picture (or sound) that needs none before it."""

    uri: str
    seconds: Fraction
    independent: bool

    def line(self) -> str:
        return "#EXT-X-PART:" + attributes(
            [
                ("DURATION", decimal(self.seconds, PLACES)),
                ("URI", quoted(uri(self.uri))),
                ("INDEPENDENT", "YES" if self.independent else None),
            ]
        )


@dataclass(frozen=True)
class Report:
    """How far another rendition's playlist has come: the segment, and its newest part."""

    uri: str
    segment: int
    part: int

    def line(self) -> str:
        return "#EXT-X-RENDITION-REPORT:" + attributes(
            [("URI", quoted(uri(self.uri))), ("LAST-MSN", str(self.segment)), ("LAST-PART", str(self.part))]
        )


@dataclass(frozen=True)
class LowLatency:
    """`part_target`: no part is longer. `longest_target`: of all renditions. `hint`: where the next part will be."""

    part_target: Fraction
    longest_target: Fraction
    hint: str | None = None
    reports: Sequence[Report] = ()

    def head(self) -> Iterator[str]:
        hold_back = HOLD_BACK_PARTS * Fraction(decimal(self.longest_target, PLACES))
        yield "#EXT-X-SERVER-CONTROL:" + attributes(
            [("CAN-BLOCK-RELOAD", "YES"), ("PART-HOLD-BACK", decimal(hold_back, PLACES))]
        )
        yield "#EXT-X-PART-INF:" + attributes([("PART-TARGET", decimal(self.part_target, PLACES))])

    def tail(self) -> Iterator[str]:
        if self.hint is not None:
            yield "#EXT-X-PRELOAD-HINT:" + attributes([("TYPE", "PART"), ("URI", quoted(uri(self.hint)))])
        yield from (report.line() for report in self.reports)
