"""Shapes of pixels and pictures: displayed aspect, odd sizes, sizes that encoders don't take."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from av.video.frame import VideoFrame

from pipelines.errors import UnsupportedSpec
from tests.measure import decode_video
from tests.media import make_video
from tests.pictures import close, corners, made, plane_of, planned, seen, still, yuv_frame
from tests.pipelines.facts import source, video, video_of

KINDS = [
    ("mp4", "h264"), ("mp4", "av1"), ("mp4", "vp9"), ("mkv", "hevc"), ("mkv", "av1"), ("webm", "vp9"), ("ts", "h264"),
    ("mov", "hevc"),
]  # fmt: skip
CODECS = ["h264", "hevc", "av1", "vp9"]


def display_aspect(path: Path) -> Fraction:
    width, height = seen(path).display_size
    return width / height


def anamorphic(path: Path, sar: Fraction = Fraction(16, 11), **options: Any) -> Path:
    return make_video(path, size=(176, 144), seconds=0.2, audio=(), sar=sar, **options)


@pytest.mark.parametrize(("kind", "codec"), KINDS)
@pytest.mark.parametrize("origin", ["mp4", "mkv", "ts"])
def test_an_unscaled_picture_keeps_its_pixel_shape_in_every_container(
    tmp_path: Path, origin: str, kind: str, codec: str
) -> None:
    output = made(anamorphic(tmp_path / f"clip.{origin}"), tmp_path / "out", kind, codec=codec)
    assert close(display_aspect(output), Fraction(176, 144) * Fraction(16, 11), 0.01)
    assert (seen(output).width, seen(output).height) == (176, 144)


@pytest.mark.parametrize(("kind", "codec"), KINDS)
def test_a_scaled_picture_has_square_pixels_and_the_same_shape(tmp_path: Path, kind: str, codec: str) -> None:
    output = made(anamorphic(tmp_path / "clip.mkv"), tmp_path / "out", kind, codec=codec, height=100)
    assert close(display_aspect(output), Fraction(176, 144) * Fraction(16, 11), 0.015)  # two pixels of rounding
    assert seen(output).sample_aspect_ratio == 1


@pytest.mark.parametrize("kind", ["mp4", "mkv", "ts"])
@pytest.mark.parametrize("rotation", ["apply", "keep"])
@pytest.mark.parametrize("height", [None, 128])
def test_a_turned_anamorphic_picture_keeps_its_shape(
    tmp_path: Path, kind: str, rotation: str, height: int | None
) -> None:
    clip = anamorphic(tmp_path / "clip.mp4", rotation=90)
    output = made(clip, tmp_path / "out", kind, rotation=rotation, height=height)
    assert close(display_aspect(output), 1 / (Fraction(176, 144) * Fraction(16, 11)), 0.015)


@pytest.mark.parametrize("absurd", [Fraction(1, 400), Fraction(1000)])
def test_an_absurd_pixel_shape_is_ignored(tmp_path: Path, absurd: Fraction) -> None:
    output = made(anamorphic(tmp_path / "clip.mkv", absurd), tmp_path / "out", "mp4")
    assert seen(output).sample_aspect_ratio == 1


def test_the_containers_pixel_shape_counts_before_the_streams(tmp_path: Path) -> None:
    clip = anamorphic(tmp_path / "clip.mp4", Fraction(16, 11))
    data = clip.read_bytes()
    at = data.index(b"pasp") + 4
    clip.write_bytes(data[:at] + (2).to_bytes(4) + (1).to_bytes(4) + data[at + 8 :])
    assert seen(made(clip, tmp_path / "out", "mp4")).sample_aspect_ratio == 2


SIZES = [(1, 1), (3, 3), (1, 5), (17, 9), (16, 16), (319, 241), (2, 200), (640, 6)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", SIZES)
def test_every_size_is_encoded_whole_but_for_a_pixel_and_never_stretched(
    tmp_path: Path, size: tuple[int, int], codec: str
) -> None:
    clip = make_video(
        tmp_path / "clip.mov", size=size, seconds=0.12, codec="png", pixel_format="rgb24", audio=(),
        frames=(VideoFrame.from_ndarray(np.full((size[1], size[0], 3), 255, np.uint8)) for _ in range(3)),
    )  # fmt: skip
    output = made(clip, tmp_path / "out", "mkv", codec=codec)
    frames = decode_video(output).frames
    assert len(frames) == 3
    smallest = {"h264": 2, "vp9": 2, "hevc": 16, "av1": 32}[codec]
    expected = tuple(max(smallest, side - side % 2) for side in size)
    assert (frames[0].width, frames[0].height) == expected
    luma = plane_of(frames[0])
    bright = (luma > 128).any(axis=1).sum(), (luma > 128).any(axis=0).sum()
    if min(size) >= smallest:
        assert bright == (expected[1], expected[0])
    elif min(size) > 1:
        assert close(bright[1] / bright[0], size[0] / size[1], 0.3) or 2 in bright


def test_an_odd_picture_loses_its_last_row_and_column_only(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mkv", size=(319, 241), seconds=0.12, codec="ffv1", audio=())
    output = made(clip, tmp_path / "out", "mp4")
    before, after = (plane_of(decode_video(path, limit=1).frames[0]) for path in (clip, output))
    error = np.mean((before[:240, :318] - after) ** 2)
    assert 10 * np.log10(255**2 / error) > 38


def test_a_very_wide_picture_is_scaled_into_its_box(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mkv", size=(4096, 32), seconds=0.12, codec="ffv1", audio=())
    output = made(clip, tmp_path / "out", "mp4", width=1024)
    assert (seen(output).width, seen(output).height) == (1024, 8)


def test_a_picture_above_the_encoders_size_is_refused_before_work() -> None:
    wide = source(video(width=20_000, height=64))
    with pytest.raises(UnsupportedSpec, match="16384"):
        video_of({"type": "mp4"}, wide)
    assert video_of({"type": "mp4", "video": {"width": 1920}}, wide).width == 1920


def test_a_marked_corner_stays_in_its_corner_at_odd_sizes(tmp_path: Path) -> None:
    picture = corners((98, 66))
    clip = make_video(
        tmp_path / "clip.mp4", size=(98, 66), seconds=0.12, frames=still(yuv_frame(picture, "smpte170m"), 3), audio=()
    )
    assert planned(clip, "mp4").filters == planned(clip, "mkv").filters
    assert plane_of(decode_video(made(clip, tmp_path / "out", "webm"), limit=1).frames[0])[:8, -8:].mean() > 100
