"""Where a track's picture lies between black bars, measured on samples from all over it.

Bars are black in every sample. A dark scene is no bar: a side is cut only where some samples show the picture itself
bright along that edge, and up to the outermost place where any sample shows anything, subtitles in a bar among it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import av
from av.container import InputContainer
from av.video.reformatter import VideoReformatter

from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, open_input
from pipelines.source import Area, VideoInfo

SAMPLES = 20
FEWEST_SAMPLES = 4
MAX_PIXELS = 600_000_000
"""Pixels that are decoded for it."""
MAX_PACKETS = 400
"""Packets that are read for one sample: of an open group of pictures the first ones may give none."""
BLACK = 14
"""Levels of 255, 0 being black. What encoders leave in bars is below, but for a few lines beside the picture (measured
six lines away: at most 2 at CRF 18 to 42)."""
FEWEST_LIT = 0.005
"""Share of a line's pixels above black by which the line shows something."""
SOLID = 0.3
"""Share by which a line is taken for the picture's edge, and not for something within it."""
EDGE_LINES = 2
EDGE_SHARE = 0.005
"""Lines, or share of a side, by which such edges may lie inside the first trace: scalers and encoders smear them."""
AGREEING = 0.2
"""Share of the samples that must show an edge as solid, and at least FEWEST_AGREEING."""
FEWEST_AGREEING = 2
SMALLEST_BAR = 0.01
"""Share of a side; what is less is blanking, and left."""


def measure_bars(file: LocalFile, track: VideoInfo, begin: float, end: float | None, limits: Limits) -> Area | None:
    """The area of the coded picture without its bars; None: there are none, or too little is seen to tell.

    `begin` and `end`: seconds of the input's clock between which samples are taken.
    """
    with open_input(file, limits) as container:
        pictures = _pictures(container, track, begin, end)
        seen = [edges_of(picture) for picture in pictures if picture.shape == (track.height, track.width)]
    return area_of([edges for edges in seen if edges is not None], (track.width, track.height))


Edge = tuple[int, int]
"""Lines from a side to the first that shows something, and to the first that is solid."""
Edges = tuple[Edge, Edge, Edge, Edge]
"""Left, top, right, bottom."""


def edges_of(picture: Any) -> Edges | None:
    """Of a picture as an array of levels (rows × columns, black is 0); None: all of it is black."""
    lit = picture > BLACK
    columns, rows = lit.mean(axis=0), lit.mean(axis=1)
    if rows.max() < FEWEST_LIT or columns.max() < FEWEST_LIT:
        return None
    return _edge(columns), _edge(rows), _edge(columns[::-1]), _edge(rows[::-1])


def _edge(shares: Any) -> Edge:
    return _first(shares >= FEWEST_LIT), _first(shares >= SOLID)


def _first(marks: Any) -> int:
    return int(marks.argmax()) if marks.any() else len(marks)


def area_of(edges: Sequence[Edges], size: tuple[int, int]) -> Area | None:
    """What all samples' edges together say; even numbers, within the picture's own edges."""
    if len(edges) < FEWEST_SAMPLES:
        return None
    width, height = size
    needed = max(FEWEST_AGREEING, AGREEING * len(edges))
    bars = []
    for side, length in enumerate((width, height, width, height)):
        outermost = min(each[side][0] for each in edges)
        reach = outermost + max(EDGE_LINES, EDGE_SHARE * length)
        solid = [each[side][1] for each in edges if each[side][1] <= reach]
        is_bar = outermost >= SMALLEST_BAR * length and len(solid) >= needed
        bars.append(min(solid) + min(solid) % 2 if is_bar else 0)
    left, top, right, bottom = bars
    area = Area(x=left, y=top, width=(width - left - right) // 2 * 2, height=(height - top - bottom) // 2 * 2)
    return area if any(bars) and min(area.width, area.height) > 0 else None


def _pictures(container: InputContainer, track: VideoInfo, begin: float, end: float | None) -> Iterator[Any]:
    """Levels of about SAMPLES pictures; of a source whose length is not known, its first ones."""
    stream: Any = container.streams[track.index]
    stream.codec_context.thread_type = "NONE"
    pixels = track.width * track.height
    budget = max(FEWEST_SAMPLES, min(SAMPLES, MAX_PIXELS // pixels))
    steps = max(1, MAX_PIXELS // (pixels * budget))
    reformatter = VideoReformatter()
    length = None if end is None else end - begin
    places: list[float | None] = [None] * budget
    if length is not None and length > 0:
        places = [begin + length * (n + 0.5) / budget for n in range(budget)]
    for place in places:
        frame = _picture(container, stream, place, steps)
        if frame is not None:
            yield reformatter.reformat(frame, format="gray").to_ndarray()


def _picture(container: InputContainer, stream: Any, place: float | None, steps: int) -> Any:
    """The picture at `place`, or one of at most `steps` on the way there from the keyframe before; else the next."""
    newest = None
    try:
        if place is not None:
            container.seek(int(Fraction(place) / stream.time_base), stream=stream, backward=True)
        for number, packet in enumerate(container.demux(stream)):
            for frame in packet.decode():
                newest, steps = frame, steps - 1
                if place is None or steps <= 0 or frame.pts is None or frame.pts * stream.time_base >= place:
                    return newest
            if number >= MAX_PACKETS:
                break
    except av.error.FFmpegError as error:
        if isinstance(error, MemoryError):
            raise
        # such a place shows nothing more; the run will tell what is wrong there
    return newest
