"""Film at 29.97 pictures a second, found by measurement: it comes out as film, and what is no film is deinterlaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from av.filter import Graph
from av.video.frame import VideoFrame

from pipelines.facts.pulldown import film_pattern, turns_pattern
from pipelines.facts.survey import examine
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.plan import plan
from pipelines.rendition import VideoRendition
from tests.fields import woven
from tests.jobs import DEVICE
from tests.measure import decode_video
from tests.media import make_video
from tests.pictures import FAST, job, made, plane_of, seen
from tests.signals import moving_pictures

SIZE = (320, 240)
FILM, VIDEO = Fraction(24_000, 1001), Fraction(30_000, 1001)


def film(count: int) -> list[VideoFrame]:
    return list(moving_pictures(SIZE, FILM, Fraction(count) / FILM, "yuv420p"))


def telecined(frames: Iterable[VideoFrame], first: Literal["top", "bottom"] = "top") -> Iterator[VideoFrame]:
    """Four pictures in five, by FFmpeg's own filter."""
    graph: Any = Graph()
    shape = {"video_size": f"{SIZE[0]}x{SIZE[1]}", "pix_fmt": "yuv420p", "pixel_aspect": "1/1"}
    source = graph.add("buffer", time_base=str(1 / FILM), frame_rate=str(FILM), **shape)
    steps = [graph.add("telecine", first_field=first, pattern="23"), graph.add("buffersink")]
    source.link_to(steps[0])
    steps[0].link_to(steps[1])
    graph.configure()
    for number, frame in enumerate(frames):
        frame.pts, frame.time_base = number, 1 / FILM
        source.push(frame)
        while True:
            try:
                yield steps[1].pull()
            except BlockingIOError:
                break


def counted(frames: Iterable[VideoFrame]) -> Iterator[VideoFrame]:
    for number, frame in enumerate(frames):
        frame.pts, frame.time_base = number, 1 / VIDEO
        yield frame


def clip(path: Path, frames: Iterable[VideoFrame], count: int, **more: Any) -> Path:
    options: dict[str, Any] = {"codec": "mpeg2video", "bit_rate": 8_000_000, "interlaced": "top", "gop": 15}
    return make_video(
        path, size=SIZE, rate=VIDEO, seconds=count / VIDEO, frames=counted(frames), audio=(), **options | more
    )


def planned(path: Path, **video: Any) -> VideoRendition:
    spec = job(path, {"type": "mp4", "video": {**FAST, **video}})
    rendition = plan(spec, examine(spec, LocalFile(path, path.name), Limits()), DEVICE).outputs[0].renditions[0]
    assert isinstance(rendition, VideoRendition)
    return rendition


def kinds(rendition: VideoRendition) -> list[str]:
    return [step.kind for step in rendition.filters if step.kind in ("deinterlace", "inverse_telecine")]


def psnr(one: VideoFrame, other: VideoFrame) -> float:
    a, b = (plane_of(frame)[8:-8, 8:-8].astype(float) for frame in (one, other))
    return float(10 * np.log10(255**2 / max(1e-9, np.square(a - b).mean())))


@pytest.mark.parametrize("first", ["top", "bottom"])
def test_telecined_film_comes_back_picture_by_picture(tmp_path: Path, first: Literal["top", "bottom"]) -> None:
    original = film(48)
    path = clip(tmp_path / "in.mkv", telecined(film(48), first), 60, interlaced=first)
    rendition = planned(path)
    assert kinds(rendition) == ["inverse_telecine"]
    assert f"film in 3:2 pulldown, {first} field first (measured all over it): taken back" in rendition.reason
    assert rendition.frame_rate == FILM
    output = decode_video(made(path, tmp_path / "out", "mp4"))
    assert len(output.frames) in (47, 48)
    assert np.diff([float(time) for time in output.times]) == pytest.approx(float(1 / FILM), abs=0.001)
    # not one picture twice: each is nearest to its own, and near
    near = [range(max(0, at - 3), min(48, at + 4)) for at in range(2, len(output.frames) - 2)]
    shown = zip(output.frames[2:-2], near, strict=True)
    matches = [max(around, key=lambda n, frame=frame: psnr(frame, original[n])) for frame, around in shown]
    assert matches == list(range(matches[0], matches[0] + len(matches)))
    assert min(psnr(frame, original[n]) for frame, n in zip(output.frames[2:-2], matches, strict=True)) > 30
    assert seen(tmp_path / "out" / "output.mp4").field_order == "progressive"


def test_interlaced_video_is_deinterlaced_as_ever(tmp_path: Path) -> None:
    path = clip(tmp_path / "in.mkv", woven(SIZE, 45, "top"), 45)
    rendition = planned(path)
    assert kinds(rendition) == ["deinterlace"]
    assert "top field first (measured): one frame per frame" in rendition.reason
    assert rendition.frame_rate == VIDEO


def test_what_is_film_in_one_place_only_is_deinterlaced(tmp_path: Path) -> None:
    video = (frame for _ in range(4) for frame in woven(SIZE, 45, "top"))
    path = clip(tmp_path / "in.mkv", chain(telecined(film(144)), video), 360)
    assert seen(path).interlacing == "top"
    assert kinds(planned(path)) == ["deinterlace"]
    # a clip of the part that is film is film
    spec = job(path, {"type": "mp4"}).model_copy()
    clipped = spec.model_copy(update={"input": spec.input.model_validate({"path": "in", "clip": {"end": 5.0}})})
    assert examine(clipped, LocalFile(path, "in"), Limits()).video[0].pulldown == "hard"


@pytest.mark.parametrize("wish", ["off", "on", "bob"])
def test_who_asks_for_something_else_gets_that(tmp_path: Path, wish: str) -> None:
    path = clip(tmp_path / "in.mkv", telecined(film(40)), 50)
    assert kinds(planned(path, deinterlace=wish)) == ([] if wish == "off" else ["deinterlace"])


@pytest.mark.parametrize("container", ["mkv", "ts"])
def test_pictures_of_two_and_three_fields_are_evenly_spaced_again(tmp_path: Path, container: str) -> None:
    fields = [0]
    for number in range(60):
        fields.append(fields[-1] + (3, 2)[number % 2])
    stamps = [Fraction(1001 * field, 60_000) for field in fields[:60]]
    path = make_video(
        tmp_path / f"in.{container}", size=SIZE, rate=VIDEO, seconds=60 / FILM, frames=film(60), audio=(),
        timestamps=stamps, end=Fraction(1001 * fields[60], 60_000),
    )  # fmt: skip
    assert seen(path).uneven
    rendition = planned(path)
    assert (rendition.frame_rate, rendition.constant_rate) == (FILM, True)
    assert "film in soft pulldown" in rendition.reason
    output = decode_video(made(path, tmp_path / "out", "mp4"))
    assert len(output.frames) == 60
    assert np.diff([float(time) for time in output.times]) == pytest.approx(float(1 / FILM), abs=0.001)
    original = film(60)
    assert min(psnr(frame, original[n]) for n, frame in enumerate(output.frames)) > 30


@pytest.mark.parametrize("rate", [FILM, VIDEO, Fraction(25), Fraction(60)])
def test_even_pictures_keep_their_own_timing(tmp_path: Path, rate: Fraction) -> None:
    path = make_video(tmp_path / "in.mkv", size=SIZE, rate=rate, seconds=2, audio=())
    assert not seen(path).uneven
    assert not planned(path).constant_rate


W, C, N = "progressive", "top", None
PATTERNS: list[tuple[list[Any], bool | None]] = [
    ([W, W, C, C, W] * 6, True),
    ([C, W, W, W, C] * 6, True),
    ([W, N, C, C, N] * 6, True),
    ([W, W, C, C, W] * 5 + [W, C, C, W, W], True),
    ([C] * 30, False),
    ([W] * 30, False),
    ([W, C] * 15, False),
    ([W, C, C, C, W] * 6, False),
    ([W, W, C, C, W] * 3 + [C] * 15, False),
    ([W] * 10, None),
    ([N] * 30, None),
    ([], None),
]


@pytest.mark.parametrize(("scans", "expected"), PATTERNS)
def test_a_pattern_is_two_neighbours_of_each_five(scans: list[Any], expected: bool | None) -> None:
    assert film_pattern(scans) is expected


def stamps(*lasts: int, times: int = 20) -> list[int]:
    found = [0]
    for _ in range(times):
        for last in lasts:
            found.append(found[-1] + last)
    return found


@pytest.mark.parametrize(
    ("times", "base", "expected"),
    [
        (stamps(4504, 3003, 4505, 3003), 90_000, True),
        (stamps(50, 33, 50, 34), 1000, True),
        (stamps(3003, times=40), 90_000, False),
        (stamps(4504, 4505), 90_000, False),
        (stamps(4504, 3003, 3003), 90_000, False),
        (stamps(3600, 7200), 90_000, False),
        (stamps(50, 33, times=8), 1000, None),
        ([], 1000, None),
    ],
)
def test_turns_are_of_two_and_three_fields(times: list[int], base: int, expected: bool | None) -> None:
    assert turns_pattern(times, Fraction(1, base)) is expected
