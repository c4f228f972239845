"""Cues of text subtitles: what is read from a decoder's events, and what may stand on the screen at the same time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

UNTIMED_MS = 5_000
"""How long a cue without a length stays at most; the next one ends it."""

LONGEST_TEXT = 32_768
"""Characters of a cue; what is longer is no text to be read."""
_BLOCK = re.compile(r"(\{[^}]{0,2000}\})")
_DRAWING = re.compile(r"\\p(\d+)")
_WHITESPACE = re.compile(r"(?:\\[Nnh]|\s)+")
_WEBVTT_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, slots=True)
class Cue:
    """Text with ASS override blocks (`{\\i1}`) and line breaks (`\\N`), shown from `begin` to `end` (milliseconds)."""

    begin: int
    end: int
    text: str
    style: str = "Default"


def read_events(events: list[bytes], *, is_ass: bool) -> tuple[str, str]:
    """Style and text of a decoder's events (fields of an ASS dialogue line, the text last), several as lines of one.

    Drawings are left out, and so are comments of ASS: blocks that hold no override. Elsewhere braces are text.
    """
    style = "Default"
    texts: list[str] = []
    for event in events:
        fields = event.decode("utf-8", "replace").split(",", 8)
        if len(fields) < 9:
            continue
        if not texts:
            style = fields[2] or style
        texts.append(_readable(fields[8], is_ass=is_ass))
    return style, "\\N".join(text for text in texts if _is_visible(text))


def _readable(text: str, *, is_ass: bool) -> str:
    kept: list[str] = []
    drawing = False
    for part in _BLOCK.split(text[:LONGEST_TEXT].rstrip("\r\n")):
        if part.startswith("{") and "\\" in part:
            scale = _DRAWING.findall(part)
            drawing = int(scale[-1]) > 0 if scale else drawing
            kept.append(part)
        elif not drawing and not (is_ass and part.startswith("{")):
            kept.append(part.replace("\\h", "\u00a0") if is_ass else part)
    return "".join(kept)


def _is_visible(text: str) -> bool:
    return bool(_WHITESPACE.sub("", "".join(p for p in _BLOCK.split(text) if not (p.startswith("{") and "\\" in p))))


def for_webvtt(text: str) -> str:
    """With the characters that WebVTT gives a meaning as entities: the encoder writes them as they are."""
    return "".join(
        part if part.startswith("{") and "\\" in part else part.translate(_WEBVTT_ENTITIES)
        for part in _BLOCK.split(text)
    )


class Screen:
    """Where a container shows one cue at a time: those that overlap are put together for as long as they do."""

    def __init__(self) -> None:
        self._shown: list[Cue] = []
        self._at = 0

    def add(self, cue: Cue) -> Iterator[Cue]:
        """Takes a cue; gives those that end or change when it comes."""
        yield from self.until(cue.begin)
        begin = max(cue.begin, self._at)
        self._at = begin
        if cue.end > begin:
            self._shown.append(replace(cue, begin=begin))

    def until(self, time: int) -> Iterator[Cue]:
        """What is shown up to `time`; a cue that comes later must not begin before it."""
        while self._shown and self._at < time:
            end = min(time, *(cue.end for cue in self._shown))
            yield self._together(end)
            self._at = end
            self._shown = [cue for cue in self._shown if cue.end > end]

    def all(self) -> Iterator[Cue]:
        yield from self.until(max((cue.end for cue in self._shown), default=0))

    def settled(self, time: int) -> Iterator[Cue]:
        """What can be given when no cue comes any more that begins before `time`: cues that end before it."""
        while self._shown and min(cue.end for cue in self._shown) <= time:
            yield from self.until(min(cue.end for cue in self._shown))

    def _together(self, end: int) -> Cue:
        first = self._shown[0]
        text = first.text
        for cue in self._shown[1:]:
            text += ("{\\r}" if "{" in text else "") + "\\N" + cue.text
        return Cue(self._at, end, text, first.style)
