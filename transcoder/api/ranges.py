"""Conditional and range requests (RFC 9110, sections 13 and 14)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime

from transcoder.api.problems import RangeNotSatisfiable

Ranges = tuple[tuple[int, int], ...]
"""First and last byte of each."""

MAX_RANGES = 16
"""Players ask for one or two; a request for more gets the whole file."""

_RANGE = re.compile(r"([0-9]{0,19})-([0-9]{0,19})")


def satisfiable_ranges(header: str | None, size: int) -> Ranges | None:
    """The ranges that can be served, in the order asked for.

    None when there is no header, or one to be ignored: another unit, malformed, or too many ranges.
    RangeNotSatisfiable when it is well-formed and no byte of it exists.
    """
    if header is None:
        return None
    unit, _, listed = header.partition("=")
    parts = [part.strip(" \t") for part in listed.split(",", MAX_RANGES)]
    if unit.strip(" \t").lower() != "bytes" or len(parts) > MAX_RANGES:
        return None
    asked = [_bounds(part, size) for part in parts if part]
    if not asked or None in asked:
        return None
    served = tuple((first, last) for first, last in filter(None, asked) if first <= last)
    if not served:
        raise RangeNotSatisfiable(size)
    return served


def _bounds(text: str, size: int) -> tuple[int, int] | None:
    """First and last byte of one range; first > last when none of it exists; None when it is malformed."""
    match = _RANGE.fullmatch(text)
    if match is None or text == "-":
        return None
    first, last = match.groups()
    if not first:
        # a suffix: the last so many bytes
        return max(size - int(last), 0), size - 1
    if not last:
        return int(first), size - 1
    if int(last) < int(first):
        return None
    return int(first), min(int(last), size - 1)


@dataclass(frozen=True)
class Validators:
    """What tells one version of a file from another. Files never change once published, so both are strong."""

    etag: str
    modified: float
    """Seconds since 1970."""

    @property
    def last_modified(self) -> str:
        return formatdate(int(self.modified), usegmt=True)

    def match(self, if_none_match: str | None, if_modified_since: str | None) -> bool:
        """Whether the client has this version already. The date counts only without tags (section 13.1.3)."""
        if if_none_match is not None:
            listed = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
            return "*" in listed or self.etag in listed
        if if_modified_since is None:
            return False
        try:
            return int(self.modified) <= parsedate_to_datetime(if_modified_since).timestamp()
        except (ValueError, OverflowError):
            return False

    def allow_range(self, if_range: str | None) -> bool:
        """Whether a range of this version continues what the client has; otherwise it needs the whole file."""
        return if_range is None or if_range in (self.etag, self.last_modified)
