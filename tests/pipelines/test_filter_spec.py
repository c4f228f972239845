"""Filters as data: what is taken, what is refused, and that nothing of it reaches FFmpeg as words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from pipelines.asked.filters import MAX_FILTERS
from pipelines.asked.rungs import Rung
from pipelines.asked.stream_outputs import HlsOutput
from pipelines.spec import FileJob

GOOD: list[dict[str, Any]] = [
    {"type": "crop", "width": 640, "height": 360},
    {"type": "rotate", "degrees": 90},
    {"type": "mirror", "axis": "vertical"},
    {"type": "pad", "aspect": "16:9", "colour": "#102030"},
    {"type": "denoise", "level": "light"},
    {"type": "sharpen"},
    {"type": "overlay", "image": {"upload": "abc"}, "width": "12.5%", "margin_x": 10, "end_seconds": 4.5},
    {"type": "fade", "in_seconds": 1.5},
]

BAD: list[dict[str, Any]] = [
    {"type": "movie", "filename": "/etc/passwd"},
    {"type": "crop"},
    {"type": "crop", "width": 640},
    {"type": "crop", "auto": True, "width": 640, "height": 360},
    {"type": "crop", "auto": True, "x": 0},
    {"type": "crop", "width": "iw", "height": "ih"},
    {"type": "crop", "width": -2, "height": 360},
    {"type": "crop", "width": 640, "height": 360, "x": -1},
    {"type": "crop", "width": 10**9, "height": 360},
    {"type": "crop", "width": 640, "height": 360, "exact": 1},
    {"type": "rotate", "degrees": 45},
    {"type": "rotate"},
    {"type": "mirror", "axis": "both"},
    {"type": "pad"},
    {"type": "pad", "width": 640},
    {"type": "pad", "width": 641, "height": 360},
    {"type": "pad", "width": 640, "height": 360, "aspect": "16:9"},
    {"type": "pad", "aspect": "16:0"},
    {"type": "pad", "aspect": "0:9"},
    {"type": "pad", "aspect": "16:9,drawtext"},
    {"type": "pad", "aspect": "1000:1"},
    {"type": "pad", "aspect": "１６:９"},
    {"type": "pad", "aspect": "16:9", "colour": "red"},
    {"type": "pad", "aspect": "16:9", "colour": "#fff"},
    {"type": "pad", "aspect": "16:9", "colour": "#00000g"},
    {"type": "pad", "aspect": "16:9", "colour": "black@0.5,movie=x"},
    {"type": "denoise", "level": 64},
    {"type": "denoise", "level": "extreme"},
    {"type": "sharpen", "level": None},
    {"degrees": 90},
    {"type": "overlay"},
    {"type": "overlay", "image": "/etc/passwd"},
    {"type": "overlay", "image": {}},
    {"type": "overlay", "image": {"url": "http://127.0.0.1/logo.png"}},
    {"type": "overlay", "image": {"upload": "a", "path": "b"}},
    {"type": "overlay", "image": {"upload": ""}},
    {"type": "overlay", "image": {"upload": "a"}, "width": "main_w/4"},
    {"type": "overlay", "image": {"upload": "a"}, "width": 0},
    {"type": "overlay", "image": {"upload": "a"}, "width": "0%"},
    {"type": "overlay", "image": {"upload": "a"}, "margin_x": "101%"},
    {"type": "overlay", "image": {"upload": "a"}, "margin_x": -1},
    {"type": "overlay", "image": {"upload": "a"}, "opacity": 0},
    {"type": "overlay", "image": {"upload": "a"}, "opacity": float("nan")},
    {"type": "overlay", "image": {"upload": "a"}, "anchor": "10:10"},
    {"type": "overlay", "image": {"upload": "a"}, "start_seconds": 3, "end_seconds": 3},
    {"type": "overlay", "image": {"upload": "a"}, "start_seconds": float("inf")},
    {"type": "fade"},
    {"type": "fade", "in_seconds": -1},
    {"type": "fade", "in_seconds": 61},
    {"type": "fade", "in_seconds": "1:enable=0"},
]


@pytest.mark.parametrize("each", GOOD, ids=lambda each: str(each["type"]))
def test_a_filter_survives_being_stored(each: dict[str, Any]) -> None:
    rung = Rung.model_validate({"filters": [each]})
    assert Rung.model_validate_json(rung.model_dump_json()) == rung


@pytest.mark.parametrize("each", BAD, ids=str)
def test_what_is_no_filter_is_refused(each: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Rung.model_validate({"filters": [each]})


def test_a_filter_is_in_a_list_once() -> None:
    with pytest.raises(ValidationError, match="more than once"):
        Rung.model_validate({"filters": [GOOD[1], GOOD[1]]})


def test_some_images_may_be_in_a_list_and_not_many() -> None:
    images = [{"type": "overlay", "image": {"upload": str(number)}} for number in range(5)]
    assert len(Rung.model_validate({"filters": images[:4]}).filters) == 4
    with pytest.raises(ValidationError, match="at most 4 images"):
        Rung.model_validate({"filters": images})


def test_a_list_of_filters_ends() -> None:
    with pytest.raises(ValidationError, match=f"at most {MAX_FILTERS}"):
        Rung.model_validate({"filters": [GOOD[0]] * (MAX_FILTERS + 1)})


@pytest.mark.parametrize("kind", ["hls", "dash", "cmaf"])
def test_a_ladder_has_filters_of_its_own_and_of_its_rungs(kind: str) -> None:
    output = {"type": kind, "filters": [GOOD[0]], "video": [{"height": 360, "filters": [GOOD[4]]}]}
    job = FileJob.model_validate({"input": {"path": "a.mp4"}, "outputs": [output]})
    assert FileJob.model_validate_json(job.model_dump_json()) == job


@pytest.mark.parametrize(
    "each",
    [{"type": "crop", "auto": True}, {"type": "fade", "in_seconds": 1}, GOOD[6]],
    ids=lambda each: str(each["type"]),
)
def test_a_stream_refuses_what_needs_a_whole_file(each: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"in a stream|for files"):
        HlsOutput.model_validate({"video": {"filters": [each]}})


@pytest.mark.parametrize("each", GOOD[:6], ids=lambda each: str(each["type"]))
def test_a_stream_takes_the_others(each: dict[str, Any]) -> None:
    output = HlsOutput.model_validate({"video": {"filters": [each]}})
    assert HlsOutput.model_validate_json(output.model_dump_json()) == output
