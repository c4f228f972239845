"""Subtitles of test media: read as (begin, end, text), and picture subtitles made of bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av

from tests.media import make_video


@dataclass(frozen=True)
class Shown:
    """A cue as a file has it: seconds, and the bytes of its packet as text."""

    begin: float
    end: float
    text: str


def captions(path: Path, track: int = 0) -> list[Shown]:
    """The cues of a text track as they are stored, without the empty ones that MP4 puts between them."""
    found = []
    with av.open(str(path), metadata_errors="replace") as container:
        stream = container.streams.subtitles[track]
        for packet in container.demux(stream):
            if packet.pts is None:
                continue
            begin, length = float(packet.pts * stream.time_base), float((packet.duration or 0) * stream.time_base)
            data = bytes(packet)
            if stream.codec_context.name == "mov_text":
                data = data[2 : 2 + struct.unpack(">H", data[:2])[0]]
            if data:
                found.append(Shown(round(begin, 4), round(begin + length, 4), data.decode().replace("\r\n", "\n")))
    return found


def make_pgs(path: Path, *, seconds: float = 2) -> Path:
    """A Matroska clip with a PGS track: an empty composition at each half second."""
    plain = make_video(path.with_suffix(".plain.mkv"), size=(64, 48), seconds=seconds)
    with av.open(str(plain)) as source, av.open(str(path), "w") as output:
        streams = {stream.index: output.add_stream_from_template(stream) for stream in source.streams}
        pictures = output.add_mux_stream("hdmv_pgs_subtitle")
        pictures.metadata["language"] = "eng"
        segment = b"\x16" + struct.pack(">HHHBHBBBB", 11, 64, 48, 0x10, 0, 0x80, 0, 0, 0) + b"\x80\x00\x00"
        times = [n / 2 for n in range(int(seconds * 2))]
        for packet in source.demux():
            if packet.dts is None:
                continue
            now = float(packet.dts * packet.time_base)
            while times and times[0] <= now:
                picture = av.Packet(segment)
                picture.time_base = Fraction(1, 1000)
                picture.pts = picture.dts = round(times.pop(0) * 1000)
                picture.stream = pictures
                output.mux(picture)
            packet.stream = streams[packet.stream.index]
            output.mux(packet)
    return path
