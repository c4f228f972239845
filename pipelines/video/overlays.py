"""Filters that need more than their plan: images laid over pictures, and what begins and ends in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

from av.filter import Graph
from av.video.frame import VideoFrame

from pipelines.captions.drawing import Caption, style_of
from pipelines.filters import BurnIn, Fade, Overlay
from pipelines.steps import Fed, Step
from pipelines.video.colours import MATRICES, RANGES

EARLY = Fraction(1, 2000)
"""Seconds by which a picture may come early: FFmpeg computes times in floats."""

BLENDED: dict[str, tuple[str, str]] = {
    "yuv420p": ("yuv420", "yuva420p"), "nv12": ("yuv420", "yuva420p"),
    "yuv420p10le": ("yuv420p10", "yuva420p10le"), "p010le": ("yuv420p10", "yuva420p10le"),
    "yuv422p": ("yuv422", "yuva422p"), "yuv422p10le": ("yuv422p10", "yuva422p10le"),
    "yuv444p": ("yuv444", "yuva444p"), "yuv444p10le": ("yuv444p10", "yuva444p10le"),
}  # fmt: skip
"""By the rendition's format: how it is blended, and the image's format with its alpha."""

MATRIX_OPTIONS = {
    "bt709": "bt709", "bt470bg": "bt470bg", "smpte170m": "smpte170m", "smpte240m": "smpte240m", "fcc": "fcc",
    "bt2020nc": "bt2020", "bt2020c": "bt2020",
}  # fmt: skip


@dataclass(frozen=True)
class Scene:
    """`images` by what they are known by; `origin`: the output's start on the source's clock; `pace`: the output's."""

    images: Mapping[str, VideoFrame] = field(default_factory=dict)
    origin: Fraction = Fraction(0)
    pace: Fraction = Fraction(1)
    captions: Mapping[int, Caption] = field(default_factory=dict)
    """By stream."""

    def at(self, seconds: float) -> Fraction:
        """A time of the output on the clock of the source's pictures."""
        return self.origin + Fraction(seconds).limit_denominator(1_000_000) * self.pace


def _overlay(step: Overlay, scene: Scene) -> list[Step | Fed]:
    image = _shaped(scene.images[step.image], step)
    blend, _ = BLENDED[step.pixel_format]
    places = {
        axis: str(round(margin + share * (whole - side - 2 * margin)))
        for axis, share, margin, whole, side in (
            ("x", step.across, step.margin_x, step.width, image.width),
            ("y", step.down, step.margin_y, step.height, image.height),
        )
    }
    options = {**places, "format": blend}
    conditions = []
    if step.start_seconds:
        conditions.append(f"gte(t,{float(scene.at(step.start_seconds) - EARLY):.6f})")
    if step.end_seconds is not None:
        conditions.append(f"lt(t,{float(scene.at(step.end_seconds) - EARLY):.6f})")
    if conditions:
        options["enable"] = "*".join(conditions)
    return [Fed("overlay", options, image), ("format", {"pix_fmts": step.pixel_format})]


def _shaped(image: VideoFrame, step: Overlay) -> VideoFrame:
    """The image at its size, in the colours of the rendition."""
    width = step.image_width or image.width / step.pixel_aspect
    height = Fraction(width) * step.pixel_aspect * image.height / image.width
    shrink = min(Fraction(1), Fraction(step.width) / Fraction(width), Fraction(step.height) / height)
    size = (max(1, round(Fraction(width) * shrink)), max(1, round(height * shrink)))
    options = {"w": str(size[0]), "h": str(size[1]), "flags": "bicubic", "out_range": "tv"}
    if step.matrix in MATRIX_OPTIONS:
        options["out_color_matrix"] = MATRIX_OPTIONS[step.matrix]
    graph: Any = Graph()
    source = {"video_size": f"{image.width}x{image.height}", "pix_fmt": image.format.name}
    steps = [
        ("buffer", {**source, "time_base": "1/1000", "pixel_aspect": "1/1"}),
        ("colorchannelmixer", {"aa": f"{step.opacity:.4f}"}),
        ("scale", options),
        ("format", {"pix_fmts": BLENDED[step.pixel_format][1]}),
        ("buffersink", {}),
    ]
    nodes = [graph.add(name, **told) for name, told in steps]
    for one, following in pairwise(nodes):
        one.link_to(following)
    graph.configure()
    image.pts = 0
    nodes[0].push(image)
    nodes[0].push(None)
    made: VideoFrame = nodes[-1].pull()
    made.time_base = Fraction(1, 1000)
    made.colorspace = MATRICES.get(step.matrix or "", made.colorspace)
    made.color_range = RANGES["tv"]
    return made


def _burn_in(step: BurnIn, scene: Scene) -> list[Step | Fed]:
    """Options go to the filter one by one, so that nothing in a path is read as more than a path."""
    caption = scene.captions[step.stream]
    options = {"filename": str(caption.path), "original_size": f"{step.width}x{step.height}"}
    if style := style_of(step, caption.height):
        options["force_style"] = style
    return [("subtitles", options)]


def _fade(step: Fade, scene: Scene) -> list[Step | Fed]:
    steps: list[Step | Fed] = []
    if step.in_seconds:
        steps.append(_faded("in", scene.at(0), step.in_seconds, scene))
    if step.out_seconds and step.lasts_seconds is not None:
        begin = max(0.0, step.lasts_seconds - step.out_seconds)
        steps.append(_faded("out", scene.at(begin), step.lasts_seconds - begin, scene))
    return steps


def _faded(way: str, begin: Fraction, seconds: float, scene: Scene) -> Step:
    return "fade", {"type": way, "start_time": f"{float(begin):.6f}", "duration": f"{seconds * float(scene.pace):.6f}"}


SCENE_STEPS: dict[type[Any], Callable[[Any, Scene], list[Step | Fed]]] = {
    BurnIn: _burn_in,
    Overlay: _overlay,
    Fade: _fade,
}
"""Filters whose steps depend on where and when a run is."""
