"""Tracks that were asked for and are not there: a warning, or a refusal where certain ones were named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import UnsupportedSpec
from tests.jobs import SMALL, transcoded, warning_counts
from tests.media import make_audio, make_video
from tests.pipelines.facts import audio, planned, source, video

SONG = source(audio())
SILENT = source(video())

RUNG = {"height": 360}
MISSING: list[tuple[dict[str, Any], Any, str]] = [
    ({"type": "mp4", "video": RUNG}, SONG, "no_video"),
    ({"type": "mkv", "video": "copy"}, SONG, "no_video"),
    ({"type": "hls", "video": [RUNG]}, SONG, "no_video"),
    ({"type": "mp4", "audio": {"codec": "aac"}}, SILENT, "no_audio"),
    ({"type": "mkv", "audio": "copy"}, SILENT, "no_audio"),
    ({"type": "cmaf", "audio": {"bitrate": 96_000}}, SILENT, "no_audio"),
    ({"type": "mkv", "subtitles": {"languages": ["ger"]}}, SILENT, "no_subtitles"),
]


@pytest.mark.parametrize(("output", "of", "code"), MISSING)
def test_a_kind_of_track_that_was_asked_for_and_is_not_there_is_a_warning(
    output: dict[str, Any], of: Any, code: str
) -> None:
    assert [warning.code for warning in planned(output, of).warnings] == [code]


@pytest.mark.parametrize("of", [SONG, SILENT], ids=["song", "silent"])
@pytest.mark.parametrize("output", [{"type": "mp4"}, {"type": "hls"}, {"type": "webm", "subtitles": {}}])
def test_nothing_is_missed_that_nobody_asked_for(output: dict[str, Any], of: Any) -> None:
    assert planned(output, of).warnings == ()


def test_what_was_asked_not_to_be_there_is_not_missed() -> None:
    assert planned({"type": "mp4", "audio": None}, SILENT).warnings == ()
    assert planned({"type": "mp4", "video": None}, SONG).warnings == ()


@pytest.mark.parametrize("asked", [{"tracks": [0]}, {"languages": ["eng"]}])
@pytest.mark.parametrize("kind", ["mp4", "hls"])
def test_certain_tracks_of_an_input_without_sound_are_refused(kind: str, asked: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedSpec, match="no sound"):
        planned({"type": kind, "audio": asked}, SILENT)


def test_the_job_carries_the_warning(tmp_path: Path) -> None:
    song = make_audio(tmp_path / "in.m4a", seconds=1)
    _, result = transcoded(song, tmp_path / "song", {"type": "mp4", "video": SMALL})
    assert warning_counts(result) == {"no_video": 1}
    silent = make_video(tmp_path / "in.mp4", size=(96, 64), seconds=1, audio=())
    _, result = transcoded(silent, tmp_path / "silent", {"type": "mp4", "video": SMALL, "audio": {"codec": "aac"}})
    assert warning_counts(result) == {"no_audio": 1}
