"""Still patterns for picture tests: marked corners, colour patches; and RGB as a player would show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from av.video.frame import VideoFrame

from pipelines.devices import software_device
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.plan import plan
from pipelines.probe import probe
from pipelines.rendition import VideoRendition
from pipelines.result import Result
from pipelines.source import Colour, VideoInfo
from pipelines.spec import FileJob
from pipelines.transcode import transcode
from pipelines.video.colours import MATRICES, PRIMARIES, RANGES, TRANSFERS

Array = np.ndarray[Any, np.dtype[Any]]
DEVICE = software_device(1)
FAST: dict[str, Any] = {"speed": "ultrafast", "rate_control": {"mode": "crf", "crf": 10}}

LUMA_WEIGHTS = {"bt709": (0.2126, 0.0722), "bt470bg": (0.299, 0.114), "smpte170m": (0.299, 0.114),
                "bt2020nc": (0.2627, 0.0593)}  # fmt: skip
"""Kr and Kb of ITU-R BT.709, BT.601 and BT.2020."""

PATCHES: tuple[tuple[int, int, int], ...] = (
    (200, 30, 30), (30, 180, 40), (40, 50, 190), (255, 255, 255), (128, 128, 128), (0, 0, 0), (210, 160, 130),
    (20, 180, 180),
)  # fmt: skip
"""8-bit R'G'B': red, green, blue, white, half grey, black, skin, cyan."""


def job(path: Path, *outputs: dict[str, Any], **more: Any) -> FileJob:
    return FileJob.model_validate({"input": {"path": path.name}, "outputs": list(outputs), **more})


def go(path: Path, folder: Path, *outputs: dict[str, Any], **more: Any) -> Result:
    """Transcodes `path` into `folder`."""
    folder.mkdir(exist_ok=True)
    return transcode(job(path, *outputs, **more), LocalFile(path, path.name), folder, device=DEVICE, limits=Limits())


def made(path: Path, folder: Path, kind: str, **video: Any) -> Path:
    """The one silent output of a video transcode: fast, at good quality."""
    result = go(path, folder, {"type": kind, "video": {**FAST, **video}, "audio": None, "subtitles": None})
    return folder / result.outputs[0].path


def planned(path: Path, kind: str, **video: Any) -> VideoRendition:
    spec = job(path, {"type": kind, "video": {**FAST, **video}})
    rendition = plan(spec, probe(LocalFile(path, path.name), Limits()), DEVICE).outputs[0].renditions[0]
    assert isinstance(rendition, VideoRendition)
    return rendition


def seen(path: Path) -> VideoInfo:
    """What the probe says of the video of a file."""
    return probe(LocalFile(path, path.name), Limits()).video[0]


def corners(size: tuple[int, int]) -> Array:
    """An RGB picture without any symmetry: each corner has a colour of its own on grey."""
    width, height = size
    picture = np.full((height, width, 3), 90, np.uint8)
    half_width, half_height = width // 3, height // 3
    picture[:half_height, :half_width] = (220, 30, 30)
    picture[:half_height, -half_width:] = (30, 200, 30)
    picture[-half_height:, :half_width] = (40, 40, 220)
    picture[-half_height:, -half_width:] = (240, 240, 240)
    return picture


def patches(size: tuple[int, int] = (256, 64), colours: Sequence[tuple[int, int, int]] = PATCHES) -> Array:
    """An RGB picture of equal columns, one per colour."""
    width, height = size
    step = width // len(colours)
    picture = np.zeros((height, width, 3), np.uint8)
    for number, colour in enumerate(colours):
        picture[:, number * step : (number + 1) * step if number + 1 < len(colours) else width] = colour
    return picture


def yuv_frame(picture: Array, matrix: str, range_: str = "tv", *, bits: int = 8) -> VideoFrame:
    """R'G'B' (8 bit) as 4:2:0 by the standard's own formula; no tags are set on the frame."""
    kr, kb = LUMA_WEIGHTS[matrix]
    red, green, blue = (picture[..., n].astype(np.float64) / 255 for n in range(3))
    luma = kr * red + (1 - kr - kb) * green + kb * blue
    planes = [luma, (blue - luma) / (2 * (1 - kb)), (red - luma) / (2 * (1 - kr))]
    unit, top = 1 << (bits - 8), (1 << bits) - 1
    scales = [(219 * unit, 16 * unit), (224 * unit, 128 * unit)] if range_ == "tv" else [(top, 0), (top, 128 * unit)]
    height, width = luma.shape
    frame = VideoFrame(width, height, "yuv420p" if bits == 8 else f"yuv420p{bits}le")
    for number, plane in enumerate(planes):
        if number:
            plane = plane.reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3))
        scale, offset = scales[min(number, 1)]
        fill(frame, number, np.clip(np.round(plane * scale + offset), 0, top), bits)
    return frame


def fill(frame: VideoFrame, number: int, values: Array, bits: int = 8) -> None:
    """Writes one plane."""
    plane = frame.planes[number]
    kind = np.dtype(np.uint8 if bits == 8 else "<u2")
    rows = np.zeros((plane.height, plane.line_size // kind.itemsize), kind)
    rows[: values.shape[0], : values.shape[1]] = values
    plane.update(rows.tobytes()[: plane.buffer_size].ljust(plane.buffer_size, b"\0"))


def plane_of(frame: VideoFrame, number: int = 0) -> Array:
    """One plane's values."""
    plane = frame.planes[number]
    bits = frame.format.components[number].bits
    kind = np.dtype(np.uint8 if bits == 8 else "<u2")
    rows = np.frombuffer(bytes(plane), kind).reshape(plane.height, -1)
    return rows[:, : plane.width].astype(np.int64)


def shown(frame: VideoFrame) -> Array:
    """R'G'B' (0-255, floats) of a 4:2:0 frame as its tags say, by the standard's own formula."""
    names = {number: name for name, number in MATRICES.items()}
    kr, kb = LUMA_WEIGHTS[names[int(frame.colorspace)]]
    bits = frame.format.components[0].bits
    unit, top = 1 << (bits - 8), (1 << bits) - 1
    full = int(frame.color_range) == 2
    luma, blue_off, red_off = (plane_of(frame, n).astype(np.float64) for n in range(3))
    height, width = luma.shape
    luma = luma / top if full else (luma - 16 * unit) / (219 * unit)
    chroma = top if full else 224 * unit
    blue_off, red_off = (
        np.repeat(np.repeat((plane - 128 * unit) / chroma, 2, axis=0), 2, axis=1)[:height, :width]
        for plane in (blue_off, red_off)
    )
    red, blue = luma + 2 * (1 - kr) * red_off, luma + 2 * (1 - kb) * blue_off
    green = (luma - kr * red - kb * blue) / (1 - kr - kb)
    return np.stack([red, green, blue], axis=-1) * 255


def patch_colours(picture: Array, count: int = len(PATCHES)) -> Array:
    """The mean colour in the middle of each column: count × 3."""
    height, width = picture.shape[:2]
    step = width / count
    middle = slice(height // 4, max(height // 4 + 1, 3 * height // 4))
    return np.array(
        [picture[middle, int((n + 0.3) * step) : int((n + 0.7) * step)].mean(axis=(0, 1)) for n in range(count)]
    )


def still(frame: VideoFrame, count: int = 4) -> Iterator[VideoFrame]:
    """The same picture several times, as frames of their own."""
    for _ in range(count):
        yield _copied(frame)


def _copied(frame: VideoFrame) -> VideoFrame:
    twin = VideoFrame(frame.width, frame.height, frame.format.name)
    for mine, other in zip(twin.planes, frame.planes, strict=True):
        mine.update(bytes(other).ljust(mine.buffer_size, b"\0")[: mine.buffer_size])
    return twin


def tags(frame: VideoFrame) -> Colour:
    """A decoded frame's tags."""
    tables = (PRIMARIES, TRANSFERS, MATRICES, RANGES)
    numbers = (frame.color_primaries, frame.color_trc, frame.colorspace, frame.color_range)
    found = [
        next((name for name, number in table.items() if number == int(value)), None)
        for table, value in zip(tables, numbers, strict=True)
    ]
    return Colour.model_validate(dict(zip(("primaries", "transfer", "matrix", "range"), found, strict=True)))


def close(first: Fraction | float, second: Fraction | float, share: float) -> bool:
    return abs(float(first) - float(second)) <= share * abs(float(second))
