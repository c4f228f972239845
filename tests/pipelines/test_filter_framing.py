"""Crop, rotate, mirror and pad: what is shown where, on sources of every turn, shape and depth."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import UnsupportedSpec
from pipelines.filters import Crop
from pipelines.source import Colour
from tests.measure import decode_video
from tests.media import make_video
from tests.pictures import Array, corners, made, planned, seen, shown, still, yuv_frame

SIZE = (96, 64)
BT709 = Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv")
TURNS = [(degrees, mirrored) for degrees in (0, 90, 180, 270) for mirrored in (False, True)]
ORANGE = (255, 136, 0)


def clip(path: Path, size: tuple[int, int] = SIZE, *, bits: int = 8, picture: Array | None = None, **more: Any) -> Path:
    frame = yuv_frame(corners(size) if picture is None else picture, "bt709", bits=bits)
    options = {"colour": BT709, "options": {"crf": "4"}, "pixel_format": frame.format.name, **more}
    return make_video(path, size=size, seconds=1, frames=still(frame, 3), audio=(), **options)


def turned(picture: Array, degrees: int, mirrored: bool) -> Array:
    """As a player shows it: mirrored, then turned clockwise."""
    return np.rot90(picture[:, ::-1] if mirrored else picture, -degrees // 90)


def first(path: Path) -> Array:
    return shown(decode_video(path, limit=1).frames[0])


def assert_same(picture: Array, expected: Array, *, within: float = 14) -> None:
    """In each of 8 × 8 cells that are of one colour, with what is around them, in what is expected."""
    assert picture.shape == expected.shape
    height, width = picture.shape[:2]
    compared = 0
    for row in range(8):
        for column in range(8):
            top, bottom = row * height // 8, (row + 1) * height // 8
            left, right = column * width // 8, (column + 1) * width // 8
            around = expected[max(0, top - 4) : bottom + 4, max(0, left - 4) : right + 4]
            if around.std(axis=(0, 1)).max() == 0:
                off = picture[top:bottom, left:right].mean(axis=(0, 1)) - around.mean(axis=(0, 1))
                assert np.abs(off).max() < within, (row, column, off)
                compared += 1
    assert compared >= 6


@pytest.mark.parametrize(("degrees", "mirrored"), TURNS)
def test_a_crop_is_of_the_picture_as_it_is_displayed(tmp_path: Path, degrees: int, mirrored: bool) -> None:
    source = clip(tmp_path / "clip.mp4", rotation=degrees, mirrored=mirrored)
    crop = {"type": "crop", "x": 8, "y": 4, "width": 40, "height": 36}
    output = made(source, tmp_path / "out", "mp4", filters=[crop])
    upright = turned(corners(SIZE), degrees, mirrored)
    assert_same(first(output), upright[4:40, 8:48])
    assert (seen(output).rotation, seen(output).mirrored) == (0, False)


@pytest.mark.parametrize(("degrees", "mirrored"), TURNS)
def test_a_crop_with_the_rotation_kept_shows_the_same_to_a_player(tmp_path: Path, degrees: int, mirrored: bool) -> None:
    source = clip(tmp_path / "clip.mp4", rotation=degrees, mirrored=mirrored)
    crop = {"type": "crop", "x": 8, "y": 4, "width": 40, "height": 36}
    output = made(source, tmp_path / "out", "mp4", filters=[crop], rotation="keep")
    told = seen(output)
    assert (told.rotation, told.mirrored) == (degrees, mirrored)
    assert_same(turned(first(output), degrees, mirrored), turned(corners(SIZE), degrees, mirrored)[4:40, 8:48])


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_a_crop_of_a_deep_picture_keeps_its_depth_and_colours(tmp_path: Path, codec: str) -> None:
    source = clip(tmp_path / "clip.mkv", bits=10, codec="hevc")
    # x265 of less than 64 columns spoils its memory
    crop = {"type": "crop", "width": 64, "height": 64, "x": 32, "y": 0}
    output = made(source, tmp_path / "out", "mkv", filters=[crop], codec=codec)
    assert seen(output).bit_depth == (10 if codec == "hevc" else 8)
    assert_same(first(output), corners(SIZE)[:, 32:])


def test_a_crop_without_a_place_is_in_the_middle(tmp_path: Path) -> None:
    source = clip(tmp_path / "clip.mp4")
    assert (
        Crop(width=48, height=32, x=24, y=16)
        in planned(source, "mp4", filters=[{"type": "crop", "width": 48, "height": 32}]).filters
    )


def test_a_crop_of_pixels_that_are_not_square_is_counted_in_displayed_ones(tmp_path: Path) -> None:
    source = clip(tmp_path / "clip.mp4", sar=Fraction(2))  # 192 × 64 as displayed
    rendition = planned(source, "mp4", filters=[{"type": "crop", "x": 64, "y": 0, "width": 128, "height": 64}])
    assert rendition.filters[0] == Crop(width=64, height=64, x=32, y=0)
    assert rendition.sample_aspect_ratio == 2


@pytest.mark.parametrize("size", [(97, 63), (101, 77)])
def test_an_odd_picture_is_cropped_at_its_right_and_lower_edge_too(tmp_path: Path, size: tuple[int, int]) -> None:
    even = (size[0] + 1, size[1] + 1)
    source = clip(tmp_path / "clip.mkv", even, codec="ffv1")
    odd = made_odd(source, tmp_path / "odd.mkv", size)
    crop = {"type": "crop", "x": size[0] - 41, "y": size[1] - 31, "width": 41, "height": 31}
    output = made(odd, tmp_path / "out", "mp4", filters=[crop])
    picture = first(output)
    assert picture.shape[:2] == (30, 40)
    assert np.abs(picture[-8:, -8:].mean(axis=(0, 1)) - (240, 240, 240)).max() < 14


def made_odd(source: Path, path: Path, size: tuple[int, int]) -> Path:
    """The upper left part of a clip: encoders that take odd sizes are few."""
    frames = [frame.reformat(format="yuv444p") for frame in decode_video(source).frames]
    cut = [type(f).from_ndarray(f.to_ndarray()[:, : size[1], : size[0]].copy(), format="yuv444p") for f in frames]
    return make_video(
        path, size=size, seconds=1, frames=cut, audio=(), codec="ffv1", pixel_format="yuv444p", colour=BT709
    )


@pytest.mark.parametrize(
    "crop",
    [
        {"x": 60, "y": 0, "width": 40, "height": 20},
        {"x": 0, "y": 60, "width": 40, "height": 20},
        {"width": 98, "height": 20},
        {"width": 40, "height": 80},
        {"width": 4, "height": 4},
    ],
)
def test_a_crop_that_is_not_in_the_picture_is_refused_with_its_displayed_size(
    tmp_path: Path, crop: dict[str, int]
) -> None:
    source = clip(tmp_path / "clip.mp4")
    with pytest.raises(UnsupportedSpec) as refused:
        planned(source, "mp4", filters=[{"type": "crop", **crop}])
    assert refused.value.facts["filter"] == "crop"


@pytest.mark.parametrize(("degrees", "mirrored"), [(0, False), (90, False), (270, True)])
@pytest.mark.parametrize("asked", [90, 180, 270])
def test_rotate_turns_what_is_displayed(tmp_path: Path, degrees: int, mirrored: bool, asked: int) -> None:
    source = clip(tmp_path / "clip.mp4", rotation=degrees, mirrored=mirrored)
    output = made(source, tmp_path / "out", "mp4", filters=[{"type": "rotate", "degrees": asked}], rotation="keep")
    assert_same(first(output), turned(turned(corners(SIZE), degrees, mirrored), asked, False))
    assert (seen(output).rotation, seen(output).mirrored) == (0, False)


@pytest.mark.parametrize(("degrees", "mirrored"), [(0, False), (90, False), (180, True), (270, True)])
@pytest.mark.parametrize("axis", ["horizontal", "vertical"])
def test_mirror_flips_what_is_displayed(tmp_path: Path, degrees: int, mirrored: bool, axis: str) -> None:
    source = clip(tmp_path / "clip.mp4", rotation=degrees, mirrored=mirrored)
    output = made(source, tmp_path / "out", "mp4", filters=[{"type": "mirror", "axis": axis}])
    upright = turned(corners(SIZE), degrees, mirrored)
    assert_same(first(output), upright[:, ::-1] if axis == "horizontal" else upright[::-1])


def test_filters_follow_each_other_in_their_own_order_whatever_the_lists(tmp_path: Path) -> None:
    source = clip(tmp_path / "clip.mp4")
    filters: list[dict[str, Any]] = [
        {"type": "pad", "aspect": "1:1"},
        {"type": "mirror"},
        {"type": "rotate", "degrees": 90},
        {"type": "crop", "x": 0, "y": 0, "width": 48, "height": 64},
    ]
    one, other = (planned(source, "mp4", filters=each) for each in (filters, filters[::-1]))
    assert one == other
    output = made(source, tmp_path / "out", "mp4", filters=filters)
    expected = np.zeros((64, 64, 3), np.uint8)
    expected[8:56] = turned(corners(SIZE)[:, :48], 90, False)[:, ::-1]
    assert_same(first(output), expected)


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize(
    ("aspect", "size", "inner"),
    [("1:1", (96, 96), (96, 64)), ("4:1", (256, 64), (96, 64)), ("9:16", (96, 170), (96, 64))],
)
def test_pad_adds_bars_of_the_colour_and_leaves_the_picture(
    tmp_path: Path, bits: int, aspect: str, size: tuple[int, int], inner: tuple[int, int]
) -> None:
    source = clip(tmp_path / "clip.mkv", bits=bits, codec="hevc")
    pad = {"type": "pad", "aspect": aspect, "colour": "#ff8800"}
    output = made(source, tmp_path / "out", "mkv", filters=[pad], codec="hevc")
    picture = first(output)
    assert picture.shape[:2] == size[::-1]
    left, top = (size[0] - inner[0]) // 4 * 2, (size[1] - inner[1]) // 4 * 2
    assert_same(picture[top : top + inner[1], left : left + inner[0]], corners(SIZE))
    bars = picture[2 : top - 4] if top else picture[:, 2 : left - 4]
    assert np.abs(bars.mean(axis=(0, 1)) - ORANGE).max() < 8


def test_a_rungs_limits_hold_for_the_picture_with_its_bars(tmp_path: Path) -> None:
    source = clip(tmp_path / "clip.mp4", (320, 180))
    rendition = planned(source, "mp4", filters=[{"type": "pad", "aspect": "9:16"}], height=160)
    assert (rendition.width, rendition.height, rendition.inner) == (90, 160, (90, 50))


@pytest.mark.parametrize(("upscale", "inner"), [(False, (96, 64)), (True, (300, 200))], ids=["as it is", "enlarged"])
def test_pad_to_a_size_enlarges_the_picture_only_when_asked(
    tmp_path: Path, upscale: bool, inner: tuple[int, int]
) -> None:
    source = clip(tmp_path / "clip.mp4")
    rendition = planned(source, "mp4", filters=[{"type": "pad", "width": 300, "height": 200}], upscale=upscale)
    assert (rendition.width, rendition.height, rendition.inner) == (300, 200, inner)


def test_pad_to_a_smaller_size_shrinks_the_picture_into_it(tmp_path: Path) -> None:
    source = clip(tmp_path / "clip.mp4", rotation=90)
    output = made(source, tmp_path / "out", "mp4", filters=[{"type": "pad", "width": 96, "height": 48}])
    expected = np.zeros((48, 96, 3), np.uint8)
    small = turned(corners(SIZE), 90, False)[::2, ::2]  # 64 × 96, of which 32 × 48
    expected[:, 32:64] = small
    picture = first(output)
    assert_same(picture, expected, within=20)


def test_pixels_are_square_in_a_padded_picture(tmp_path: Path) -> None:
    source = clip(tmp_path / "clip.mp4", sar=Fraction(2))  # 192 × 64 as displayed
    rendition = planned(source, "mp4", filters=[{"type": "pad", "aspect": "1:1"}])
    assert (rendition.width, rendition.height, rendition.sample_aspect_ratio) == (192, 192, 1)
    assert rendition.inner == (192, 64)


def test_a_picture_that_changes_its_size_keeps_crop_turn_and_bars(tmp_path: Path) -> None:
    parts = [clip(tmp_path / f"{number}.ts", size) for number, size in enumerate([(96, 64), (192, 128)])]
    joined = tmp_path / "clip.ts"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    filters = [
        {"type": "crop", "x": 48, "y": 0, "width": 48, "height": 64},
        {"type": "rotate", "degrees": 180},
        {"type": "pad", "aspect": "1:1", "colour": "white"},
    ]
    frames = decode_video(made(joined, tmp_path / "out", "mp4", filters=filters)).frames
    expected = np.full((64, 64, 3), 255, np.uint8)
    expected[:, 8:56] = corners(SIZE)[::-1, ::-1][:, :48]
    assert len(frames) == 6
    assert_same(shown(frames[0]), expected)
    assert_same(shown(frames[-1]), expected)
