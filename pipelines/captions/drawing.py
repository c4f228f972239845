"""Text to be drawn into pictures: all cues of a track, read before the pictures are, as a file that libass takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
from av.filter import Graph
from av.packet import Packet
from av.video.frame import VideoFrame

from pipelines.captions.beside import Texts
from pipelines.captions.cues import LONGEST_TEXT, UNTIMED_MS
from pipelines.captions.earlier_cues import earlier_cues
from pipelines.captions.subtitles import ASS_CODECS, utf8_packet
from pipelines.demux import COARSE_FORMATS, Demuxer
from pipelines.errors import FilterMissing, LimitExceeded
from pipelines.filters import BurnIn
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, open_input
from pipelines.planning.choice import main_video
from pipelines.rendition import Plan
from pipelines.source import SourceInfo
from pipelines.tracks import Span
from pipelines.warning_log import WarningLog

MAX_CUES = 100_000
MAX_BYTES = 64 << 20
_HEIGHT = re.compile(rb"^PlayResY:[ \t]*(\d{1,5})[ \t]*\r?$", re.M | re.I)
_USUAL_HEIGHT = 288
"""What sizes count in where a script does not say it."""


_CHECK = """[Script Info]
ScriptType: v4.00+
PlayResY: 48

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, Alignment
Style: Default,sans-serif,40,&H00FFFFFF,5

[Events]
Format: Layer, Start, End, Style, Text
Dialogue: 0,0:00:00.00,0:00:10.00,Default,M
"""


@dataclass(frozen=True)
class Caption:
    """A script on the clock of the source's pictures; its sizes are of a picture `height` high."""

    path: Path
    height: int


@dataclass(frozen=True)
class _Line:
    begin: Fraction
    end: Fraction | None
    """None: until the next."""
    layer: str
    fields: str


def write_captions(
    plan: Plan, source: SourceInfo, file: LocalFile, folder: Path, span: Span, limits: Limits, stack: ExitStack
) -> dict[int, Caption]:
    """By stream, for all that the plan draws; the files, of names of our own, are gone when `stack` is left."""
    streams = {step.stream: None for step in plan.picture_steps() if isinstance(step, BurnIn)}
    if streams:
        check_fonts(folder, stack)
    return {stream: _caption(stream, source, file, folder, span, limits, stack) for stream in streams}


def check_fonts(folder: Path, stack: ExitStack) -> None:
    """FilterMissing where a letter that is drawn can't be seen: libass says nothing where it finds no font."""
    path = folder.absolute() / ".captions-check.ass"
    stack.callback(path.unlink, missing_ok=True)
    path.write_text(_CHECK, encoding="utf-8")
    graph: Any = Graph()
    picture = VideoFrame(64, 48, "gray")
    picture.planes[0].update(bytes(picture.planes[0].buffer_size))
    picture.pts, picture.time_base = 0, Fraction(1, 1000)
    source = graph.add("buffer", video_size="64x48", pix_fmt="gray", time_base="1/1000", pixel_aspect="1/1")
    nodes = [source, graph.add("subtitles", filename=str(path)), graph.add("buffersink")]
    for one, following in pairwise(nodes):
        one.link_to(following)
    graph.configure()
    source.push(picture)
    if not any(bytes(nodes[-1].pull().planes[0])):
        raise FilterMissing(
            "letters can't be drawn: no font is installed, or none may be read (fontconfig, such as Debian's "
            "fonts-dejavu-core)",
            stage="filter",
            filter="subtitles",
        )


def _caption(
    stream: int, source: SourceInfo, file: LocalFile, folder: Path, span: Span, limits: Limits, stack: ExitStack
) -> Caption:
    with ExitStack() as reading:
        texts = Texts({stream}, source, file, limits, reading)
        beside = texts.container(stream)
        if beside is None:
            container = reading.enter_context(open_input(file, limits))
            decoder = _decoder(container.streams[stream])
            packets = _packets(stream, source, container, span, limits)
        else:
            decoder = _decoder(beside.streams[stream])
            packets = texts.all_cues(stream)
        header: bytes = decoder.subtitle_header or b""
        lines = list(_lines(decoder, packets))
    path = folder.absolute() / f".captions-{stream}.ass"
    stack.callback(path.unlink, missing_ok=True)
    path.write_bytes(_script(header, lines))
    height = _HEIGHT.search(header)
    return Caption(path, int(height[1]) if height and int(height[1]) else _USUAL_HEIGHT)


def _decoder(stream: Any) -> Any:
    context = stream.codec_context
    decoder: Any = av.CodecContext.create(context.codec.name, "r")
    if context.extradata:
        decoder.extradata = context.extradata
    decoder.open(strict=False)
    return decoder


def _packets(
    stream: int, source: SourceInfo, container: Any, span: Span, limits: Limits
) -> Iterator[tuple[Packet[Any], Fraction]]:
    """From the clip's start to its end. Where clocks restart, pictures are read too: they tell it."""
    picture = main_video(source.video)
    clocked = picture is not None and any(name in COARSE_FORMATS for name in source.format.split(","))
    streams = sorted({stream, picture.index}) if picture is not None and clocked else [stream]
    seen = set()
    for packet, time_base in earlier_cues(container, streams, [stream], span, source):
        seen.add((packet.pts, packet.size))
        yield packet, time_base
    for packet, time_base in Demuxer(container, streams, span, source, limits, WarningLog(())):
        if span.end is not None and packet.dts is not None and packet.dts * time_base >= span.end:
            return
        if packet.stream_index == stream and (packet.pts, packet.size) not in seen:
            yield packet, time_base


def _lines(decoder: Any, packets: Iterator[tuple[Packet[Any], Fraction]]) -> Iterator[_Line]:
    is_ass = decoder.codec.canonical_name in ASS_CODECS
    size = count = 0
    for packet, time_base in packets:
        if packet.pts is None:
            continue
        begin, length = packet.pts * time_base, (packet.duration or 0) * time_base
        try:
            subtitle = decoder.decode2(utf8_packet(packet, decoder.codec.canonical_name))
        except av.error.FFmpegError as error:
            if isinstance(error, MemoryError):
                raise
            continue  # a track of it would go without that cue, too
        if subtitle is None:
            continue
        if not length and 0 < subtitle.end_display_time < 0xFFFFFFFF:
            length = Fraction(subtitle.end_display_time - subtitle.start_display_time, 1000)
        for rect in subtitle:
            text = rect.ass.decode("utf-8", "replace").replace("\r", "").replace("\n", "\\N")
            fields = text[:LONGEST_TEXT].split(",", 2)
            if len(fields) < 3:
                continue
            layer = fields[1] if is_ass and fields[1].strip().isdecimal() else "0"
            size, count = size + len(fields[2]), count + 1
            if count > MAX_CUES or size > MAX_BYTES:
                message = f"the subtitle track has more than {MAX_CUES} cues, or {MAX_BYTES} bytes"
                raise LimitExceeded("limit_size", message, stage="filter", limit=MAX_CUES)
            yield _Line(begin, begin + length if length else None, layer, fields[2])


def _script(header: bytes, lines: list[_Line]) -> bytes:
    """The decoder's header ends with the section of the events."""
    text = header.decode("utf-8", "replace").replace("\0", "").rstrip() + "\n"
    written = []
    for number, line in enumerate(lines):
        end = line.end
        if end is None:
            following = next((each.begin for each in lines[number + 1 :] if each.begin > line.begin), None)
            latest = line.begin + Fraction(UNTIMED_MS, 1000)
            end = latest if following is None else min(following, latest)
        if end > max(line.begin, Fraction(0)):
            times = f"{_stamp(max(line.begin, Fraction(0)))},{_stamp(end)}"
            written.append(f"Dialogue: {line.layer},{times},{line.fields}\n")
    return (text + "".join(written)).encode()


def _stamp(seconds: Fraction) -> str:
    hundredths = round(seconds * 100)
    minutes, rest = divmod(hundredths, 6000)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest // 100:02d}.{rest % 100:02d}"


FORCED: Mapping[str, str] = {"bottom": "2", "top": "6", "middle": "10"}
"""Alignment as libass keeps it: 4 for the top, 8 for the middle, 2 for the centre. (Scripts have it as number keys.)"""


def style_of(step: BurnIn, height: int) -> str:
    """What the track's styles are overridden with: numbers and colours of ours alone, in the script's own units."""
    told = {
        "Fontsize": _size(step.size, height),
        "PrimaryColour": _colour(step.colour),
        "Outline": _size(step.outline, height),
        "OutlineColour": _colour(step.outline_colour),
        "MarginV": None if step.margin is None else str(round(step.margin * height / 100)),
        "Alignment": None if step.position is None else FORCED[step.position],
    }
    return ",".join(f"{name}={value}" for name, value in told.items() if value is not None)


def _size(share: float | None, height: int) -> str | None:
    return None if share is None else f"{share * height / 100:.2f}"


def _colour(value: str | None) -> str | None:
    """#rrggbb as ASS has it: transparency, blue, green, red."""
    return None if value is None else f"&H00{value[5:7]}{value[3:5]}{value[1:3]}".upper()
