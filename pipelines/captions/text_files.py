"""Files of text subtitles beside an input: read within limits, known by their content, opened from memory.

What FFmpeg gets is UTF-8 that was read here, with the one demuxer that its text calls for.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import av
from av.container import InputContainer
from av.packet import Packet

from pipelines.captions.charsets import NotText, decoded
from pipelines.errors import BadSubtitles, LimitExceeded, OutOfMemory

MAX_BYTES = 8 << 20
"""A film's subtitles have some 100 kB; with typesetting in ASS a few MB."""
MAX_CUES = 100_000
HEAD = 4096

Form = Literal["srt", "ass", "webvtt"]
_TIMES = re.compile(r"^[ \t]*\d{1,4}:\d{1,2}:\d{1,2}[,.]\d{1,3}[ \t]*-->[ \t]*\d{1,4}:\d{1,2}:\d{1,2}[,.]\d", re.M)
_SECTION = re.compile(r"^\[(script info|v4\+? styles|events)\]", re.M | re.I)


@dataclass(frozen=True)
class TextFile:
    """`named`: what messages call it; `facts` for errors."""

    named: str
    facts: dict[str, Any]
    data: bytes
    """UTF-8."""
    form: Form
    charset: str
    guessed: bool


def read_text_file(path: Path | None, number: int, label: str, charset: str | None, language: str | None) -> TextFile:
    """`charset`: as it was told, if it was. `number`: the file's place in the list, from 1.

    BadSubtitles, or LimitExceeded (limit_size); both say which file.
    """
    named = f"subtitles file {number} ({label})"
    facts: dict[str, Any] = {"subtitles": number, "file": label}
    if path is None:
        raise BadSubtitles(f"{named} did not come with the input", stage="open", **facts)
    data = _read(path, named, facts)
    try:
        text = decoded(data, charset, language)
    except NotText as error:
        raise BadSubtitles(f"{named} {error}", stage="open", **facts) from error
    form = form_of(text.text)
    if form is None:
        raise BadSubtitles(f"{named} is no SRT, ASS or WebVTT", stage="open", **facts)
    return TextFile(named, facts, text.text.encode("utf-8", "replace"), form, text.charset, text.guessed)


def form_of(text: str) -> Form | None:
    """By what it says, never by its name."""
    head = text[:HEAD].lstrip()
    if head.startswith("WEBVTT"):
        return "webvtt"
    if _SECTION.search(head):
        return "ass"
    return "srt" if _TIMES.search(text) else None


def _read(path: Path, named: str, facts: dict[str, Any]) -> bytes:
    try:
        # a FIFO would block here without O_NONBLOCK
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise BadSubtitles(f"{named} can't be opened: {error.strerror}", stage="open", **facts) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadSubtitles(f"{named} is not a regular file", stage="open", **facts)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        message = f"{named} has more than the {MAX_BYTES} bytes of any subtitles"
        raise LimitExceeded("limit_size", message, stage="open", limit=MAX_BYTES, **facts)
    return data


@contextmanager
def opened_text(file: TextFile) -> Iterator[InputContainer]:
    """BadSubtitles where FFmpeg finds nothing in it."""
    try:
        container = av.open(io.BytesIO(file.data), "r", format=file.form, metadata_errors="replace")
    except (av.error.FFmpegError, ValueError) as error:
        if isinstance(error, MemoryError):
            raise OutOfMemory(f"out of memory: {file.named}", stage="open") from error
        raise BadSubtitles(f"{file.named} can't be read as {file.form}: {error}", stage="open", **file.facts) from error
    with container:
        yield container


def cues_of(container: InputContainer, file: TextFile) -> list[Packet[Any]]:
    """Its cues in order of time. BadSubtitles: there are none. LimitExceeded (limit_size): too many."""
    found: list[Packet[Any]] = []
    for packet in container.demux(container.streams.subtitles[0]):
        if packet.pts is None or not packet.size:
            continue
        found.append(packet)
        if len(found) > MAX_CUES:
            message = f"{file.named} has more than {MAX_CUES} cues"
            raise LimitExceeded("limit_size", message, stage="open", limit=MAX_CUES, **file.facts)
    if not found:
        raise BadSubtitles(f"{file.named} has not one cue", stage="open", **file.facts)
    return found
