"""RGB pictures as JPEG and WebP files: in BT.601, as both say; JPEG in full range, WebP in limited range."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

from pipelines.encode import open_encoder

Rgb = np.ndarray[Any, np.dtype[np.uint8]]
"""Lines × columns × 3."""

EXACTLY = int(Interpolation.BILINEAR) | 0x40000
"""With swscale's `accurate_rnd`: without it every colour comes out a little green."""


def rgb_of(frame: VideoFrame) -> Rgb:
    return np.asarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8)


def frame_of(picture: Rgb) -> VideoFrame:
    return VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")


class StillEncoder:
    """Encodes pictures of any sizes, each into a file of its own."""

    def __init__(self, encoder: str, options: dict[str, str]) -> None:
        self._encoder, self._options = encoder, options
        self._format, self._range = _FORMATS[encoder]
        self._reformatter = VideoReformatter()

    def encode(self, picture: Rgb) -> bytes:
        """The file. EncoderRejected when the encoder refuses."""
        frame = self._reformatter.reformat(
            frame_of(picture),
            format=self._format,
            dst_colorspace=Colorspace.ITU601,
            dst_color_range=self._range,
            interpolation=EXACTLY,
        )
        frame.pts = 0
        context: Any = av.CodecContext.create(self._encoder, "w")
        context.width, context.height = frame.width, frame.height
        context.pix_fmt = self._format
        context.time_base = Fraction(1, 1)
        # without a shape of pixels FFmpeg writes no JFIF header
        context.sample_aspect_ratio = Fraction(1)
        context.thread_count = 1
        context.options = dict(self._options)
        open_encoder(context, self._encoder)
        return b"".join(bytes(packet) for packet in (*context.encode(frame), *context.encode(None)))


_FORMATS: dict[str, tuple[str, ColorRange]] = {
    "mjpeg": ("yuvj420p", ColorRange.JPEG),
    "libwebp": ("yuv420p", ColorRange.MPEG),
}
