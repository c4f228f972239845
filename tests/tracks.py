"""Tracks of generated media: output streams set up, and lanes of packets that are muxed in step."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.packet import Packet
from av.stream import Disposition
from av.subtitles.subtitle import SubtitleSet
from av.video.frame import PictureType, VideoFrame

from pipelines.source import Colour
from pipelines.video.colours import MATRICES, PRIMARIES, RANGES, TRANSFERS
from tests.signals import Rate, Tone, moving_pictures, tone_samples

ENCODERS = {
    "h264": "libx264", "hevc": "libx265", "av1": "libsvtav1", "vp9": "libvpx-vp9", "vp8": "libvpx",
    "mp3": "libmp3lame", "opus": "libopus", "prores": "prores_ks",
}  # fmt: skip
FAST: dict[str, dict[str, str]] = {
    "libx264": {"preset": "ultrafast"},
    "libx265": {"preset": "ultrafast", "x265-params": "log-level=none"},
    "libsvtav1": {"preset": "12", "svtav1-params": "lp=1"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8"},
    "libvpx": {"deadline": "realtime", "cpu-used": "8"},
    "vorbis": {"strict": "-2"},
}
"""Options that make each encoder quick, or willing; a clip's own options come on top."""
AUDIO_CHUNK = 1024
WIDEST_BIT_RATE_TOLERANCE = 4_000_000


@dataclass(frozen=True)
class Subtitles:
    """A text subtitle track: cues are (start, end, text) in seconds."""

    cues: tuple[tuple[float, float, str], ...] = ((0.2, 0.8, "First line"), (1.0, 1.6, "Zweite Zeile, größer"))
    codec: str = "subrip"
    language: str | None = None
    title: str | None = None
    default: bool = False
    forced: bool = False
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mark:
    """A chapter."""

    start: float
    end: float
    title: str


def video_options(encoder: str, interlaced: str | None, options: dict[str, str] | None) -> dict[str, str]:
    chosen = dict(FAST.get(encoder, {}))
    if interlaced:
        chosen["flags"] = "+ildct+ilme"
        if encoder == "libx264":
            chosen["x264-params"] = f"{'tff' if interlaced == 'top' else 'bff'}=1"
    for key, value in (options or {}).items():
        both = key.endswith("-params") and key in chosen
        chosen[key] = f"{chosen[key]}:{value}" if both else value
    return chosen


def tag(context: Any, colour: Colour) -> None:
    context.color_primaries = PRIMARIES.get(colour.primaries or "", 2)
    context.color_trc = TRANSFERS.get(colour.transfer or "", 2)
    context.colorspace = MATRICES.get(colour.matrix or "", 2)
    context.color_range = RANGES.get(colour.range or "", 0)


def _describe(stream: Any, track: Tone | Subtitles) -> None:
    if track.language is not None:
        stream.metadata["language"] = track.language
    if track.title is not None:
        stream.metadata["title"] = track.title
    disposition = Disposition.default * track.default | Disposition.forced * track.forced
    for role in track.roles:
        disposition |= Disposition[role]
    stream.disposition = disposition


def add_sound(output: Any, tone: Tone) -> Any:
    encoder = ENCODERS.get(tone.codec, tone.codec)
    stream = output.add_stream(
        encoder,
        rate=tone.sample_rate,
        bit_rate=tone.bit_rate,
        bit_rate_tolerance=WIDEST_BIT_RATE_TOLERANCE,
        options={**FAST.get(encoder, {}), **tone.options},
    )
    stream.codec_context.layout = tone.layout
    _describe(stream, tone)
    return stream


def add_subtitles(output: Any, track: Subtitles) -> Any:
    stream = output.add_stream(track.codec)
    stream.codec_context.subtitle_header = _ASS_HEADER
    stream.codec_context.time_base = Fraction(1, 1000)
    _describe(stream, track)
    return stream


_ASS_HEADER = (
    b"[Script Info]\nScriptType: v4.00+\n\n[V4+ Styles]\n"
    b"Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, "
    b"Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, "
    b"MarginV, Encoding\n"
    b"Style: Default,Arial,16,&Hffffff,&Hffffff,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,0\n\n"
    b"[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
)


def add_cover(output: Any) -> Packet[Any] | None:
    """Adds the stream and gives the one packet that it holds; Matroska takes the picture as an attachment instead."""
    context: Any = av.CodecContext.create("mjpeg", "w")
    context.width, context.height, context.pix_fmt, context.time_base = 64, 64, "yuvj420p", Fraction(1, 25)
    frame = next(moving_pictures((64, 64), 25, 1, "yuvj420p"))
    frame.pts, frame.time_base = 0, Fraction(1, 25)
    packet: Packet[Any] = [*context.encode(frame), *context.encode(None)][0]
    if output.format.name in ("matroska", "webm"):
        output.add_attachment("cover.jpg", "image/jpeg", bytes(packet))
        return None
    stream = output.add_mux_stream("mjpeg", rate=25, width=64, height=64)
    stream.disposition = Disposition.attached_pic
    stream.metadata["title"] = "cover"
    packet.stream = stream
    packet.pts = packet.dts = 0
    return packet


def chapter_entries(marks: Sequence[Mark]) -> list[Any]:
    millisecond = Fraction(1, 1000)
    return [
        {
            "id": number,
            "start": round(mark.start * 1000),
            "end": round(mark.end * 1000),
            "time_base": millisecond,
            "metadata": {"title": mark.title},
        }
        for number, mark in enumerate(marks, 1)
    ]


Lane = Iterator[tuple[Fraction, list[Any]]]
"""(time, packets), times rising."""


def mux_in_order(output: Any, lanes: Sequence[Lane]) -> None:
    """Muxes all lanes, earliest packets first."""

    def numbered(lane: Lane, place: int) -> Iterator[tuple[Fraction, int, list[Packet[Any]]]]:
        for time, packets in lane:
            yield time, place, packets

    queues = [numbered(lane, place) for place, lane in enumerate(lanes)]
    for _, _, packets in heapq.merge(*queues, key=lambda item: item[:2]):
        output.mux(packets)


def encode_video(
    stream: Any,
    frames: Iterable[VideoFrame],
    rate: Rate,
    timestamps: Sequence[Fraction] | None,
    start: Fraction,
    end: Fraction | None = None,
) -> Lane:
    """`end`: when the last of `timestamps` stops being shown; all packets then carry durations."""
    time_base = stream.codec_context.time_base
    time = start
    durations: dict[int | None, int] = {}
    if timestamps is not None and end is not None:
        ticks = [round((start + moment) / time_base) for moment in (*timestamps, end)]
        durations = {before: after - before for before, after in pairwise(ticks)}

    def lasting(packets: list[Packet[Any]]) -> list[Packet[Any]]:
        for packet in packets:
            packet.duration = durations.get(packet.pts, packet.duration)
        return packets

    for number, frame in enumerate(frames):
        if timestamps is not None and number >= len(timestamps):
            break
        time = start + (timestamps[number] if timestamps is not None else number / Fraction(rate))
        frame.pts = round(time / time_base)
        frame.time_base = time_base
        # generated pictures are all intra pictures, which encoders would take as an order
        frame.pict_type = PictureType.NONE
        yield time, lasting(stream.encode(frame))
    yield time, lasting(stream.encode(None))


def encode_sound(stream: Any, tone: Tone, seconds: Fraction, start: Fraction) -> Lane:
    context = stream.codec_context
    seconds = tone.seconds or seconds
    samples = tone_samples(tone, context.layout.nb_channels, seconds)
    first = round((start + tone.start) * tone.sample_rate)
    size = context.frame_size or AUDIO_CHUNK
    resampler = av.AudioResampler(format=context.format, layout=context.layout, rate=tone.sample_rate)
    time = start
    for at in range(0, samples.shape[1], size):
        # packed: PyAV takes no planar arrays of 8 channels and more
        packed = np.ascontiguousarray(samples[:, at : at + size].T).reshape(1, -1)
        frame = AudioFrame.from_ndarray(packed, format="flt", layout=tone.layout)
        frame.sample_rate = tone.sample_rate
        frame.pts, frame.time_base = first + at, Fraction(1, tone.sample_rate)
        time = Fraction(first + at, tone.sample_rate)
        for converted in resampler.resample(frame):
            yield time, stream.encode(converted)
    yield time, stream.encode(None)


def encode_cues(stream: Any, track: Subtitles, start: Fraction) -> Lane:
    for number, (begin, end, text) in enumerate(track.cues):
        line = f"{number},0,Default,,0,0,0,,{text}".encode()
        begin_ms, end_ms = round((begin + float(start)) * 1000), round((end + float(start)) * 1000)
        cue = SubtitleSet.create(line, 0, end_ms - begin_ms, pts=begin_ms * 1000)
        packet = stream.codec_context.encode_subtitle(cue)
        packet.stream = stream
        packet.time_base = Fraction(1, 1000)
        packet.pts = packet.dts = begin_ms
        packet.duration = end_ms - begin_ms
        yield Fraction(begin_ms, 1000), [packet]
