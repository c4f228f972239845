"""Small clips and pictures that GPUs are tried with."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import av
from av.video.frame import VideoFrame

from pipelines.scheduling import ordinary_threads

WIDTH, HEIGHT = 320, 256
"""Encoders refuse pictures below sizes of their own: smaller ones would tell less."""
FRAMES = 6
RATE = 25

_FASTEST: dict[str, dict[str, str]] = {
    "libx264": {"preset": "ultrafast"},
    "libx265": {"preset": "ultrafast", "x265-params": "log-level=none"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8", "b": "500000"},
    "libvpx": {"deadline": "realtime", "cpu-used": "8", "b": "500000"},
    "libsvtav1": {"preset": "12"},
}
_HDR10 = {
    "x265-params": "hdr10=1:colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:log-level=none:"
    "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50):max-cll=1000,400"
}


def pictures(
    pixel_format: str, *, size: tuple[int, int] = (WIDTH, HEIGHT), frames: int = FRAMES
) -> Iterator[VideoFrame]:
    """Stripes that move: there is something to code in each picture."""
    width, height = size
    for number in range(frames):
        frame = VideoFrame(width, height, "yuv420p")
        for plane in frame.planes:
            stripes = bytes((16 + (8 * (position + number)) % 200) for position in range(256))
            plane.update((stripes * (plane.buffer_size // 256 + 1))[: plane.buffer_size])
        made = frame.reformat(format=pixel_format)
        made.pts, made.time_base = number, Fraction(1, RATE)
        yield made


@ordinary_threads()
def clip(
    encoder: str,
    pixel_format: str,
    *,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    frames: int = FRAMES,
    options: dict[str, str] | None = None,
    of: Iterable[VideoFrame] | None = None,
) -> io.BytesIO:
    """A Matroska file of a software encoder; `of`: other pictures than stripes."""
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as container:
        stream: Any = container.add_stream(encoder, rate=RATE, options=_FASTEST.get(encoder, {}) | (options or {}))
        stream.width, stream.height, stream.pix_fmt = *size, pixel_format
        for number, frame in enumerate((*(of or pictures(pixel_format, size=size, frames=frames)), None)):
            if frame is not None:
                frame.pts, frame.time_base = number, Fraction(1, RATE)
            container.mux(stream.encode(frame))
    file.seek(0)
    return file


def hdr_pictures() -> list[VideoFrame]:
    """HDR10 with its metadata, which pictures only get from a stream."""
    with av.open(clip("libx265", "yuv420p10le", options=_HDR10), "r") as container:
        return [frame.reformat(format="p010le") for frame in container.decode(video=0)]
