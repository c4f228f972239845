"""The GPU of a stream: decoders for one connection after the other, filters, encoders, and whether it still answers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import av
from av.video.frame import VideoFrame

from pipelines.graph import VideoGraph
from pipelines.hardware.decoding import check_decoded
from pipelines.hardware.errors import Work, is_said
from pipelines.hardware.gpu import Gpu, decode_work, own_decoder
from pipelines.hardware.graph import HardwareGraph
from pipelines.live.homes import TICK
from pipelines.rendition import DecodePlan, VideoRendition
from pipelines.source import VideoInfo

MOST_DAMAGED = 250
"""Damaged packets in a row after which it is not the network any more: what decodes nothing is to be replaced."""


class GpuWatch:
    """Tells the GPU's failures from what was damaged on its way."""

    def __init__(self, work: Work, decode: DecodePlan) -> None:
        self._work, self._decode = work, decode
        self._began = False
        self._damaged = 0

    def failed(self, error: av.error.FFmpegError) -> None:
        """Returns where it is the packet's fault; else raises a DeviceError."""
        self._damaged += 1
        damage = isinstance(error, av.error.InvalidDataError)
        if damage and self._damaged < MOST_DAMAGED and not is_said(self._work.words.last()):
            return
        raise self._work.failed(error, began=self._began) from error

    def saw(self, frames: Sequence[VideoFrame]) -> None:
        """DeviceUnsupported where the decoder has quietly become software."""
        if not frames:
            return
        if not self._began:
            check_decoded(self._work, self._decode, frames[0])
            self._began = True
        self._damaged = 0


def gpu_decoder(gpu: Gpu, decode: DecodePlan, info: VideoInfo, stream: Any) -> tuple[Any, GpuWatch]:
    """A decoder of one connection's pictures. A DeviceError where there can't be one."""
    work = decode_work(gpu, info)
    try:
        context = own_decoder(gpu, decode, stream)
    except av.error.FFmpegError as error:
        raise work.failed(error, began=False) from error
    return context, GpuWatch(work, decode)


def lane_graph(
    rendition: VideoRendition, gpu: Gpu | None, decode: DecodePlan | None, info: VideoInfo | None
) -> VideoGraph:
    """Filters of one rendition, on the GPU where some part of its way is there."""
    aspect = Fraction(1) if info is None else info.sample_aspect_ratio
    frames = "software" if decode is None else decode.frames
    if gpu is None or info is None or "hardware" not in (frames, rendition.filter_placement, rendition.placement):
        return VideoGraph(rendition, TICK, aspect)
    return HardwareGraph(rendition, TICK, aspect, gpu, decode_work(gpu, info, "filter"))
