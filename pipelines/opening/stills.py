"""Images beside an input: PNG, JPEG or WebP, decoded once, within limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.frame import VideoFrame

from pipelines.errors import BadInput, LimitExceeded, OutOfMemory, cause
from pipelines.facts.pictures import orientation
from pipelines.filters import Overlay
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.rendition import Plan

MAX_BYTES = 32 << 20
MAX_PIXELS = 32_000_000
FORMATS: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "png_pipe"),
    (b"\xff\xd8\xff", 0, "jpeg_pipe"),
    (b"WEBP", 8, "webp_pipe"),
)
"""Signature, where it is, and FFmpeg's demuxer: an image is known by its bytes, never by its name."""


def read_images(plan: Plan, file: LocalFile, limits: Limits) -> dict[str, VideoFrame]:
    """All that the plan lays over pictures, each once, by what it is known by."""
    keys = {step.image: None for step in plan.picture_steps() if isinstance(step, Overlay)}
    for key in keys:
        if key not in file.beside:
            raise BadInput(f"the image {key} did not come with the input", stage="filter", image=key)
    return {key: read_image(file.beside[key], key, limits) for key in keys}


def read_image(path: Path, key: str, limits: Limits) -> VideoFrame:
    """The image with its alpha (8-bit RGBA). BadInput for what is none, LimitExceeded for what is too large."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise LimitExceeded("limit_size", f"the image {key} has {size} bytes", stage="filter", limit=MAX_BYTES)
    with path.open("rb") as file:
        head = file.read(16)
        form = next((name for mark, at, name in FORMATS if head[at:].startswith(mark)), None)
        if form is None:
            raise BadInput(f"the image {key} is no PNG, JPEG or WebP", stage="filter", image=key)
        file.seek(0)
        try:
            with av.open(file, format=form, mode="r", options={"max_pixels": str(MAX_PIXELS)}) as container:
                stream = container.streams.video[0]
                _check_pixels(stream.width, stream.height, key, limits)
                frame = next(iter(container.decode(stream)))
        except (av.error.FFmpegError, ValueError, IndexError, StopIteration) as error:
            if isinstance(error, MemoryError):
                raise OutOfMemory(f"out of memory: the image {key}", stage="filter") from error
            raise BadInput(f"the image {key} can't be decoded: {cause(error)}", stage="filter", image=key) from error
    _check_pixels(frame.width, frame.height, key, limits)
    return _upright(frame)


def _upright(frame: VideoFrame) -> VideoFrame:
    """As viewers show it: mirrored, then turned, as its Exif block says."""
    degrees, mirrored = orientation(frame)
    picture = frame.reformat(format="rgba")
    if not degrees and not mirrored:
        return picture
    pixels: np.ndarray[Any, np.dtype[np.uint8]] = np.asarray(picture.to_ndarray(), np.uint8)
    pixels = np.rot90(pixels[:, ::-1] if mirrored else pixels, -degrees // 90)
    upright = VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgba")
    upright.colorspace, upright.color_range = picture.colorspace, picture.color_range
    upright.time_base = picture.time_base
    return upright


def _check_pixels(width: int, height: int, key: str, limits: Limits) -> None:
    limit = min(MAX_PIXELS, limits.max_pixels)
    if width * height > limit:
        message = f"the image {key} has {width}×{height} pixels"
        raise LimitExceeded("limit_pixels", message, stage="filter", limit=limit)
