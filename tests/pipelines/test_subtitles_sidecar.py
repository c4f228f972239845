"""Subtitle tracks as files of their own: SRT, WebVTT and ASS, of every kind of text track."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pipelines.errors import UnsupportedSpec
from tests.captions import captions, make_pgs
from tests.jobs import SMALL, transcoded
from tests.media import Subtitles
from tests.pictures import go, job
from tests.pipelines.test_subtitles_text import CUES, SOURCES, clip


def sidecar(path: Path, folder: Path, form: str = "srt", **more: Any) -> Path:
    output, _ = transcoded(path, folder, {"type": "subtitles", "format": form, **more.pop("output", {})}, **more)
    return output


def shown(path: Path) -> list[tuple[float, float, str]]:
    """Begin, end and text of each cue as the file has it."""
    found = captions(path)
    # what ASS has before its text are the fields of its events
    texts = [cue.text.split(",", 8)[8] if path.suffix == ".ass" else cue.text for cue in found]
    return [(cue.begin, cue.end, text.replace("\\N", "\n").strip()) for cue, text in zip(found, texts, strict=True)]


@pytest.mark.parametrize("form", ["srt", "vtt", "ass"])
@pytest.mark.parametrize(("source", "codec"), SOURCES)
def test_text_and_times_are_those_of_the_track(tmp_path: Path, source: str, codec: str, form: str) -> None:
    path = clip(tmp_path / f"in.{source}", Subtitles(CUES, codec))
    output = sidecar(path, tmp_path / "out", form)
    assert output.suffix == f".{form}"
    # ASS counts hundredths of a second
    near = 0.011 if form == "ass" else 0.002
    for (begin, end, text), (asked_begin, asked_end, asked) in zip(shown(output), CUES, strict=True):
        assert text == asked.replace("\\N", "\n")
        assert (begin, end) == (pytest.approx(asked_begin, abs=near), pytest.approx(asked_end, abs=near))


def test_a_file_is_of_one_track_by_its_place_or_its_language(tmp_path: Path) -> None:
    tracks = (Subtitles(((0.2, 0.8, "one"),), language="eng"), Subtitles(((0.3, 0.9, "zwei"),), language="ger"))
    path = clip(tmp_path / "in.mkv", *tracks)
    asked: list[tuple[dict[str, Any], str]] = [({}, "one"), ({"track": 1}, "zwei"), ({"language": "ger"}, "zwei")]
    for number, (told, text) in enumerate(asked):
        output = sidecar(path, tmp_path / str(number), output=told)
        assert [each[2] for each in shown(output)] == [text]


def test_a_clips_subtitles_begin_with_it(tmp_path: Path) -> None:
    path = clip(tmp_path / "in.mkv", Subtitles(((0.2, 0.8, "before"), (1.2, 1.6, "in it"))))
    output = sidecar(path, tmp_path / "out", input={"path": "in.mkv", "clip": {"start": 1.0, "end": 2.0}})
    assert shown(output) == [(pytest.approx(0.2, abs=0.01), pytest.approx(0.6, abs=0.01), "in it")]


def test_a_clip_without_text_is_an_empty_file(tmp_path: Path) -> None:
    path = clip(tmp_path / "in.mkv", Subtitles(((0.2, 0.4, "before"),)))
    output = sidecar(path, tmp_path / "out", "vtt", input={"path": "in.mkv", "clip": {"start": 1.0, "end": 2.0}})
    assert output.read_text().strip() in ("", "WEBVTT")


def test_subtitles_come_beside_other_outputs_of_the_job(tmp_path: Path) -> None:
    path = clip(tmp_path / "in.mkv", Subtitles(CUES))
    outputs = [{"type": "mp4", "name": "film", "video": SMALL}, {"type": "subtitles", "name": "text", "format": "vtt"}]
    result = go(path, tmp_path / "out", *outputs)
    assert [output.path for output in result.outputs] == ["film.mp4", "text.vtt"]
    assert (tmp_path / "out" / "text.vtt").read_text(encoding="utf-8").startswith("WEBVTT")
    assert len(captions(tmp_path / "out" / "film.mp4")) == len(CUES)


@pytest.mark.parametrize("told", [{"track": 3}, {"language": "fre"}])
def test_a_track_that_is_not_there_is_refused(tmp_path: Path, told: dict[str, Any]) -> None:
    path = clip(tmp_path / "in.mkv", Subtitles(CUES, language="eng"))
    with pytest.raises(UnsupportedSpec, match=r"no subtitle track is as asked|there is no track 3"):
        sidecar(path, tmp_path / "out", output=told)


def test_pictures_are_not_made_text(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedSpec, match="hdmv_pgs_subtitle can't be made text"):
        sidecar(make_pgs(tmp_path / "in.mkv"), tmp_path / "out")


@pytest.mark.parametrize(
    "told", [{"format": "sub"}, {"track": -1}, {"track": 64}, {"language": "../x"}, {"codec": "x"}]
)
def test_what_is_no_sidecar_is_refused(told: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        job(Path("in.mkv"), {"type": "subtitles", **told})
