"""Filter graphs that touch a GPU: pictures are moved where decoder, filters and encoder lie apart, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import av
from av.video.frame import VideoFrame

from pipelines.facts.pictures import picture_of
from pipelines.filters import Deinterlace, Filter
from pipelines.graph import Chain, VideoGraph, is_idle, software_steps
from pipelines.hardware.encoders import API_OF
from pipelines.hardware.encoding import encode_work
from pipelines.hardware.errors import Work
from pipelines.hardware.filters import (
    SURFACE_OF,
    TO_QSV,
    download,
    hardware_names,
    hardware_steps,
    said,
    surface_for,
    upload,
)
from pipelines.hardware.gpu import Gpu
from pipelines.planning.conform import picture_range
from pipelines.rendition import PictureRendition, VideoRendition
from pipelines.steps import Fed, Step
from pipelines.video.colours import is_gray
from pipelines.video.overlays import Scene

_HAND_OVER = re.compile(r"MFX|hwmap|derived? device", re.IGNORECASE)
"""In FFmpeg's words of a QSV device that can't be made from the VAAPI one."""

MOST_NEIGHBOURS = 8
"""What FFmpeg lets a driver ask for when it deinterlaces one picture."""


def is_on_gpu(frame: VideoFrame) -> bool:
    return frame.format.name == "vaapi"


class HardwareGraph(VideoGraph):
    """A VideoGraph some part of which is on a GPU. Its failures are DeviceErrors of the stage `filter`.

    Intel's deinterlacers look at neighbours of a picture, and FFmpeg drops the pictures that lack them: the first one
    is given again until something comes out, and the last one until it has come out.
    """

    def __init__(
        self,
        rendition: VideoRendition | PictureRendition,
        time_base: Fraction,
        sample_aspect_ratio: Fraction,
        gpu: Gpu,
        work: Work,
        scene: Scene = Scene(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(rendition, time_base, sample_aspect_ratio, scene)
        self._gpu, self._work = gpu, work
        self._began = False
        self._looks_around = rendition.filter_placement == "hardware" and any(
            isinstance(step, Deinterlace) for step in rendition.filters
        )
        self._by_field = self.time_base != time_base
        self.uploads = False
        """What comes out lies where this graph put it; else where the decoder did."""
        self._newest: VideoFrame | None = None
        self._reached: int | None = None

    def push(self, frame: VideoFrame) -> Iterator[VideoFrame]:
        try:
            fed = self._fed(frame) if self._looks_around else super().push(frame)
            for filtered in fed:
                self._began = True
                yield filtered
        except av.error.FFmpegError as error:
            raise self._at_work().failed(error, began=self._began) from error

    def flush(self) -> Iterator[VideoFrame]:
        try:
            yield from self._last_ones()
            yield from super().flush()
        except av.error.FFmpegError as error:
            raise self._at_work().failed(error, began=self._began) from error

    def _at_work(self) -> Work:
        """What has failed: the hand-over to QSV stands in the graph, and is the encoder's affair."""
        rendition = self._rendition
        hands_over = isinstance(rendition, VideoRendition) and API_OF.get(rendition.encoder) == "qsv"
        if hands_over and any(_HAND_OVER.search(line) for line in self._work.words.last()):
            assert isinstance(rendition, VideoRendition)
            return encode_work(self._gpu, rendition)
        return self._work

    def _fed(self, frame: VideoFrame) -> Iterator[VideoFrame]:
        is_first = self._chain is None
        self._newest = frame
        filtered = list(super().push(frame))
        chain = self._chain
        assert chain is not None
        for _ in range(MOST_NEIGHBOURS if is_first else 0):
            if filtered:
                break
            filtered = list(chain.push(frame))
        yield from self._risen(filtered)

    def _last_ones(self) -> Iterator[VideoFrame]:
        chain, newest = self._chain, self._newest
        self._newest = None
        if chain is None or newest is None or self._by_field:
            return  # by field FFmpeg hands out the last one itself
        for _ in range(MOST_NEIGHBOURS):
            if self._reached is not None and newest.pts is not None and self._reached >= newest.pts:
                return
            yield from self._risen(chain.push(newest))

    def _risen(self, filtered: Iterator[VideoFrame] | Sequence[VideoFrame]) -> Iterator[VideoFrame]:
        """Each picture once, though it was given more than once."""
        for frame in filtered:
            if self._reached is None or frame.pts is None or frame.pts > self._reached:
                self._reached = frame.pts
                yield frame

    def _build(self, frame: VideoFrame, key: tuple[Any, ...]) -> Chain:
        steps = self._steps(frame, self._filters(frame, key))
        on_gpu = is_on_gpu(frame)
        self.uploads = any(not isinstance(step, Fed) and step[0] == "hwupload" for step in steps)
        return Chain(
            ("buffer", self._source(frame)),
            steps or [("null", {})],
            "buffersink",
            surface=frame if on_gpu else None,
            device=self._gpu.context,
        )

    def _steps(self, frame: VideoFrame, filters: tuple[Filter, ...]) -> list[Step | Fed]:
        rendition, on_gpu = self._rendition, is_on_gpu(frame)
        held = frame.sw_format.name if on_gpu and frame.sw_format is not None else frame.format.name
        wanted = [step for step in filters if not is_idle(step, frame, held)]
        encodes = rendition.placement == "hardware"
        steps: list[Step | Fed] = []
        # a picture that changes, or a slate, may need what the GPU can't do
        if rendition.filter_placement == "hardware" and all(hardware_names(step) is not None for step in wanted):
            if not on_gpu:
                picture = picture_of(frame, self._aspect(frame))
                # swscale takes grey for full range whatever it is told
                levels = "pc" if is_gray(held) else picture_range(picture)
                steps += upload(surface_for(held, picture.bit_depth), levels)
            steps += hardware_steps(wanted)
            if not encodes:
                steps += download(SURFACE_OF[rendition.pixel_format])
                # filters on the GPU change a frame's tags, but not those that FFmpeg's links were agreed on
                steps += said(rendition.colour.matrix, rendition.colour.range)
                steps.append(("format", {"pix_fmts": rendition.pixel_format}))
        else:
            if on_gpu and (wanted or not encodes):
                steps += download(held)
                on_gpu = False
            steps += software_steps(wanted, self._scene)
            if encodes and not on_gpu and self._gpu.graphs:
                steps += upload(rendition.pixel_format, None)
        if encodes and self._gpu.graphs and API_OF[rendition.encoder] == "qsv":
            steps += TO_QSV
        return steps
