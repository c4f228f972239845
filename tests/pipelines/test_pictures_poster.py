"""Posters, contact sheets and how pictures are displayed: turned, square, in the right colours, whole."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from av.video.frame import VideoFrame

from pipelines.errors import UnsupportedSpec
from pipelines.pictures.digits import HEIGHT, clock, text_mask
from pipelines.source import Colour
from tests.media import make_audio, make_picture, make_video
from tests.pictures import PATCHES, corners, go, patch_colours, patches, still, yuv_frame
from tests.signals import moving_pictures, plain_picture
from tests.stills import flat, make_counted, picture, time_shown


def poster(source: Path, folder: Path, **fields: Any) -> np.ndarray[Any, np.dtype[Any]]:
    result = go(source, folder, {"type": "poster", "name": "p", "quality": 100, **fields})
    return picture(folder / result.outputs[0].path)


def blurred(frame: VideoFrame) -> VideoFrame:
    return frame.reformat(width=8, height=6).reformat(width=frame.width, height=frame.height)


def test_poster_is_neither_black_nor_blurred_nor_in_a_fade(tmp_path: Path) -> None:
    sharp = next(moving_pictures((256, 192), 10, 1))
    levels = [np.frombuffer(bytes(plane), np.uint8).astype(float) for plane in sharp.planes]

    def faded(share: float) -> VideoFrame:
        frame = VideoFrame(256, 192, "yuv420p")
        for plane, level, black in zip(frame.planes, levels, (16, 128, 128), strict=True):
            plane.update(np.round(black + (level - black) * share).astype(np.uint8).tobytes())
        return frame

    frames = [
        *flat(plain_picture((256, 192), 16), 10),
        *(faded(n / 10) for n in range(10)),
        *flat(sharp, 8),
        *flat(blurred(sharp), 12),
    ]
    source = make_video(tmp_path / "in.mp4", size=(256, 192), rate=10, seconds=4, frames=frames, audio=(), gop=100)
    result = go(source, tmp_path / "out", {"type": "poster", "name": "p"})
    (shown,) = result.outputs[0].renditions[0].facts["times"]
    assert 2.0 <= shown < 2.8


def test_poster_of_a_moment_shows_it(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4")
    assert time_shown(poster(source, tmp_path / "out", at_seconds=2.34)) == pytest.approx(2.3, abs=0.04)
    with pytest.raises(UnsupportedSpec, match="the input ends"):
        poster(source, tmp_path / "out", at_seconds=4)


@pytest.mark.parametrize("format", ["jpg", "webp"])
@pytest.mark.parametrize(("matrix", "range_"), [("bt709", "tv"), ("smpte170m", "tv"), ("bt709", "pc")])
def test_colours_are_the_sources(tmp_path: Path, format: str, matrix: str, range_: Any) -> None:
    frame = yuv_frame(patches(), matrix, range_)
    colour = Colour(primaries="bt709", transfer="bt709", matrix=matrix, range=range_)
    source = make_video(
        tmp_path / "in.mkv", size=(256, 64), rate=10, frames=still(frame, 5), audio=(), colour=colour,
        options={"crf": "1"}, seconds=0.5,
    )  # fmt: skip
    found = patch_colours(poster(source, tmp_path / "out", format=format))
    assert np.abs(found - np.array(PATCHES)).max() < 6


def test_ten_bits_have_the_same_colours(tmp_path: Path) -> None:
    frame = yuv_frame(patches(), "bt709", bits=10)
    colour = Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv")
    source = make_video(
        tmp_path / "in.mkv", size=(256, 64), rate=10, frames=still(frame, 5), audio=(), colour=colour,
        options={"crf": "1"}, seconds=0.5, pixel_format="yuv420p10le",
    )  # fmt: skip
    found = patch_colours(poster(source, tmp_path / "out"))
    assert np.abs(found - np.array(PATCHES)).max() < 6


def test_hdr_white_and_black_stay_in_place(tmp_path: Path) -> None:
    frame = yuv_frame(
        patches(colours=((0, 0, 0), (128, 128, 128), (200, 200, 200), (255, 255, 255))), "bt2020nc", bits=10
    )
    colour = Colour(primaries="bt2020", transfer="smpte2084", matrix="bt2020nc", range="tv")
    source = make_video(
        tmp_path / "in.mkv", size=(256, 64), rate=10, frames=still(frame, 5), audio=(), colour=colour, codec="hevc",
        seconds=0.5, pixel_format="yuv420p10le",
    )  # fmt: skip
    found = patch_colours(poster(source, tmp_path / "out"), 4)
    levels = found.mean(axis=1)
    assert levels[0] < 12
    assert levels[3] > 235
    assert list(levels) == sorted(levels)
    assert np.abs(found - levels[:, None]).max() < 6, "grey stays grey"


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_pictures_are_turned_as_players_turn_them(tmp_path: Path, rotation: int) -> None:
    coded = corners((96, 64))
    frame = yuv_frame(coded, "smpte170m")
    source = make_video(
        tmp_path / "in.mp4", size=(96, 64), rate=10, frames=still(frame, 5), audio=(), rotation=rotation, seconds=0.5
    )
    shown = poster(source, tmp_path / "out").astype(int)
    expected = np.rot90(coded, -rotation // 90).astype(int)
    assert shown.shape == expected.shape
    for y, x in ((4, 4), (4, -5), (-5, 4), (-5, -5)):
        assert np.abs(shown[y, x] - expected[y, x]).max() < 25


@pytest.mark.parametrize(("size", "sar", "shown"), [((72, 64), Fraction(4, 3), (96, 64)), ((95, 63), None, (95, 63))])
def test_pixels_are_square_and_odd_sizes_stay(
    tmp_path: Path, size: tuple[int, int], sar: Fraction | None, shown: tuple[int, int]
) -> None:
    # Matroska's muxer is not told of the shape, MP4 has no FFV1
    name, codec, pixel_format = ("in.mp4", "h264", "yuv420p") if sar else ("in.mkv", "ffv1", "yuv444p")
    source = make_video(
        tmp_path / name, size=size, rate=10, seconds=0.5, audio=(), sar=sar, codec=codec, pixel_format=pixel_format
    )
    assert poster(source, tmp_path / "out").shape == (shown[1], shown[0], 3)


def test_interlaced_pictures_have_no_combs(tmp_path: Path) -> None:
    source = make_video(
        tmp_path / "in.mkv", size=(320, 240), rate=25, seconds=1, audio=(), interlaced="top", codec="mpeg2video",
        bit_rate=4_000_000,
    )  # fmt: skip
    made = poster(source, tmp_path / "out", at_seconds=0.5).astype(int).mean(axis=2)
    lines = np.abs(made[1:-1:2] - (made[:-2:2] + made[2::2]) / 2).mean()
    fields = np.abs(made[2:-2] - (made[:-4] + made[4:]) / 2).mean()
    assert lines < 2 * fields


def test_still_images_and_single_frames_are_inputs(tmp_path: Path) -> None:
    image = make_picture(tmp_path / "in.png", size=(120, 80))
    assert poster(image, tmp_path / "a").shape == (80, 120, 3)
    one = make_video(tmp_path / "one.mp4", size=(96, 64), frames=[plain_picture((96, 64), 120)], audio=(), seconds=0.04)
    assert poster(one, tmp_path / "b").mean() == pytest.approx(121, abs=3)
    sheet = go(one, tmp_path / "c", {"type": "contact_sheet", "name": "s", "width": 64, "gap": 0})
    assert sheet.outputs[0].renditions[0].frames == 1
    assert picture(tmp_path / "c" / "s.jpg").shape == (43, 64, 3)


def test_alpha_lies_over_black(tmp_path: Path) -> None:
    image = make_picture(tmp_path / "in.png", size=(64, 48), pixel_format="rgba")
    assert poster(image, tmp_path / "out").shape == (48, 64, 3)


def test_cover_is_the_poster_of_sound(tmp_path: Path) -> None:
    source = make_audio(tmp_path / "in.mp3", seconds=1, cover=True)
    assert poster(source, tmp_path / "out").shape == (64, 64, 3)
    with pytest.raises(UnsupportedSpec, match="a poster would be its cover"):
        go(source, tmp_path / "out", {"type": "contact_sheet"})


def test_contact_sheet_has_every_picture_in_its_place(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4", size=(160, 96))
    asked = {"type": "contact_sheet", "name": "s", "columns": 4, "rows": 2, "width": 160, "gap": 6, "quality": 95}
    go(source, tmp_path / "out", {**asked, "background": "#204060"})
    sheet = picture(tmp_path / "out" / "s.jpg").astype(int)
    assert sheet.shape == (2 * 96 + 3 * 6, 4 * 160 + 5 * 6, 3)
    assert np.abs(sheet[2, 2] - (0x20, 0x40, 0x60)).max() < 8
    for number in range(8):
        row, column = divmod(number, 4)
        top, left = 6 + row * 102, 6 + column * 166
        tile = sheet[top + 4 : top + 60, left + 4 : left + 100]
        assert time_shown(tile) == pytest.approx(number / 2 + 0.25, abs=0.11)
    label = sheet[6 + 96 - 20 : 6 + 96, 6 + 160 - 40 : 6 + 160]
    assert label.max() > 200, "white digits"


def test_digits_differ_and_times_read_as_clocks() -> None:
    masks = {text_mask(digit, 1).tobytes() for digit in "0123456789"}
    assert len(masks) == 10
    assert text_mask("1:23", 3).shape[0] == 3 * HEIGHT
    assert (clock(0), clock(65.9), clock(3661)) == ("0:00", "1:05", "1:01:01")
