"""Interlaced sources, found by measurement: fields in their order, whole pictures left alone."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from pipelines.errors import UnsupportedSpec
from tests.fields import STEP, bar_positions, combing, flagged, pulled_down, woven
from tests.measure import decode_video
from tests.media import make_video
from tests.pictures import made, planned, seen, still

Order = Literal["top", "bottom"]
SIZE = (320, 240)
COUNT = 20
MODES: dict[str | None, Literal["tff", "bff", "prog"]] = {"top": "tff", "bottom": "bff", None: "prog"}


def clip_of(
    path: Path, real: Order | None, said: Order | None, codec: str = "h264", size: tuple[int, int] = SIZE, **more: Any
) -> Path:
    """A clip whose fields are as `real`, and whose flags say `said`."""
    frames = flagged(woven(size, COUNT, real), MODES[said], more.get("pixel_format", "yuv420p"))
    return make_video(
        path, size=size, seconds=1, frames=frames, audio=(), codec=codec, interlaced=said,
        **{"bit_rate": 4_000_000, **more},
    )  # fmt: skip


def assert_smooth(path: Path, per_frame: int) -> None:
    """No combs, and the bar moves on by the same way from frame to frame."""
    frames = decode_video(path).frames
    assert all(not frame.interlaced_frame for frame in frames)
    assert max(combing(frame) for frame in frames[2:-2]) < 3.5
    steps = np.diff(bar_positions(frames))[2:-2]
    assert np.abs(steps - per_frame).max() < per_frame / 2.5, steps.round(1)


FLAGGED = [
    ("h264", "mp4", "yuv420p"), ("h264", "ts", "yuv420p"), ("mpeg2video", "ts", "yuv420p"),
    ("mpeg2video", "mpg", "yuv420p"), ("mpeg4", "avi", "yuv420p"),
]  # fmt: skip


@pytest.mark.parametrize("order", ["top", "bottom"])
@pytest.mark.parametrize(("codec", "extension", "pixel_format"), FLAGGED)
def test_interlaced_sources_become_smooth_at_their_own_rate(
    tmp_path: Path, order: Order, codec: str, extension: str, pixel_format: str
) -> None:
    clip = clip_of(tmp_path / f"clip.{extension}", order, order, codec, pixel_format=pixel_format)
    assert seen(clip).interlacing == order
    output = made(clip, tmp_path / "out", "mp4")
    assert len(decode_video(output).frames) == len(decode_video(clip).frames)
    assert seen(output).frame_rate == 25
    assert seen(output).field_order == "progressive"
    assert_smooth(output, 2 * STEP)


def test_dv_is_read_bottom_field_first(tmp_path: Path) -> None:
    size = (720, 576)
    clip = clip_of(tmp_path / "clip.avi", "bottom", "bottom", "dvvideo", size)
    assert (seen(clip).field_order, seen(clip).interlacing) == ("bb", "bottom")
    assert_smooth(made(clip, tmp_path / "out", "mp4"), 2 * STEP)


@pytest.mark.parametrize("order", ["top", "bottom"])
@pytest.mark.parametrize("codec", ["h264", "ffv1"])
def test_interlaced_pictures_without_flags_are_found(tmp_path: Path, order: Order, codec: str) -> None:
    clip = clip_of(tmp_path / "clip.mkv", order, None, codec)
    assert (seen(clip).field_order, seen(clip).interlacing) == ("progressive", order)
    assert f"interlaced, {order} field first (measured)" in planned(clip, "mp4").reason
    assert_smooth(made(clip, tmp_path / "out", "mp4"), 2 * STEP)


@pytest.mark.parametrize("order", ["top", "bottom"])
def test_a_wrong_field_order_is_corrected_by_measurement(tmp_path: Path, order: Order) -> None:
    other: Order = "bottom" if order == "top" else "top"
    clip = clip_of(tmp_path / "clip.ts", order, other, "mpeg2video")
    assert seen(clip).interlacing == order
    assert_smooth(made(clip, tmp_path / "out", "mp4", deinterlace="bob"), STEP)


@pytest.mark.parametrize(("codec", "extension"), [("h264", "mp4"), ("mpeg2video", "ts")])
def test_whole_pictures_flagged_interlaced_are_left_alone(tmp_path: Path, codec: str, extension: str) -> None:
    clip = clip_of(tmp_path / f"clip.{extension}", None, "top", codec)
    assert seen(clip).interlacing == "progressive"
    assert "its pictures are whole: not deinterlaced" in planned(clip, "mp4").reason
    output = made(clip, tmp_path / "out", "mp4")
    before, after = decode_video(clip).frames, decode_video(output).frames
    assert all(frame.interlaced_frame for frame in before)
    assert all(not frame.interlaced_frame for frame in after)
    error = np.mean(
        [np.mean((a.to_ndarray()[:240] - 1.0 * b.to_ndarray()[:240]) ** 2) for a, b in zip(before, after, strict=True)]
    )
    assert error < 6


@pytest.mark.parametrize("order", ["top", "bottom"])
@pytest.mark.parametrize("extension", ["mp4", "mkv", "ts"])
def test_bob_makes_a_frame_of_each_field_in_order(tmp_path: Path, order: Order, extension: str) -> None:
    clip = clip_of(tmp_path / f"clip.{extension}", order, order)
    output = made(clip, tmp_path / "out", "mp4", deinterlace="bob")
    frames = decode_video(output)
    assert len(frames.frames) == 2 * COUNT
    gaps = {b - a for a, b in zip(frames.times, frames.times[1:], strict=False)}
    assert all(abs(gap - Fraction(1, 50)) <= Fraction(1, 1000) for gap in gaps)
    assert abs(frames.times[-1] + Fraction(1, 50) - Fraction(COUNT, 25)) <= Fraction(1, 500)
    assert seen(output).frame_rate == 50
    assert_smooth(output, STEP)


def test_bob_leaves_progressive_sources_at_their_rate(tmp_path: Path) -> None:
    clip = clip_of(tmp_path / "clip.mp4", None, None)
    assert len(decode_video(made(clip, tmp_path / "out", "mp4", deinterlace="bob")).frames) == COUNT


def test_off_leaves_the_fields_woven_and_on_deinterlaces_anything(tmp_path: Path) -> None:
    clip = clip_of(tmp_path / "clip.mp4", "top", "top")
    off = decode_video(made(clip, tmp_path / "off", "mp4", deinterlace="off")).frames
    assert min(combing(frame) for frame in off[2:-2]) > 3.5
    assert all(not frame.interlaced_frame for frame in off)
    assert (
        "deinterlaced as asked" in planned(clip_of(tmp_path / "whole.mp4", None, None), "mp4", deinterlace="on").reason
    )


def test_a_still_scene_is_judged_by_its_flags(tmp_path: Path) -> None:
    frames = flagged(still(next(woven(SIZE, 1, None)), 12), "tff", "yuv420p")
    clip = make_video(tmp_path / "clip.mp4", size=SIZE, seconds=1, frames=frames, audio=(), interlaced="top")
    assert (seen(clip).field_order, seen(clip).interlacing) == ("tt", None)
    assert "as the file says" in planned(clip, "mp4").reason


def test_film_in_interlaced_video_counts_as_interlaced(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mkv", size=SIZE, seconds=1, frames=pulled_down(20), audio=(), codec="ffv1")
    assert seen(clip).interlacing == "top"


def telecined(path: Path, count: int, said: Order | None = "top", codec: str = "ffv1", **more: Any) -> Path:
    """Film in 29.97 interlaced pictures."""
    frames = flagged(pulled_down(count), MODES[said], "yuv420p")
    rate = Fraction(30_000, 1001)
    return make_video(path, size=SIZE, rate=rate, frames=frames, audio=(), codec=codec, **more)


def test_film_comes_out_of_its_pulldown_picture_by_picture(tmp_path: Path) -> None:
    clip = telecined(tmp_path / "clip.mkv", 20)
    output = made(clip, tmp_path / "out", "mp4", deinterlace="ivtc")
    film = decode_video(output)
    assert len(film.frames) == 16
    assert film.times == pytest.approx([Fraction(1001 * number, 24_000) for number in range(16)], abs=0.001)
    assert max(combing(frame) for frame in film.frames) < 2
    steps = np.diff(bar_positions(film.frames))
    assert steps == pytest.approx(2 * STEP, abs=1)
    assert seen(output).frame_rate == Fraction(24_000, 1001)
    assert "3:2 pulldown taken back as asked" in planned(clip, "mp4", deinterlace="ivtc").reason


def test_film_stays_at_its_time_after_a_gap(tmp_path: Path) -> None:
    step = Fraction(1001, 30_000)
    stamps = [(number + (30 if number >= 10 else 0)) * step for number in range(20)]
    clip = telecined(tmp_path / "clip.mkv", 20, timestamps=stamps, end=50 * step)
    times = decode_video(made(clip, tmp_path / "out", "mkv", deinterlace="ivtc")).times
    assert len(times) == 16
    assert float(times[8]) == pytest.approx(float(40 * step), abs=0.03)


def test_whole_pictures_and_other_rates_have_no_pulldown(tmp_path: Path) -> None:
    whole = clip_of(tmp_path / "whole.mkv", None, None)
    assert len(decode_video(made(whole, tmp_path / "out", "mkv", deinterlace="ivtc")).frames) == COUNT
    with pytest.raises(UnsupportedSpec, match=r"29\.97"):
        planned(clip_of(tmp_path / "pal.mkv", "top", "top"), "mkv", deinterlace="ivtc")
