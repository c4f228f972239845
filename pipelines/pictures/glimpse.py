"""One small picture of a file, for a list: a few places are looked at and the best picture of them is taken."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av

from pipelines.devices import software_device
from pipelines.errors import NoFrames
from pipelines.graph import VideoGraph
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, open_input, read_packets
from pipelines.pictures.encoding import StillEncoder, rgb_of
from pipelines.pictures.score import Greys, worth
from pipelines.plan import plan
from pipelines.probe import probe
from pipelines.rendition import PictureRendition
from pipelines.source import SourceInfo, VideoInfo
from pipelines.spec import FileJob, Input, PosterOutput

PLACES = 6
MOST_PACKETS = 100
"""Decoded at one place, on the way there from the keyframe before it."""


def glimpse(file: LocalFile, limits: Limits, *, width: int, height: int) -> bytes:
    """A JPEG that fits the box. UnsupportedSpec, BadInput or NoFrames where there is nothing to see."""
    source = probe(file, limits)
    poster = PosterOutput(name="thumbnail", width=width, height=height, quality=75)
    spec = FileJob(input=Input(path=file.name[-200:] or "input"), outputs=(poster,))
    rendition = plan(spec, source, software_device(1)).outputs[0].pictures
    assert rendition is not None
    tracks = (*source.video, *source.pictures)
    info = next(track for track in tracks if track.index == rendition.stream)
    best: tuple[float, list[Any]] | None = None
    greys = Greys()
    for frames in _looks(file, source, info, limits):
        value = worth(greys.for_worth(frames[0]), greys.for_worth(frames[1]) if len(frames) > 1 else None)
        if best is None or value > best[0]:
            best = (value, frames)
    if best is None:
        raise NoFrames("no picture came of the input", stage="decode")
    return StillEncoder(rendition.encoder, rendition.options).encode(rgb_of(_filtered(best[1], rendition, info)))


def _looks(file: LocalFile, source: SourceInfo, info: VideoInfo, limits: Limits) -> Iterator[list[Any]]:
    """At each place two pictures that follow one another; one where there is no other."""
    seconds = source.duration_seconds if info in source.video else None
    with open_input(file, limits) as container:
        stream: Any = container.streams[info.index]
        if not seconds or seconds < 1:
            yield from _frames_here(container, stream, None)
            return
        start = Fraction(source.start_seconds).limit_denominator(1_000_000)
        for place in range(PLACES):
            at = start + Fraction(seconds).limit_denominator(1_000_000) * (2 * place + 1) / (2 * PLACES)
            try:
                container.seek(int(at * 1_000_000), backward=True)
            except av.error.FFmpegError:
                yield from _frames_here(container, stream, None)
                return  # what can't be sought is looked at where it stands
            yield from _frames_here(container, stream, at)


def _frames_here(container: Any, stream: Any, at: Fraction | None) -> Iterator[list[Any]]:
    """The picture at `at` (or the first ones) behind the one before it; or how far one gets."""
    frames: list[Any] = []
    stream.codec_context.flush_buffers()
    try:
        for number, packet in enumerate(read_packets(container, [stream])):
            frames = [*frames, *packet.decode()][-2:]
            last = frames[-1] if frames else None
            there = last is not None and (at is None or last.pts is None or last.pts * stream.time_base >= at)
            if (there and len(frames) > 1) or number >= MOST_PACKETS:
                break
    except av.error.FFmpegError:
        pass  # damage here; other places may be whole
    if frames:
        yield frames[:2]


def _filtered(frames: list[Any], rendition: PictureRendition, info: VideoInfo) -> Any:
    graph = VideoGraph(rendition, info.time_base, info.sample_aspect_ratio)
    for number, frame in enumerate(frames):
        if frame.pts is None:
            frame.pts = number
    deinterlaces = any(step.kind == "deinterlace" for step in rendition.filters)
    given = frames if deinterlaces else frames[:1]
    return [*(made for frame in given for made in graph.push(frame)), *graph.flush()][0]
