"""Turned and mirrored pictures: what a player shows stays what it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.source import Colour
from tests.measure import decode_video, matrices
from tests.media import make_video
from tests.pictures import corners, made, planned, seen, shown, still, yuv_frame

SIZE = (96, 64)
BT709 = Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv")
TURNS = [(degrees, mirrored) for degrees in (0, 90, 180, 270) for mirrored in (False, True)]


def phone_clip(path: Path, degrees: int, mirrored: bool, **options: Any) -> Path:
    frame = yuv_frame(corners(SIZE), "bt709")
    return make_video(
        path, size=SIZE, seconds=1, frames=still(frame, 3), audio=(), rotation=degrees, mirrored=mirrored,
        options={"crf": "5"}, colour=BT709, **options,
    )  # fmt: skip


def turned(picture: Any, degrees: int, mirrored: bool) -> Any:
    """As a player shows it: mirrored, then turned clockwise."""
    return np.rot90(picture[:, ::-1] if mirrored else picture, -degrees // 90)


def assert_shows(path: Path, expected: Any) -> None:
    frame = decode_video(path, limit=1).frames[0]
    picture = shown(frame)
    assert picture.shape == expected.shape
    quarter_height, quarter_width = picture.shape[0] // 6, picture.shape[1] // 6
    for rows in (slice(0, quarter_height), slice(-quarter_height, None)):
        for columns in (slice(0, quarter_width), slice(-quarter_width, None)):
            off = picture[rows, columns].mean(axis=(0, 1)) - expected[rows, columns].mean(axis=(0, 1))
            assert np.abs(off).max() < 12


@pytest.mark.parametrize(("degrees", "mirrored"), TURNS)
def test_turned_pictures_come_out_upright_and_without_a_matrix(tmp_path: Path, degrees: int, mirrored: bool) -> None:
    clip = phone_clip(tmp_path / "clip.mp4", degrees, mirrored)
    output = made(clip, tmp_path / "out", "mp4")
    assert_shows(output, turned(corners(SIZE), degrees, mirrored))
    assert (seen(output).rotation, seen(output).mirrored) == (0, False)
    assert matrices(output)[0] == (0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)


@pytest.mark.parametrize("kind", ["mp4", "mov", "mkv", "webm"])
@pytest.mark.parametrize(("degrees", "mirrored"), TURNS)
def test_a_kept_rotation_leaves_the_coded_picture_and_says_how_to_turn_it(
    tmp_path: Path, kind: str, degrees: int, mirrored: bool
) -> None:
    clip = phone_clip(tmp_path / "clip.mp4", degrees, mirrored)
    output = made(clip, tmp_path / "out", kind, rotation="keep")
    assert_shows(output, corners(SIZE))
    assert (seen(output).rotation, seen(output).mirrored) == (degrees, mirrored)


def test_a_container_without_matrices_gets_the_turned_picture_and_the_plan_says_why(tmp_path: Path) -> None:
    clip = phone_clip(tmp_path / "clip.mp4", 90, False)
    output = made(clip, tmp_path / "out", "ts", rotation="keep")
    assert_shows(output, turned(corners(SIZE), 90, False))
    assert (seen(output).rotation, seen(output).mirrored) == (0, False)
    assert "ts can't say how players turn a picture" in planned(clip, "ts", rotation="keep").reason


@pytest.mark.parametrize("rotation", ["apply", "keep"])
def test_a_scaling_box_counts_the_displayed_size_of_a_turned_picture(tmp_path: Path, rotation: str) -> None:
    clip = phone_clip(tmp_path / "clip.mp4", 90, False)
    output = made(clip, tmp_path / "out", "mp4", rotation=rotation, height=48)
    assert seen(output).display_size == (32, 48)
    upright = turned(corners(SIZE), 90, False) if rotation == "apply" else corners(SIZE)
    assert_shows(output, upright[::2, ::2])
