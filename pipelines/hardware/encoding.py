"""Encoders on a GPU: opened by the first surface that they get, since that says which GPU and pool it is of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import av
from av.container import OutputContainer
from av.packet import Packet
from av.video.frame import VideoFrame

from pipelines.encode import VideoEncoder, configure_video_stream, refuse_unused
from pipelines.hardware.encoders import API_OF
from pipelines.hardware.errors import Work
from pipelines.hardware.gpu import Gpu
from pipelines.rendition import VideoRendition


def encode_work(gpu: Gpu, rendition: VideoRendition) -> Work:
    deep = any(mark in rendition.pixel_format for mark in ("10", "210"))
    work = gpu.work("encode", rendition.codec, rendition.options.get("profile"), 10 if deep else 8)
    return replace(work, api=API_OF[rendition.encoder])


def add_hardware_stream(
    container: OutputContainer, rendition: VideoRendition, time_base: Fraction, gpu: Gpu
) -> tuple[Any, bool]:
    """A video stream whose encoder is on the GPU, and whether it is open.

    Where graphs take surfaces they upload too: all renditions then share one context and its pool grows as needed. An
    encoder that uploads for itself, as with a stock PyAV, opens a context of its own with 32 surfaces.
    """
    if gpu.graphs:
        return configure_video_stream(container, rendition, time_base, pixel_format=API_OF[rendition.encoder]), False
    work = encode_work(gpu, rendition)
    try:
        stream = configure_video_stream(
            container,
            rendition,
            time_base,
            pixel_format=rendition.pixel_format,
            hwaccel=gpu.encoding(rendition.encoder),
        )
        stream.codec_context.open(strict=False)
    except av.error.FFmpegError as error:
        raise work.failed(error, began=False) from error
    refuse_unused(stream.codec_context, rendition.encoder)
    return stream, True


class HardwareEncoder(VideoEncoder):
    """A VideoEncoder whose failures are DeviceErrors of the stage `encode`."""

    def __init__(
        self,
        stream: Any,
        rendition: VideoRendition,
        time_base: Fraction,
        work: Work,
        *,
        on_open: Callable[[], None] | None,
    ) -> None:
        """`on_open` is called once the first frame has opened the encoder; None: it is open."""
        super().__init__(stream, rendition, time_base)
        self._name, self._work, self._on_open = rendition.encoder, work, on_open

    def encode(self, frame: VideoFrame, pts: int, duration: int) -> list[Packet[Any]]:
        try:
            packets = super().encode(frame, pts, duration)
        except av.error.FFmpegError as error:
            raise self._work.failed(error, began=self.packets > 0) from error
        if self._on_open is not None:
            refuse_unused(self._stream.codec_context, self._name)
            on_open, self._on_open = self._on_open, None
            on_open()
        return packets

    def flush(self) -> list[Packet[Any]]:
        if self._on_open is not None:
            return []  # without a frame it was never opened
        try:
            return super().flush()
        except av.error.FFmpegError as error:
            raise self._work.failed(error, began=self.packets > 0) from error
