"""Interlaced pictures with known motion: a bar that moves a known way with every field."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Literal

import numpy as np
from av.filter import Graph
from av.video.frame import VideoFrame

from tests.pictures import Array, fill, plane_of

BAR = 24
STEP = 6
"""Pixels that the bar moves from field to field."""
START = 20


def moment(size: tuple[int, int], number: int) -> Array:
    """Luma at one moment: a bright bar on grey that carries a still texture."""
    width, height = size
    picture = np.full((height, width), 60, np.int64) + (np.arange(height)[:, None] // 16 % 2) * 10
    left = START + STEP * number
    picture[:, left : left + BAR] = 200
    return picture


def woven(size: tuple[int, int], count: int, first: Literal["top", "bottom"] | None) -> Iterator[VideoFrame]:
    """Frames whose two fields are two moments; `first` None: both are the same moment."""
    for number in range(count):
        early, late = (2 * number, 2 * number + 1) if first else (2 * number, 2 * number)
        top, bottom = (early, late) if first != "bottom" else (late, early)
        yield _frame(size, number, top, bottom)


def pulled_down(count: int) -> Iterator[VideoFrame]:
    """24 pictures a second in 30 frames of fields: two frames of five are made of two pictures."""
    pattern = [(0, 0), (1, 1), (1, 2), (2, 3), (3, 3)]
    for number in range(count):
        top, bottom = (2 * (4 * (number // 5) + picture) for picture in pattern[number % 5])
        yield _frame((320, 240), number, top, bottom)


def _frame(size: tuple[int, int], number: int, top: int, bottom: int) -> VideoFrame:
    picture = moment(size, top)
    picture[1::2] = moment(size, bottom)[1::2]
    frame = VideoFrame(size[0], size[1], "yuv420p")
    fill(frame, 0, picture)
    for plane in frame.planes[1:]:
        plane.update(b"\x80" * plane.buffer_size)
    frame.pts, frame.time_base = number, Fraction(1, 25)
    return frame


def flagged(frames: Iterator[VideoFrame], mode: Literal["tff", "bff", "prog"], pixel_format: str) -> list[VideoFrame]:
    """The same frames, called interlaced or progressive."""
    graph, source = Graph(), None
    marked: list[VideoFrame] = []
    for frame in frames:
        if source is None:
            source = graph.add_buffer(template=None, width=frame.width, height=frame.height, format=frame.format,
                                      time_base=Fraction(1, 25))  # fmt: skip
            graph.link_nodes(
                source, graph.add("setfield", mode), graph.add("format", pixel_format), graph.add("buffersink")
            )
            graph.configure()
        graph.vpush(frame)
        marked.append(graph.vpull())
    return marked


def bar_positions(frames: tuple[VideoFrame, ...]) -> list[float]:
    """The bar's left edge in each frame, to a fraction of a pixel."""
    positions = []
    for frame in frames:
        luma = plane_of(frame)
        lines = luma[luma.shape[0] // 4 : 3 * luma.shape[0] // 4].mean(axis=0)
        level = (lines - 65) / (200 - 65)
        positions.append(float((np.clip(level, 0, 1) * np.arange(len(lines))).sum() / np.clip(level, 0.0001, 1).sum()))
    return [position - BAR / 2 + 0.5 for position in positions]


def combing(frame: VideoFrame) -> float:
    """How far lines lie off their neighbours, around the bar's edges: about 0 for a whole picture."""
    luma = plane_of(frame).astype(float)
    return float(np.abs(2 * luma[1:-1] - luma[:-2] - luma[2:]).mean())
