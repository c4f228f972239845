"""Known pictures and sounds, as frames and samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import av
import numpy as np
from av.filter import Graph
from av.video.frame import VideoFrame

Size = tuple[int, int]
Rate = int | Fraction


@dataclass(frozen=True)
class Tone:
    """An audio track. `frequencies` are Hz, one per channel; 0 is silence. `amplitude` is 0-1."""

    codec: str = "aac"
    layout: str = "stereo"
    sample_rate: int = 48_000
    frequencies: tuple[float, ...] | None = None
    amplitude: float = 0.3
    clicks: tuple[Fraction, ...] | None = None
    """Seconds at which bursts of 10 ms start, in place of the steady tone."""
    seconds: Fraction | None = None
    """As long as the video when not given."""
    start: Fraction = Fraction(0)
    language: str | None = None
    title: str | None = None
    default: bool = False
    forced: bool = False
    roles: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    bit_rate: int = 0


def moving_pictures(
    size: Size,
    rate: Rate,
    seconds: float | Fraction,
    pixel_format: str = "yuv420p",
    *,
    interlaced: Literal["top", "bottom"] | None = None,
) -> Iterator[VideoFrame]:
    """Frames of the moving test picture; interlaced: woven from twice as many, flagged with their field order."""
    source_rate = Fraction(rate) * (2 if interlaced else 1)
    duration = float(Fraction(seconds))
    steps: list[tuple[str, str]] = [
        ("testsrc2", f"size={size[0]}x{size[1]}:rate={source_rate}:duration={duration}"),
    ]
    if interlaced:
        first, second = (0, 3) if interlaced == "top" else (1, 2)
        steps += [
            ("format", "yuv444p"),
            ("separatefields", ""),
            ("select", f"eq(mod(n,4),{first})+eq(mod(n,4),{second})"),
            ("weave", f"first_field={interlaced}"),
            ("setfield", {"top": "tff", "bottom": "bff"}[interlaced]),
        ]
    steps.append(("format", pixel_format))
    graph = Graph()
    graph.link_nodes(*(graph.add(name, args) for name, args in steps), graph.add("buffersink"))
    graph.configure()
    while True:
        try:
            yield graph.vpull()
        except (av.error.EOFError, av.error.BlockingIOError):
            return


def plain_picture(size: Size, luma: int, pixel_format: str = "yuv420p") -> VideoFrame:
    """A grey picture of one luma value (8 bit)."""
    frame = VideoFrame(size[0], size[1], "yuv420p")
    for plane, value in zip(frame.planes, (luma, 128, 128), strict=True):
        plane.update(bytes([value]) * plane.buffer_size)
    return frame if pixel_format == "yuv420p" else frame.reformat(format=pixel_format)


def tone_samples(tone: Tone, channels: int, seconds: Fraction) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Samples of a tone, channels × samples, full scale 1."""
    count = int(seconds * tone.sample_rate)
    at = np.arange(count) / tone.sample_rate
    frequencies = tone.frequencies or default_frequencies(channels)
    samples = np.stack([np.sin(2 * np.pi * frequency * at) for frequency in frequencies]) * tone.amplitude
    if tone.clicks is not None:
        gate = np.zeros(count)
        for click in tone.clicks:
            first = round(click * tone.sample_rate)
            gate[first : first + tone.sample_rate // 100] = 1
        # a cosine starts at full level, so that the onset is one exact sample
        samples = np.tile(np.cos(2 * np.pi * 1000 * at) * tone.amplitude * gate, (channels, 1))
    return samples.astype(np.float32)


def default_frequencies(channels: int) -> tuple[float, ...]:
    """A tone of its own for each channel: 300, 500, 700 … Hz (a low one where the layout has an LFE at place 4)."""
    tones = [300.0 + 200 * number for number in range(channels)]
    if channels >= 6:
        tones[3] = 60.0
    return tuple(tones)
