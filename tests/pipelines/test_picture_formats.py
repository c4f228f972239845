"""Pixel formats that sources have, into each delivery profile; alpha over black."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from av.video.frame import VideoFrame

from pipelines.source import Colour
from tests.measure import decode_video
from tests.media import make_video
from tests.pictures import FAST, Array, go, made, patch_colours, patches, plane_of, seen, shown

BT709 = Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv")

SOURCES = [
    ("yuv422p", "ffv1", "mkv"), ("yuv444p", "ffv1", "mkv"), ("yuv420p10le", "ffv1", "mkv"),
    ("yuv422p10le", "prores", "mov"), ("yuv444p12le", "ffv1", "mkv"), ("yuva420p", "ffv1", "mkv"),
    ("argb", "qtrle", "mov"), ("rgba", "png", "mov"), ("rgb24", "qtrle", "mov"), ("rgb24", "png", "mov"),
    ("gbrp", "utvideo", "avi"),
    ("gbrp10le", "ffv1", "mkv"), ("gray", "ffv1", "mkv"), ("gray10le", "ffv1", "mkv"), ("pal8", "gif", "gif"),
    ("bgr0", "ffv1", "mkv"), ("bgra", "ffv1", "mkv"), ("nv12", "rawvideo", "nut"), ("p010le", "rawvideo", "nut"),
    ("yuv422p10le", "v210", "mov"), ("uyvy422", "rawvideo", "avi"), ("yuv422p", "huffyuv", "avi"),
    ("yuv411p", "dvvideo", "avi"), ("yuvj444p", "mjpeg", "mkv"), ("monob", "rawvideo", "nut"),
    ("rgb48be", "png", "mov"), ("yuv410p", "ffv1", "mkv"), ("yuva444p10le", "prores", "mov"),
    ("rgb555le", "rawvideo", "nut"),
]  # fmt: skip
ALPHA = {"yuva420p", "argb", "rgba", "pal8", "bgra", "yuva444p10le"}
DELIVERIES = [("mp4", "h264"), ("mp4", "hevc"), ("mkv", "av1"), ("webm", "vp9")]
DEEP = {"hevc", "av1"}


def luma_of(frame: VideoFrame) -> Array:
    """BT.709 luma (8 bit, limited) of RGB; of YUV as it is."""
    if not frame.format.is_rgb and "pal" not in frame.format.name:
        gray = frame.reformat(format="yuv420p", dst_color_range="MPEG")
        return plane_of(gray).astype(np.float64)
    rgb = frame.reformat(format="rgb24").to_ndarray() / 255
    return 16 + 219 * (rgb @ np.array([0.2126, 0.7152, 0.0722]))


@pytest.mark.slow
@pytest.mark.parametrize(("pixel_format", "origin", "extension"), SOURCES)
def test_every_pixel_format_is_delivered_as_players_take_it(
    tmp_path: Path, pixel_format: str, origin: str, extension: str
) -> None:
    interlaced = origin == "dvvideo"
    clip = make_video(
        tmp_path / f"clip.{extension}", size=(720, 480) if interlaced else (192, 144), seconds=Fraction(1, 5),
        rate=Fraction(30000, 1001) if interlaced else 25, codec=origin, pixel_format=pixel_format, audio=(),
        options={"strict": "-2"} if origin == "ffv1" else {},
    )  # fmt: skip
    folder = tmp_path / "out"
    outputs = [
        {"type": kind, "name": codec, "video": {**FAST, "codec": codec, "deinterlace": "off"}, "audio": None}
        for kind, codec in DELIVERIES
    ]
    result = go(clip, folder, *outputs)
    before = decode_video(clip).frames
    for output, (_, codec) in zip(result.outputs, DELIVERIES, strict=True):
        path = folder / output.path
        deep = codec in DEEP and seen(clip).bit_depth > 8
        assert seen(path).pixel_format == ("yuv420p10le" if deep else "yuv420p"), codec
        after = decode_video(path).frames
        assert len(after) == len(before)
        # pixels that are not square are made so for VP9 and AV1 in Matroska
        same_size = (after[0].width, after[0].height) == (before[0].width, before[0].height)
        if pixel_format not in ALPHA and same_size:
            error = np.mean([(luma_of(a) - luma_of(b)) ** 2 for a, b in zip(before, after, strict=True)])
            assert 10 * np.log10(255**2 / error) > FLOORS.get(pixel_format, 34), codec


FLOORS = {"yuv410p": 30, "yuvj444p": 30, "rgb555le": 30, "monob": 20, "yuv411p": 30}
"""dB of luma; lower where the source's own luma is coarse."""


@pytest.mark.parametrize(
    ("pixel_format", "origin", "extension"),
    [("argb", "qtrle", "mov"), ("rgba", "png", "mov"), ("bgra", "ffv1", "mkv"), ("yuva444p10le", "prores", "mov"),
     ("yuva420p", "ffv1", "mkv"), ("ya8", "png", "mov")],
)  # fmt: skip
@pytest.mark.parametrize("alpha", [0, 128, 255])
def test_alpha_is_laid_over_black(tmp_path: Path, pixel_format: str, origin: str, extension: str, alpha: int) -> None:
    picture = patches()
    if pixel_format == "ya8":
        picture = np.repeat(picture.mean(axis=2, keepdims=True), 3, axis=2).astype(np.uint8)
    rgba = np.dstack([picture, np.full(picture.shape[:2], alpha, np.uint8)])
    frame = VideoFrame.from_ndarray(rgba, format="rgba")
    if pixel_format.startswith("yuva"):
        frame = frame.reformat(format=pixel_format, dst_colorspace=1, dst_color_range=1)
    elif pixel_format != "rgba":
        frame = frame.reformat(format=pixel_format)
    clip = make_video(
        tmp_path / f"clip.{extension}", size=(256, 64), seconds=1, frames=(frame for _ in range(3)), codec=origin,
        pixel_format=pixel_format, audio=(), colour=BT709 if pixel_format.startswith("yuva") else Colour(),
        options={"strict": "-2"} if origin == "ffv1" else {},
    )  # fmt: skip
    shades = patch_colours(shown(decode_video(made(clip, tmp_path / "out", "mp4"), limit=1).frames[0]))
    expected = patch_colours(picture.astype(np.float64)) * alpha / 255
    assert np.abs(shades - expected).max() <= 4, (shades.round(), expected.round())
