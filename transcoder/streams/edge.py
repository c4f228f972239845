"""How far a low-latency playlist has come, and what requests that wait for more of it ask for. Pure.

The rules are those of blocking reloads in the second edition of HLS (draft-pantos-hls-rfc8216bis, 6.2.5.2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from transcoder.errors import ServiceError

SEGMENT, PART = "_HLS_msn", "_HLS_part"
MAX_DIGITS = 15
AHEAD_SEGMENTS = 2
"""How far beyond the newest segment a request may ask."""
AHEAD_SECONDS = 3
"""How far beyond the newest part, where parts are shorter than a second; else in parts."""
_TAG = re.compile(r"^#(EXT-X-[A-Z-]+|EXTINF)(?::(.*))?$", re.MULTILINE)
_PART_TARGET = re.compile(r"PART-TARGET=([0-9.]+)")
_URI = re.compile(r'URI="([^"]*)"')


class ImpossibleReload(ServiceError):
    """What is waited for makes no sense, or is too far ahead to ever be waited for."""

    code = "impossible_reload"
    http_status = 400


@dataclass(frozen=True)
class Edge:
    """`segments`: how many are whole, counted from sequence number 0; `parts`: of the one after them.

    `parts_of`: of those whole ones that have any listed.
    """

    segments: int
    parts: int
    parts_of: Mapping[int, int]
    target_seconds: int
    part_target_seconds: float
    hint: str | None
    ended: bool


def edge_of(playlist: str) -> Edge | None:
    """None where it has no parts, so that nobody can wait for it."""
    number, parts, target, part_target = 0, 0, 1, 0.0
    hint, ended, blocks = None, False, False
    parts_of: dict[int, int] = {}
    for tag, value in _TAG.findall(playlist):
        match tag:
            case "EXT-X-MEDIA-SEQUENCE":
                number = int(value)
            case "EXT-X-TARGETDURATION":
                target = int(value)
            case "EXT-X-SERVER-CONTROL":
                blocks = "CAN-BLOCK-RELOAD=YES" in value
            case "EXT-X-PART-INF":
                found = _PART_TARGET.search(value)
                part_target = float(found[1]) if found is not None else 0.0
            case "EXT-X-PART":
                parts += 1
            case "EXTINF":
                if parts:
                    parts_of[number] = parts
                number, parts = number + 1, 0
            case "EXT-X-PRELOAD-HINT":
                named = _URI.search(value)
                hint = named[1] if named is not None else None
            case "EXT-X-ENDLIST":
                ended = True
    if not blocks or part_target <= 0:
        return None
    return Edge(number, parts, parts_of, target, part_target, hint, ended)


@dataclass(frozen=True)
class Wanted:
    """A segment, or a part of it, that a playlist is to have."""

    segment: int
    part: int | None

    def is_in(self, edge: Edge) -> bool:
        """A part behind the last one of its segment is the first one of the next."""
        if edge.ended:
            return True
        if self.part is None or edge.segments < self.segment:
            return edge.segments > self.segment
        if edge.segments == self.segment:
            return edge.parts > self.part
        missing = self.part >= edge.parts_of.get(self.segment, self.part + 1)
        return not missing or edge.segments > self.segment + 1 or edge.parts > 0

    def check(self, edge: Edge) -> None:
        """ImpossibleReload for what is too far ahead."""
        if edge.ended:
            return
        if self.segment > edge.segments - 1 + AHEAD_SEGMENTS:
            raise ImpossibleReload(f"segment {self.segment} is too far ahead: the newest one is {edge.segments - 1}")
        ahead = AHEAD_SECONDS if edge.part_target_seconds >= 1 else ceil(AHEAD_SECONDS / edge.part_target_seconds)
        if self.part is not None and self.segment == edge.segments and self.part > edge.parts - 1 + ahead:
            raise ImpossibleReload(f"part {self.part} is too far ahead: the segment has {edge.parts} by now")


def wanted(query: Mapping[str, str]) -> Wanted | None:
    """None where a request waits for nothing. ImpossibleReload for what is no number, and a part of no segment."""
    if SEGMENT not in query and PART not in query:
        return None
    if SEGMENT not in query:
        raise ImpossibleReload(f"{PART} is a part of the segment that {SEGMENT} says")
    return Wanted(_number(query, SEGMENT), _number(query, PART) if PART in query else None)


def _number(query: Mapping[str, str], name: str) -> int:
    text = query[name]
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise ImpossibleReload(f"{name} is a number, not below 0")
    return int(text)
