"""Colours and levels: what a player shows by the output's tags is what the source's tags show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from av.video.frame import VideoFrame

from pipelines.source import Colour
from tests.measure import decode_video
from tests.media import make_video
from tests.pictures import PATCHES, made, patch_colours, patches, plane_of, seen, shown, still, tags, yuv_frame

TAGS: dict[str, Colour] = {
    "625": Colour(primaries="bt470bg", transfer="smpte170m", matrix="bt470bg", range="tv"),
    "525": Colour(primaries="smpte170m", transfer="smpte170m", matrix="smpte170m", range="tv"),
    "709": Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv"),
    "2020": Colour(primaries="bt2020", transfer="bt2020-10", matrix="bt2020nc", range="tv"),
}
FULL = Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="pc")
JPEG = Colour(primaries="bt709", transfer="bt709", matrix="bt470bg", range="pc")
DELIVERIES = [
    ("mp4", "h264"), ("mp4", "hevc"), ("mp4", "av1"), ("mp4", "vp9"), ("mkv", "h264"), ("mkv", "hevc"), ("mkv", "av1"),
    ("mkv", "vp9"), ("webm", "vp9"), ("webm", "av1"), ("ts", "h264"), ("ts", "hevc"),
]  # fmt: skip


def patch_clip(path: Path, colour: Colour, size: tuple[int, int] = (256, 64), matrix: str | None = None) -> Path:
    """Lossless patches, tagged as said; `matrix` where the tags don't say it."""
    frame = yuv_frame(patches(size), colour.matrix or str(matrix), colour.range or "tv")
    return make_video(
        path, size=size, seconds=1, frames=still(frame, 3), audio=(), colour=colour, options={"qp": "0"}
    )  # fmt: skip


def assert_shows_patches(path: Path, within: float = 3, expected: Any = PATCHES) -> VideoFrame:
    frame = decode_video(path, limit=1).frames[0]
    off = np.abs(patch_colours(shown(frame)) - np.array(expected))
    assert off.max() <= within, off.round(1)
    return frame


@pytest.mark.parametrize("name", TAGS)
@pytest.mark.parametrize(("kind", "codec"), DELIVERIES)
def test_tagged_colours_stay_and_every_container_says_the_tags(
    tmp_path: Path, name: str, kind: str, codec: str
) -> None:
    clip = patch_clip(tmp_path / "clip.mp4", TAGS[name])
    output = made(clip, tmp_path / "out", kind, codec=codec)
    assert tags(assert_shows_patches(output)) == TAGS[name]


@pytest.mark.parametrize(
    ("size", "matrix", "companions"),
    [
        ((320, 240), "smpte170m", ("smpte170m", "smpte170m")),
        ((352, 288), "bt470bg", ("bt470bg", "smpte170m")),
        ((1280, 64), "bt709", ("bt709", "bt709")),
    ],
)
def test_untagged_colours_are_taken_as_players_do_and_tagged(
    tmp_path: Path, size: tuple[int, int], matrix: str, companions: tuple[str, str]
) -> None:
    clip = patch_clip(tmp_path / "clip.mp4", Colour(), size, matrix)
    output = made(clip, tmp_path / "out", "mp4")
    expected = Colour(primaries=companions[0], transfer=companions[1], matrix=matrix, range="tv")
    assert tags(assert_shows_patches(output)) == expected


@pytest.mark.parametrize("colour", [Colour(), TAGS["709"]], ids=["untagged", "tagged"])
def test_colours_of_hd_scaled_to_sd_stay(tmp_path: Path, colour: Colour) -> None:
    clip = patch_clip(tmp_path / "clip.mp4", colour, (1280, 64), "bt709")
    output = made(clip, tmp_path / "out", "mp4", width=640)
    assert tags(assert_shows_patches(output)) == TAGS["709"]


@pytest.mark.parametrize("colour", [Colour(), TAGS["525"]], ids=["untagged", "tagged"])
def test_colours_of_sd_scaled_to_hd_stay(tmp_path: Path, colour: Colour) -> None:
    clip = patch_clip(tmp_path / "clip.mp4", colour, (640, 32), "smpte170m")
    output = made(clip, tmp_path / "out", "mp4", width=1280, upscale=True)
    assert tags(assert_shows_patches(output)) == TAGS["525"]


@pytest.mark.parametrize("pixel_format", ["yuvj420p", "yuv420p"])
@pytest.mark.parametrize(("kind", "codec"), [("mp4", "h264"), ("mkv", "hevc"), ("webm", "vp9"), ("mp4", "av1")])
def test_full_range_becomes_limited_and_looks_the_same(
    tmp_path: Path, pixel_format: str, kind: str, codec: str
) -> None:
    # JPEG is BT.601 by definition
    colour = JPEG if pixel_format == "yuvj420p" else FULL
    frame = yuv_frame(patches(), str(colour.matrix), "pc")
    clip = make_video(
        tmp_path / "clip.mkv", codec="mjpeg" if pixel_format == "yuvj420p" else "h264", pixel_format=pixel_format,
        size=(256, 64), seconds=1, frames=still(frame, 3), audio=(), colour=colour,
        options={} if pixel_format == "yuvj420p" else {"qp": "0"},
    )  # fmt: skip
    assert seen(clip).colour.range == "pc"
    output = made(clip, tmp_path / "out", kind, codec=codec)
    assert seen(output).colour.range == "tv"
    assert_shows_patches(output, expected=patch_colours(shown(decode_video(clip, limit=1).frames[0])))


LEVELS = (0, 16, 64, 128, 200, 235, 255)


def ramp(path: Path, pixel_format: str, codec: str, colour: Colour, depth: int = 8) -> Path:
    """Grey columns of the levels above, written as they are."""
    values = np.repeat(np.array(LEVELS, np.int64), 32)[None, :].repeat(64, axis=0) << (depth - 8)
    array = values.astype(np.uint8 if depth == 8 else np.uint16)
    if pixel_format in ("rgb24", "bgr0"):
        frame = VideoFrame.from_ndarray(np.repeat(array[..., None], 3, axis=2), format="rgb24")
        frame = frame if pixel_format == "rgb24" else frame.reformat(format=pixel_format)
    else:
        frame = VideoFrame.from_ndarray(array, format=pixel_format)
    return make_video(
        path, size=(len(LEVELS) * 32, 64), seconds=1, frames=(frame for _ in range(3)), audio=(), codec=codec,
        pixel_format=pixel_format, colour=colour,
        options={"qp": "0"} if codec == "h264" else {},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("pixel_format", "codec", "said", "full"),
    [
        ("gray", "ffv1", None, True), ("gray", "ffv1", "pc", True), ("gray", "ffv1", "tv", False),
        ("gray10le", "ffv1", None, True), ("gray10le", "ffv1", "tv", False), ("gray", "h264", "tv", False),
        ("rgb24", "qtrle", None, True), ("bgr0", "ffv1", None, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["h264", "hevc"])
def test_levels_of_grey_and_rgb_are_within_two_values(
    tmp_path: Path, pixel_format: str, codec: str, said: Any, full: bool, target: str
) -> None:
    depth = 10 if "10" in pixel_format else 8
    path = tmp_path / ("clip.mov" if codec == "qtrle" else "clip.mkv")
    clip = ramp(path, pixel_format, codec, Colour(range=said), depth)
    output = made(clip, tmp_path / "out", "mkv", codec=target)
    frame = decode_video(output, limit=1).frames[0]
    luma = plane_of(frame) / (1 << (frame.format.components[0].bits - 8))
    for number, level in enumerate(LEVELS):
        expected = 16 + level * 219 / 255 if full else level
        measured = luma[16:48, number * 32 + 8 : number * 32 + 24].mean()
        assert abs(measured - expected) <= 2, (level, measured, expected)
    assert seen(output).colour.range == "tv"
