"""Rules of RFC 8216 (and of Apple's authoring specification where it is stricter), checked on a folder of playlists.

Written from the rules, with a reader of its own: it shares nothing with what writes playlists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

_ATTRIBUTE = re.compile(r'([A-Z0-9-]+)=("[^"\r\n]*"|[^",\s]+)(?:,|$)')
_UNIQUE_TAGS = ("EXT-X-VERSION", "EXT-X-TARGETDURATION", "EXT-X-MEDIA-SEQUENCE", "EXT-X-ENDLIST", "EXT-X-PLAYLIST-TYPE")


@dataclass
class Line:
    """A tag with its value, or a URI (no tag)."""

    tag: str
    value: str


@dataclass
class Listed:
    """One entry of a media playlist."""

    path: Path
    seconds: Fraction
    offset: int
    size: int
    ranged: bool


@dataclass
class Media:
    path: Path
    target: int
    version: int
    entries: list[Listed] = field(default_factory=list)
    init: Listed | None = None
    iframes_only: bool = False
    encrypted: bool = False

    @property
    def seconds(self) -> Fraction:
        return sum((entry.seconds for entry in self.entries), Fraction(0))

    def read(self, entry: Listed) -> bytes:
        """With the init section before it."""
        return b"".join(_bytes(part) for part in (self.init, entry) if part is not None)


@dataclass
class Multivariant:
    path: Path
    variants: list[tuple[dict[str, str], Media]]
    iframes: list[tuple[dict[str, str], Media]]
    alternatives: list[tuple[dict[str, str], Media]]

    def group(self, kind: str, name: str) -> list[tuple[dict[str, str], Media]]:
        return [(facts, m) for facts, m in self.alternatives if (facts["TYPE"], facts["GROUP-ID"]) == (kind, name)]


def attributes(text: str) -> dict[str, str]:
    found = _ATTRIBUTE.findall(text)
    assert "".join(f"{name}={value}," for name, value in found).rstrip(",") == text, f"not an attribute list: {text}"
    assert len({name for name, _ in found}) == len(found), f"an attribute twice: {text}"
    return {name: value.strip('"') for name, value in found}


def check_multivariant(path: Path) -> Multivariant:
    """AssertionError for the first rule that is broken."""
    lines = _lines(path)
    tags = [line.tag for line in lines]
    assert not {"EXTINF", "EXT-X-TARGETDURATION", "EXT-X-ENDLIST"}.intersection(tags), "a mixture of both kinds"
    found = Multivariant(path, [], [], [])
    waiting: dict[str, str] | None = None
    for line in lines:
        if line.tag == "EXT-X-STREAM-INF":
            assert waiting is None, "a variant without a URI"
            waiting = attributes(line.value)
        elif line.tag == "":
            assert waiting is not None, "a URI without a variant"
            found.variants.append((waiting, check_media(path.parent / line.value)))
            waiting = None
        elif line.tag == "EXT-X-MEDIA":
            facts = attributes(line.value)
            found.alternatives.append((facts, check_media(path.parent / facts["URI"])))
        elif line.tag == "EXT-X-I-FRAME-STREAM-INF":
            facts = attributes(line.value)
            found.iframes.append((facts, check_media(path.parent / facts["URI"])))
    assert waiting is None
    assert found.variants
    _check_groups(found)
    for facts, media in found.variants:
        _check_variant(found, facts, media)
    for facts, media in found.iframes:
        assert media.iframes_only
        assert not {"FRAME-RATE", "AUDIO", "SUBTITLES"}.intersection(facts)
        _check_rates(facts, [[media]])
    every = [media for _, media in (*found.variants, *found.alternatives, *found.iframes)]
    assert len({media.target for media in every}) == 1, "target durations differ"
    return found


def _check_groups(found: Multivariant) -> None:
    groups = {(facts["TYPE"], facts["GROUP-ID"]) for facts, _ in found.alternatives}
    members: dict[str, set[frozenset[str]]] = {}
    for kind, name in groups:
        each = [facts for facts, _ in found.group(kind, name)]
        assert len({facts["NAME"] for facts in each}) == len(each), "a name twice in a group"
        assert sum(facts.get("DEFAULT") == "YES" for facts in each) <= 1, "two defaults in a group"
        assert all(facts.get("AUTOSELECT") == "YES" for facts in each if facts.get("DEFAULT") == "YES")
        members.setdefault(kind, set()).add(frozenset(facts["NAME"] for facts in each))
    assert all(len(sets) == 1 for sets in members.values()), "groups of one type have the same members"
    used = {(kind, facts[kind]) for facts, _ in found.variants for kind in ("AUDIO", "SUBTITLES") if kind in facts}
    assert used == groups, "groups and what variants name differ"


def _check_variant(found: Multivariant, facts: dict[str, str], media: Media) -> None:
    assert facts["CODECS"]
    assert not media.iframes_only
    assert "RESOLUTION" not in facts or re.fullmatch(r"[1-9]\d*x[1-9]\d*", facts["RESOLUTION"])
    assert ("RESOLUTION" in facts) == ("FRAME-RATE" in facts) == ("VIDEO-RANGE" in facts)
    groups = [[media]]
    for kind in ("AUDIO", "SUBTITLES"):
        members = [member for _, member in found.group(kind, facts[kind])] if kind in facts else []
        if members and media not in members and media.path not in [member.path for member in members]:
            groups.append(members)
    _check_rates(facts, groups)


def _check_rates(facts: dict[str, str], groups: list[list[Media]]) -> None:
    """What is said is what the dearest combination takes, within a hundredth."""
    peak = sum(max(_peak(media) for media in group) for group in groups)
    average = sum(max(_average(media) for media in group) for group in groups)
    assert peak - 1 <= int(facts["BANDWIDTH"]) <= peak * 1.01 + 10, "BANDWIDTH is not the peak"
    assert average - 1 <= int(facts["AVERAGE-BANDWIDTH"]) <= average * 1.01 + 10
    assert int(facts["AVERAGE-BANDWIDTH"]) <= int(facts["BANDWIDTH"])


def _average(media: Media) -> float:
    return float(8 * sum(entry.size for entry in media.entries) / media.seconds)


def _peak(media: Media) -> float:
    rates = [_average(media)]
    for first in range(len(media.entries)):
        for last in range(first + 1, len(media.entries) + 1):
            part = media.entries[first:last]
            seconds = sum((entry.seconds for entry in part), Fraction(0))
            if Fraction(media.target, 2) <= seconds <= Fraction(media.target * 3, 2):
                rates.append(float(8 * sum(entry.size for entry in part) / seconds))
    return max(rates)


def check_media(path: Path) -> Media:
    lines = _lines(path)
    tags = [line.tag for line in lines]
    values = {line.tag: line.value for line in lines}
    assert not {"EXT-X-STREAM-INF", "EXT-X-MEDIA"}.intersection(tags), "a mixture of both kinds"
    assert all(tags.count(tag) <= 1 for tag in _UNIQUE_TAGS), "a tag twice"
    assert values["EXT-X-PLAYLIST-TYPE"] == "VOD"
    assert tags[-1] == "EXT-X-ENDLIST", "no end"
    media = Media(path, int(values["EXT-X-TARGETDURATION"]), int(values["EXT-X-VERSION"]))
    media.iframes_only = "EXT-X-I-FRAMES-ONLY" in tags
    media.encrypted = "EXT-X-KEY" in tags
    seconds: Fraction | None = None
    place: tuple[int, int] | None = None
    for line in lines:
        if line.tag == "EXT-X-MAP":
            facts = attributes(line.value)
            media.init = _entry(path.parent / facts["URI"], Fraction(0), _place(facts.get("BYTERANGE")))
        elif line.tag == "EXTINF":
            seconds = Fraction(line.value.partition(",")[0])
        elif line.tag == "EXT-X-BYTERANGE":
            place = _place(line.value)
        elif line.tag == "":
            assert seconds is not None, "a segment without EXTINF"
            media.entries.append(_entry(path.parent / line.value, seconds, place))
            seconds = place = None
    assert media.entries
    _check_entries(media)
    return media


def _check_entries(media: Media) -> None:
    for entry in media.entries:
        assert entry.seconds > 0
        assert int(entry.seconds + Fraction(1, 2)) <= media.target, "a segment above the target duration"
        assert entry.size > 0, "an empty segment"
    needs = 3
    if media.iframes_only or any(entry.ranged for entry in media.entries):
        needs = 4
    if media.init is not None:
        needs = 5 if media.iframes_only else 6
    assert media.version >= needs, f"version {media.version} has not what is used"
    if not media.iframes_only:
        reached: dict[Path, int] = {}
        for entry in media.entries:
            assert entry.offset >= reached.get(entry.path, 0), "segments overlap"
            reached[entry.path] = entry.offset + entry.size


def _place(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    length, _, offset = text.partition("@")
    return int(offset), int(length)


def _entry(path: Path, seconds: Fraction, place: tuple[int, int] | None) -> Listed:
    size = path.stat().st_size
    if place is None:
        return Listed(path, seconds, 0, size, ranged=False)
    assert place[0] + place[1] <= size, f"{path.name} ends before the range"
    return Listed(path, seconds, place[0], place[1], ranged=True)


def _bytes(entry: Listed) -> bytes:
    return entry.path.read_bytes()[entry.offset : entry.offset + entry.size]


def _lines(path: Path) -> list[Line]:
    data = path.read_bytes()
    assert not data.startswith(b"\xef\xbb\xbf"), "a byte order mark"
    text = data.decode("utf-8")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text), "control characters"
    assert text.startswith("#EXTM3U\n"), "does not begin with EXTM3U"
    lines = []
    for line in text.split("\n")[1:]:
        if line.startswith("#EXT"):
            tag, _, value = line[1:].partition(":")
            lines.append(Line(tag, value))
        elif line and not line.startswith("#"):
            assert not re.search(r"\s", line), "white space in a URI"
            lines.append(Line("", line))
    return lines
