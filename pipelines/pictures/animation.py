"""Frames put together to animated GIF and WebP files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.filter import Graph
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from pipelines.encode import open_encoder
from pipelines.mux import MUX_ERRORS, output_error
from pipelines.pictures.encoding import EXACTLY, Rgb, frame_of
from pipelines.pictures.layout import AnimationLayout
from pipelines.rendition import PictureRendition

GIF_TICKS, WEBP_TICKS = 100, 1000
"""Of a second."""
FOR_EVER = {"gif": "0", "webp": "0"}
ONCE = {"gif": "-1", "webp": "1"}


def write_animation(path: Path, plan: PictureRendition, frames: Sequence[Rgb], name: str) -> None:
    """Writes the file. `name`: what errors call it."""
    assert plan.animation is not None
    layout = plan.animation
    ticks = GIF_TICKS if plan.form == "gif" else WEBP_TICKS
    made = _paletted(frames, layout) if plan.form == "gif" else _subsampled(frames)
    loop = (FOR_EVER if layout.loop else ONCE)[plan.form]
    # RGB goes to the palette at once: GIF's encoder takes nothing else
    pixel_format = "pal8" if plan.form == "gif" else "yuv420p"
    try:
        with av.open(str(path.absolute()), "w", format=plan.form, container_options={"loop": loop}) as container:
            stream: Any = container.add_stream(plan.encoder, rate=layout.fps, options=dict(plan.options))
            context = stream.codec_context
            context.width, context.height, context.pix_fmt = plan.width, plan.height, pixel_format
            context.time_base = Fraction(1, ticks)
            open_encoder(context, plan.encoder)
            container.start_encoding()
            for number, frame in enumerate(made):
                start, end = (round(count * ticks / layout.fps) for count in (number, number + 1))
                frame.pts, frame.duration, frame.time_base = start, end - start, Fraction(1, ticks)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    except MUX_ERRORS as error:
        raise output_error(error, name) from error


def _subsampled(frames: Sequence[Rgb]) -> Iterator[VideoFrame]:
    reformatter = VideoReformatter()
    for picture in frames:
        yield reformatter.reformat(
            frame_of(picture),
            format="yuv420p",
            dst_colorspace=Colorspace.ITU601,
            dst_color_range=ColorRange.MPEG,
            interpolation=EXACTLY,
        )


def _paletted(frames: Sequence[Rgb], layout: AnimationLayout) -> Iterator[VideoFrame]:
    """With one palette, the best for all frames."""
    palette = _palette(frames, layout)
    graph: Any = Graph()
    graph.threads = min(2, os.cpu_count() or 1)
    source = graph.add("buffer", **_source(frames[0].shape[1], frames[0].shape[0], "rgb24"))
    colours = graph.add("buffer", **_source(palette.width, palette.height, palette.format.name))
    use = graph.add("paletteuse", dither=layout.dither, diff_mode="rectangle")
    sink = graph.add("buffersink")
    source.link_to(use, 0, 0)
    colours.link_to(use, 0, 1)
    use.link_to(sink)
    graph.configure()
    colours.push(palette)
    colours.push(None)
    for number, picture in enumerate(frames):
        source.push(_timed(picture, number))
        yield from _drained(sink)
    source.push(None)
    yield from _drained(sink)


def _palette(frames: Sequence[Rgb], layout: AnimationLayout) -> VideoFrame:
    graph: Any = Graph()
    source = graph.add("buffer", **_source(frames[0].shape[1], frames[0].shape[0], "rgb24"))
    generate = graph.add("palettegen", max_colors=str(layout.colors), reserve_transparent="0", stats_mode="full")
    sink = graph.add("buffersink")
    source.link_to(generate)
    generate.link_to(sink)
    graph.configure()
    for number, picture in enumerate(frames):
        source.push(_timed(picture, number))
    source.push(None)
    palette: VideoFrame = next(iter(_drained(sink)))
    palette.pts = 0
    return palette


def _source(width: int, height: int, pixel_format: str) -> dict[str, str]:
    return {
        "video_size": f"{width}x{height}",
        "pix_fmt": pixel_format,
        "time_base": f"1/{GIF_TICKS}",
        "pixel_aspect": "1/1",
    }


def _timed(picture: Rgb, number: int) -> VideoFrame:
    frame = frame_of(picture)
    frame.pts, frame.time_base = number, Fraction(1, GIF_TICKS)
    return frame


def _drained(sink: Any) -> Iterator[VideoFrame]:
    while True:
        try:
            yield sink.pull()
        except (BlockingIOError, av.error.EOFError):
            return
