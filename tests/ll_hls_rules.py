"""Rules of low-latency HLS (draft-pantos-hls-rfc8216bis), checked on playlists as players get them.

Written from the rules, with a reader of its own: it shares nothing with what writes playlists.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from tests.hls_rules import attributes

LISTED_TARGETS = 3
SHORTEST = Fraction(85, 100)
"""Of the part target, that all parts but the last of a segment have."""
_ONCE = (
    *("EXT-X-VERSION", "EXT-X-TARGETDURATION", "EXT-X-MEDIA-SEQUENCE", "EXT-X-SERVER-CONTROL", "EXT-X-PART-INF"),
    *("EXT-X-DISCONTINUITY-SEQUENCE", "EXT-X-INDEPENDENT-SEGMENTS"),
)


@dataclass
class PartLine:
    uri: str
    seconds: Fraction
    independent: bool


@dataclass
class Segment:
    """`uri` None: it is not whole yet."""

    number: int
    parts: list[PartLine] = field(default_factory=list)
    uri: str | None = None
    seconds: Fraction = Fraction(0)
    fresh: bool = False
    init: str = ""

    @property
    def parted(self) -> Fraction:
        return sum((part.seconds for part in self.parts), Fraction(0))


@dataclass
class Playlist:
    target: int
    part_target: Fraction
    hold_back: Fraction
    segments: list[Segment]
    hint: str
    reports: dict[str, tuple[int, int]]

    @property
    def parts(self) -> dict[str, PartLine]:
        return {part.uri: part for segment in self.segments for part in segment.parts}

    @property
    def edge(self) -> tuple[int, int]:
        """The newest segment with a part, and that part."""
        last = next(segment for segment in reversed(self.segments) if segment.parts)
        return last.number, len(last.parts) - 1


def check(text: str, *, resumed: bool = False) -> Playlist:
    """AssertionError for the first rule that is broken. `resumed`: old segments need not have parts."""
    found = _read(text)
    assert found.part_target <= found.target
    assert found.hold_back >= 3 * found.part_target
    assert found.hint not in found.parts, "what is hinted at is listed already"
    assert len(found.parts) == sum(len(each.parts) for each in found.segments), "a part twice"
    for segment in found.segments:
        _check_parts(segment, found)
    _check_listing(found, resumed=resumed)
    return found


def _read(text: str) -> Playlist:
    lines = text.splitlines()
    assert lines[0] == "#EXTM3U"
    assert text.endswith("\n")
    tags = [line[1:].partition(":")[::2] if line.startswith("#") else ("", line) for line in lines[1:]]
    names = [name for name, _ in tags]
    assert "EXT-X-ENDLIST" not in names
    assert all(names.count(name) <= 1 for name in _ONCE)
    once = {name: value for name, value in tags if name in _ONCE}
    assert int(once["EXT-X-VERSION"]) >= 6
    control, info = attributes(once["EXT-X-SERVER-CONTROL"]), attributes(once["EXT-X-PART-INF"])
    assert control["CAN-BLOCK-RELOAD"] == "YES"
    first_segment = next(place for place, name in enumerate(names) if name in ("EXT-X-PART", "EXTINF"))
    assert all(place < first_segment for place, name in enumerate(names) if name in _ONCE)
    hints = [attributes(value) for name, value in tags if name == "EXT-X-PRELOAD-HINT"]
    assert [each["TYPE"] for each in hints] == ["PART"]
    reports = [attributes(value) for name, value in tags if name == "EXT-X-RENDITION-REPORT"]
    return Playlist(
        int(once["EXT-X-TARGETDURATION"]),
        _decimal(info["PART-TARGET"]),
        _decimal(control["PART-HOLD-BACK"]),
        _segments(tags, int(once["EXT-X-MEDIA-SEQUENCE"])),
        hints[0]["URI"],
        {each["URI"]: (int(each["LAST-MSN"]), int(each["LAST-PART"])) for each in reports},
    )


def _segments(tags: list[tuple[str, ...]], number: int) -> list[Segment]:
    segments, current, init = [], Segment(number), ""
    for name, value in tags:
        if name == "EXT-X-DISCONTINUITY":
            assert not current.parts, "a discontinuity within a segment"
            current.fresh = True
        elif name == "EXT-X-MAP":
            assert not current.parts, "an init section within a segment"
            init = attributes(value)["URI"]
        elif name == "EXT-X-PART":
            facts = attributes(value)
            assert "BYTERANGE" not in facts
            independent = facts.get("INDEPENDENT") == "YES"
            current.parts.append(PartLine(facts["URI"], _decimal(facts["DURATION"]), independent))
        elif name == "EXTINF":
            current.seconds = _decimal(value.rstrip(","))
        elif name == "":
            assert init, "no init section before the first segment"
            current.uri, current.init = value, init
            segments.append(current)
            current = Segment(current.number + 1)
    if current.parts:
        assert init
        current.init = init
        segments.append(current)
    return segments


def _decimal(text: str) -> Fraction:
    assert re.fullmatch(r"\d+(\.\d+)?", text), f"not a decimal number: {text}"
    return Fraction(text)


def _check_parts(segment: Segment, found: Playlist) -> None:
    assert all(part.seconds <= found.part_target for part in segment.parts), "a part longer than the target"
    final = segment.parts[-1:] if segment.uri is not None else []
    short = [each for each in segment.parts if each.seconds < SHORTEST * found.part_target and each not in final]
    assert not short, f"parts shorter than allowed: {short}"
    if segment.parts:
        assert segment.parts[0].independent, "a segment does not begin with what can be decoded alone"
    assert segment.uri is None or round(segment.seconds) <= found.target


def _check_listing(found: Playlist, *, resumed: bool) -> None:
    """Parts are listed near the edge, all the way, and nowhere else."""
    behind = Fraction(0)
    for segment in reversed(found.segments):
        if behind >= LISTED_TARGETS * found.target:
            assert not segment.parts, "parts far behind the edge"
        else:
            assert segment.parts or resumed, "a segment near the edge has no parts"
        behind += segment.seconds if segment.uri is not None else segment.parted


def check_bytes(found: Playlist, read: Callable[[str], bytes]) -> int:
    """That segments are what their parts are together; how many were compared."""
    compared = 0
    for segment in found.segments:
        if segment.uri is not None and segment.parts:
            assert b"".join(read(part.uri) for part in segment.parts) == read(segment.uri)
            compared += 1
    return compared


def check_history(texts: list[str]) -> list[Playlist]:
    """Playlists of one rendition, one after the other: what was said once stays true."""
    playlists = [check(text) for text in texts]
    assert len({each.part_target for each in playlists}) == 1
    known: dict[tuple[int, int], str] = {}
    for before, after in pairwise(playlists):
        assert after.edge >= before.edge, "the edge went back"
        assert before.segments[0].number <= after.segments[0].number
        if after.edge > before.edge:
            # another segment's first part may be what was hinted at in the one before
            assert before.hint in after.parts, "the hint was wrong"
    for playlist in playlists:
        for segment in playlist.segments:
            for place, part in enumerate(segment.parts):
                assert known.setdefault((segment.number, place), part.uri) == part.uri, "a part became another one"
    return playlists
