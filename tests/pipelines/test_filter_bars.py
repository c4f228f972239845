"""Black bars: found where they are, and never where a film is dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from av.video.frame import VideoFrame

from pipelines.facts.survey import examine
from pipelines.filters import Crop
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.plan import plan
from pipelines.rendition import VideoRendition
from tests.media import make_video
from tests.pictures import DEVICE, Array, fill, go, job, seen

SIZE = (160, 120)
COUNT = 40
RNG = np.random.default_rng(7)
AUTO: list[dict[str, Any]] = [{"type": "crop", "auto": True}]


def film(path: Path, luma: Callable[[int], Array], *, bits: int = 8, **more: Any) -> Path:
    """COUNT frames at 10 a second; levels of limited range (8 bit) by number."""

    def frames() -> Any:
        for number in range(COUNT):
            frame = VideoFrame(*SIZE, "yuv420p" if bits == 8 else "yuv420p10le")
            unit = 1 << (bits - 8)
            fill(frame, 0, luma(number) * unit, bits)
            for plane in (1, 2):
                fill(frame, plane, np.full((SIZE[1] // 2, SIZE[0] // 2), 128 * unit), bits)
            yield frame

    options = {"options": {"crf": "26"}, "gop": 10, "pixel_format": "yuv420p" if bits == 8 else "yuv420p10le", **more}
    return make_video(path, size=SIZE, rate=10, seconds=4, frames=frames(), audio=(), **options)


def scene(number: int, level: float = 1.0) -> Array:
    """Blocks that move, as bright as `level`."""
    y, x = np.mgrid[0 : SIZE[1], 0 : SIZE[0]]
    blocks = ((x // 16 + y // 16 + number // 4) % 3) * 60 + 40
    return 16 + blocks * level + RNG.normal(0, 2, (SIZE[1], SIZE[0])) * level


def barred(picture: Array, top: int = 0, left: int = 0) -> Array:
    out = np.full_like(picture, 16)
    out[top : SIZE[1] - top, left : SIZE[0] - left] = picture[top : SIZE[1] - top, left : SIZE[0] - left]
    return np.clip(np.round(out), 1, 254).astype(int)


def crops(path: Path) -> list[Crop]:
    spec = job(path, {"type": "mp4", "video": {"filters": AUTO}})
    planned = plan(spec, examine(spec, LocalFile(path, path.name), Limits()), DEVICE)
    rendition = planned.outputs[0].renditions[0]
    assert isinstance(rendition, VideoRendition)
    return [step for step in rendition.filters if isinstance(step, Crop)]


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize(("top", "left"), [(14, 0), (0, 20), (14, 20), (15, 0)])
def test_bars_are_cut_off_and_nothing_of_the_picture(tmp_path: Path, bits: int, top: int, left: int) -> None:
    codec = "h264" if bits == 8 else "hevc"
    path = film(tmp_path / "film.mkv", lambda n: barred(scene(n), top, left), bits=bits, codec=codec)
    (crop,) = crops(path)
    assert (crop.x, crop.y) == (left, top + top % 2)
    assert (crop.width, crop.height) == (SIZE[0] - 2 * left, SIZE[1] - 2 * (top + top % 2))


def test_a_film_without_bars_is_left_whole(tmp_path: Path) -> None:
    assert crops(film(tmp_path / "film.mkv", lambda n: barred(scene(n)))) == []


def test_dark_scenes_with_bars_between_bright_ones_crop_nothing_of_these(tmp_path: Path) -> None:
    def luma(number: int) -> Array:
        return barred(scene(number), 30 if number < 20 else 0)

    assert crops(film(tmp_path / "film.mkv", luma)) == []


@pytest.mark.parametrize("kind", ["night", "spot", "vignette", "black"])
def test_a_dark_film_is_never_cropped(tmp_path: Path, kind: str) -> None:
    y, x = np.mgrid[0 : SIZE[1], 0 : SIZE[0]]
    spots = {
        "night": lambda n: scene(n, 0.06),
        "spot": lambda n: 16 + 180.0 * (np.hypot(x - 70 - n % 7, y - 55 - n % 5) < 22),
        "vignette": lambda n: 16 + 200 * np.clip(1 - (np.hypot(x - 80, y - 60) / 62) ** 2, 0, 1) * (0.7 + n % 4 / 10),
        "black": lambda n: np.full((SIZE[1], SIZE[0]), 16.0),
    }
    assert crops(film(tmp_path / "film.mkv", lambda n: barred(spots[kind](n)))) == []


def test_dark_scenes_do_not_hide_bars_that_bright_ones_show(tmp_path: Path) -> None:
    def luma(number: int) -> Array:
        return barred(scene(number, 0.05 if number % 20 < 12 else 1.0), 16)

    assert [(c.y, c.height) for c in crops(film(tmp_path / "film.mkv", luma))] == [(16, 88)]


def test_subtitles_in_a_bar_are_kept(tmp_path: Path) -> None:
    def luma(number: int) -> Array:
        picture = barred(scene(number), 20)
        if 18 <= number < 30:
            picture[106:112, 50:110] = 200
        return picture

    (crop,) = crops(film(tmp_path / "film.mkv", luma))
    assert crop.y == 20
    assert crop.y + crop.height >= 112


def test_bars_of_a_turned_picture_are_cut_where_they_are(tmp_path: Path) -> None:
    path = film(tmp_path / "film.mp4", lambda n: barred(scene(n), 20), rotation=90)
    result = go(path, tmp_path / "out", {"type": "mp4", "video": {"filters": AUTO}})
    told = seen(tmp_path / "out" / result.outputs[0].path)
    assert (told.width, told.height, told.rotation) == (80, 160, 0)


def test_rungs_of_a_ladder_are_of_the_picture_without_its_bars(tmp_path: Path) -> None:
    path = film(tmp_path / "film.mkv", lambda n: barred(scene(n), 20))
    ladder = {"type": "hls", "filters": AUTO, "video": [{"height": 80}, {"height": 40}], "segment_seconds": 2}
    result = go(path, tmp_path / "out", ladder)
    playlist = (tmp_path / "out" / result.outputs[0].path).read_text()
    assert "RESOLUTION=160x80" in playlist
    assert "RESOLUTION=80x40" in playlist
