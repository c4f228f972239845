"""Filter graphs: planned filters as FFmpeg filters, rebuilt when the source changes its size or format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
from av.audio.frame import AudioFrame
from av.filter import Graph
from av.filter.context import FilterContext
from av.video.frame import VideoFrame

from pipelines.facts.pictures import picture_of
from pipelines.filters import (
    Crop,
    Deinterlace,
    Denoise,
    Filter,
    Flatten,
    InverseTelecine,
    Pad,
    Retag,
    Scale,
    Sharpen,
    ToneMap,
    Transpose,
)
from pipelines.planning.conform import conform
from pipelines.rendition import PictureRendition, VideoRendition
from pipelines.steps import Fed, Step
from pipelines.video.colours import is_rgb
from pipelines.video.overlays import SCENE_STEPS, Scene
from pipelines.video.telecine import Beat, inverse_telecine
from pipelines.video.tone_map import FORMAT, lookup_picture
from pipelines.video.touches import DENOISE, SHARPEN

SWS_MATRIX = {
    "bt709": "bt709", "bt470bg": "bt470bg", "smpte170m": "smpte170m", "smpte240m": "smpte240m", "fcc": "fcc",
    "bt2020nc": "bt2020", "bt2020c": "bt2020",
}  # fmt: skip
"""swscale's names for matrices; others are left to it."""


def _deinterlace(step: Deinterlace) -> list[Step]:
    parity = {"top": "tff", "bottom": "bff", "auto": "auto"}[step.field_first]
    return [("bwdif", {"mode": "send_field" if step.bob else "send_frame", "parity": parity, "deint": "all"})]


def _flatten(step: Flatten) -> list[Step]:
    planar = "gbrap" if step.bit_depth <= 8 else "gbrap16le"
    options = {"out_range": "pc"}
    if step.in_matrix in SWS_MATRIX:
        options["in_color_matrix"] = SWS_MATRIX[step.in_matrix]
    if step.in_range is not None:
        options["in_range"] = step.in_range
    return [
        ("scale", options),
        ("format", {"pix_fmts": planar}),
        # the conversion that follows leaves the alpha behind (one to gbrp16 would lose lines between its threads)
        ("premultiply", {"inplace": "1"}),
    ]


def _scale(step: Scale) -> list[Step]:
    options = {"w": str(step.width), "h": str(step.height), "flags": "bicubic"}
    for key, matrix in (("in_color_matrix", step.in_matrix), ("out_color_matrix", step.out_matrix)):
        if matrix in SWS_MATRIX:
            options[key] = SWS_MATRIX[matrix]
    ranges = {"in_range": step.in_range, "out_range": step.out_range}
    options.update({key: value for key, value in ranges.items() if value is not None})
    return [("scale", options), ("format", {"pix_fmts": step.pixel_format})]


def _tone_map(step: ToneMap) -> list[Step | Fed]:
    """Scaled first, as R'G'B' of 12 bits; the table then has no fewer steps than the source."""
    options = {"w": str(step.width), "h": str(step.height), "in_range": step.in_range, "out_range": "pc"}
    if step.in_matrix in SWS_MATRIX:
        options["in_color_matrix"] = SWS_MATRIX[step.in_matrix]
    coded = {"out_range": "pc"} if is_rgb(step.pixel_format) else {"out_color_matrix": "bt709", "out_range": "tv"}
    return [
        ("scale", {**options, "flags": "bicubic"}),
        ("format", {"pix_fmts": FORMAT}),
        Fed("haldclut", {"interp": "tetrahedral"}, lookup_picture(step)),
        ("setparams", {"color_primaries": "bt709", "color_trc": "bt709"}),
        ("scale", {**coded, "flags": "bicubic"}),
        ("format", {"pix_fmts": step.pixel_format}),
    ]


def _pad(step: Pad) -> list[Step]:
    middle = {"x": "(ow-iw)/2", "y": "(oh-ih)/2"}
    return [("pad", {"w": str(step.width), "h": str(step.height), **middle, "color": step.colour})]


def _retag(step: Retag) -> list[Step]:
    options: dict[str, str] = {}
    if step.range is not None:
        options["range"] = step.range
    if step.progressive:
        options["field_mode"] = "prog"
    return [("setparams", options)]


def _transpose(step: Transpose) -> list[Step]:
    turn: dict[int, list[Step]] = {
        0: [],
        90: [("transpose", {"dir": "clock"})],
        180: [("hflip", {}), ("vflip", {})],
        270: [("transpose", {"dir": "cclock"})],
    }
    return ([("hflip", {})] if step.mirror else []) + turn[step.degrees]


VIDEO_STEPS: dict[type[Any], Callable[[Any], Sequence[Step | Fed]]] = {
    Deinterlace: _deinterlace,
    InverseTelecine: inverse_telecine,
    Flatten: _flatten,
    Crop: lambda step: [("crop", {"w": str(step.width), "h": str(step.height), "x": str(step.x), "y": str(step.y)})],
    Scale: _scale,
    ToneMap: _tone_map,
    Transpose: _transpose,
    Denoise: lambda step: DENOISE[step.level, step.deep],
    Sharpen: lambda step: SHARPEN[step.level, step.deep],
    Pad: _pad,
    Retag: _retag,
}


def is_about_fields(step: Filter) -> bool:
    """Whether a step follows from how the track is scanned, and not from a picture's size or format."""
    return isinstance(step, Deinterlace | InverseTelecine) or (isinstance(step, Retag) and step.progressive)


LONG_AGO = -(1 << 40)
"""In milliseconds."""


def _still(picture: VideoFrame) -> dict[str, str]:
    return {
        "video_size": f"{picture.width}x{picture.height}",
        "pix_fmt": picture.format.name,
        "time_base": str(picture.time_base),
        "pixel_aspect": "1/1",
        "colorspace": str(int(picture.colorspace)),
        "range": str(int(picture.color_range)),
    }


class Chain:
    """One linear FFmpeg graph: a source, the steps, a sink."""

    def __init__(
        self,
        source: Step,
        steps: Sequence[Step | Fed],
        sink: str,
        *,
        surface: VideoFrame | None = None,
        device: Any = None,
    ) -> None:
        """`surface`: one of the frames to come, where they lie on a GPU. `device`: the GPU that is uploaded to."""
        self.graph = Graph()
        self.graph.threads = 0
        graph: Any = self.graph
        on_gpu = {} if surface is None else {"hw_frames": surface}
        self._source = graph.add(source[0], **on_gpu, **source[1])
        node: FilterContext = self._source
        fed: list[tuple[FilterContext, VideoFrame]] = []
        for step in steps:
            name, options = (step.name, step.options) if isinstance(step, Fed) else step
            uploads = {"hw_device": device} if name == "hwupload" else {}
            following = graph.add(name, **uploads, **options)
            node.link_to(following)
            if isinstance(step, Fed):
                second = graph.add("buffer", **_still(step.picture))
                second.link_to(following, 0, 1)
                fed.append((second, step.picture))
            node = following
        self._sink = self.graph.add(sink)
        node.link_to(self._sink)
        self.graph.configure()
        for second, picture in fed:
            # before anything that may come: frames without a second picture would pass unchanged
            picture.pts = LONG_AGO
            second.push(picture)
            second.push(None)

    def push(self, frame: VideoFrame | AudioFrame | None) -> Iterator[Any]:
        self._source.push(frame)
        while True:
            try:
                yield self._sink.pull()
            except (BlockingIOError, av.error.EOFError):
                return

    def pull(self) -> Any:
        """A frame of a source that needs no input."""
        return self._sink.pull()


@dataclass(frozen=True)
class Origin:
    """What frames of one of several sources carry as their `opaque`."""

    number: int
    fields: tuple[Filter, ...]
    aspect: Fraction


class VideoGraph:
    """Filters decoded frames of one track into frames of one rendition: always its size and pixel format.

    `time_base` is that of the frames that come out. The plan's filters are for the pictures that the probe saw; a
    picture that differs from the first is fitted into the rendition by the same rule.
    """

    def __init__(
        self,
        rendition: VideoRendition | PictureRendition,
        time_base: Fraction,
        sample_aspect_ratio: Fraction,
        scene: Scene = Scene(),  # noqa: B008 - frozen
    ) -> None:
        self._rendition, self._scene = rendition, scene
        self._source_time_base = time_base
        self._sar = sample_aspect_ratio
        self._fields = tuple(step for step in rendition.filters if is_about_fields(step))
        self._touches = tuple(step for step in rendition.filters if isinstance(step, Denoise | Sharpen))
        self._finish = tuple(step for step in rendition.filters if type(step) in SCENE_STEPS)
        bob = any(isinstance(step, Deinterlace) and step.bob for step in self._fields)
        self.time_base = time_base / 2 if bob else time_base
        telecined = next((step for step in self._fields if isinstance(step, InverseTelecine)), None)
        self._rate = {} if telecined is None else {"frame_rate": str(telecined.rate)}
        self._beat = None if telecined is None else Beat(telecined.rate)
        self._planned: tuple[Any, ...] | None = None
        self._key: tuple[Any, ...] | None = None
        self._chain: Chain | None = None

    def push(self, frame: VideoFrame) -> Iterator[VideoFrame]:
        key = (
            frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range, frame.color_trc,
            frame.opaque,
        )  # fmt: skip
        lost = self._beat is not None and self._beat.lost((frame.pts or 0) * self._source_time_base)
        if key != self._key or lost:
            yield from self.flush()
            self._key = key
            self._chain = self._build(frame, key)
        assert self._chain is not None
        yield from self._chain.push(frame)

    def flush(self) -> Iterator[VideoFrame]:
        """What is still inside; the graph is built anew for the next frame."""
        chain, self._chain, self._key = self._chain, None, None
        if chain is not None:
            yield from chain.push(None)

    def _build(self, frame: VideoFrame, key: tuple[Any, ...]) -> Chain:
        # a chain without steps still gives each rendition a frame of its own, whose times it may set
        steps = self._steps(frame, self._filters(frame, key))
        return Chain(("buffer", self._source(frame)), steps or [("null", {})], "buffersink")

    def _filters(self, frame: VideoFrame, key: tuple[Any, ...]) -> tuple[Filter, ...]:
        """The plan's for pictures like the first, else those that fit the picture into the rendition."""
        if self._planned is None:
            self._planned = key
        if key == self._planned:
            return self._rendition.filters
        picture = picture_of(frame, self._aspect(frame))
        framing = self._rendition.framing
        crops = () if framing is None else framing.steps(picture.width, picture.height)
        picture = picture if framing is None else framing.of_picture(picture)
        fields = frame.opaque.fields if isinstance(frame.opaque, Origin) else self._fields
        return (*fields, *crops, *conform(picture, self._rendition.canvas, self._touches), *self._finish)

    def _aspect(self, frame: VideoFrame) -> Fraction:
        if isinstance(frame.opaque, Origin):
            return frame.opaque.aspect
        return frame.opaque if isinstance(frame.opaque, Fraction) else self._sar

    def _steps(self, frame: VideoFrame, filters: tuple[Filter, ...]) -> Sequence[Step | Fed]:
        wanted = [planned for planned in filters if not is_idle(planned, frame, frame.format.name)]
        return software_steps(wanted, self._scene)

    def _source(self, frame: VideoFrame) -> dict[str, str]:
        return {
            "video_size": f"{frame.width}x{frame.height}",
            "pix_fmt": frame.format.name,
            "time_base": str(self._source_time_base),
            "pixel_aspect": str(self._aspect(frame)),
            "colorspace": str(int(frame.colorspace)),
            "range": str(int(frame.color_range)),
            **self._rate,
        }


def software_steps(filters: Sequence[Filter], scene: Scene) -> list[Step | Fed]:
    steps: list[Step | Fed] = []
    for planned in filters:
        staged = SCENE_STEPS.get(type(planned))
        steps += VIDEO_STEPS[type(planned)](planned) if staged is None else staged(planned, scene)
    return steps


def is_idle(step: Filter, frame: VideoFrame, pixel_format: str) -> bool:
    """A scale that changes nothing would still copy every frame. `pixel_format`: the frame's, or its surface's."""
    return (
        isinstance(step, Scale)
        and (step.width, step.height, step.pixel_format) == (frame.width, frame.height, pixel_format)
        and step.in_range == step.out_range
        and step.in_matrix == step.out_matrix
    )
