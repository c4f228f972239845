"""`transcoder run` into ladders, pictures and animations: what OUT and a preset ask for, and what is there then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.presets import load_presets
from pipelines.spec import CmafLadder, ContactSheetOutput, HlsLadder, PosterOutput, ThumbnailsOutput
from tests.stills import cues_in, make_counted, picture
from transcoder.__main__ import main
from transcoder.cli.choices import Choices
from transcoder.cli.failures import CommandError
from transcoder.cli.other_targets import ABLE, USUAL, folder_of, other_output
from transcoder.cli.values import OTHER_SUFFIXES

PRESETS = load_presets()


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_counted(tmp_path_factory.mktemp("media") / "clip.mp4", seconds=2)


def transcoder(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def test_every_extension_has_an_output_of_its_own() -> None:
    assert set(USUAL) == set(ABLE) == set(OTHER_SUFFIXES)
    for suffix, kind in USUAL.items():
        assert isinstance(other_output(Path(f"out{suffix.upper()}"), None, Choices()), kind)


def test_files_of_video_and_sound_are_not_among_them() -> None:
    assert other_output(Path("out.mp4"), None, Choices()) is None
    assert other_output(Path("out.mp4"), PRESETS["h264-720p"], Choices()) is None


@pytest.mark.parametrize(
    ("name", "preset", "kind"),
    [
        ("a.m3u8", "hls", HlsLadder),
        ("a.m3u8", "cmaf-1080p", CmafLadder),
        ("a.mpd", "cmaf-1080p", CmafLadder),
        ("a.vtt", "sprites", ThumbnailsOutput),
        ("a.webp", "poster", PosterOutput),
        ("a.jpg", "contact-sheet", ContactSheetOutput),
    ],
)
def test_preset_goes_where_the_extension_takes_it(name: str, preset: str, kind: type[object]) -> None:
    output = other_output(Path(name), PRESETS[preset], Choices())
    assert isinstance(output, kind)
    if name.endswith(".webp"):
        assert getattr(output, "format", None) == "webp"


@pytest.mark.parametrize(("name", "preset"), [("a.mp4", "poster"), ("a.gif", "poster"), ("a.m3u8", "h264-720p")])
def test_preset_and_extension_that_exclude_each_other_are_refused(name: str, preset: str) -> None:
    with pytest.raises(CommandError, match=preset):
        other_output(Path(name), PRESETS[preset], Choices())


def test_options_that_mean_nothing_there_are_refused() -> None:
    with pytest.raises(CommandError, match="gif does not follow --crf, --audio-codec"):
        other_output(Path("a.gif"), None, Choices(crf=20, audio_codec="aac"))
    poster = other_output(Path("a.jpg"), None, Choices(height=90, start=1.0))
    assert isinstance(poster, PosterOutput)
    assert (poster.width, poster.height) == (None, 90)


def test_ladder_is_a_folder_with_its_playlist(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "film.m3u8"
    assert transcoder("run", clip, out, "--height", "32", "--speed", "ultrafast", "--json", "--quiet") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["path"] == str(tmp_path / "film" / "index.m3u8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["film"]
    written = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / "film").rglob("*") if path.is_file()}
    assert written == set(told["outputs"][0]["files"])


def test_folder_that_exists_is_replaced_by_force_alone(clip: Path, tmp_path: Path) -> None:
    (tmp_path / "thumbs").mkdir()
    (tmp_path / "thumbs" / "old").write_text("old")
    assert transcoder("run", clip, tmp_path / "thumbs.vtt", "--quiet") == 2
    assert [path.name for path in (tmp_path / "thumbs").iterdir()] == ["old"]
    assert transcoder("run", clip, tmp_path / "thumbs.vtt", "--quiet", "--force") == 0
    assert not (tmp_path / "thumbs" / "old").exists()
    assert cues_in(tmp_path / "thumbs" / "thumbnails.vtt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["thumbs"]


def test_folder_of_the_input_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "film").mkdir()
    source = make_counted(tmp_path / "film" / "in.mp4", seconds=1)
    assert transcoder("run", source, tmp_path / "film.m3u8", "--quiet", "--force") == 2
    assert source.exists()


def test_poster_is_a_picture(clip: Path, tmp_path: Path) -> None:
    assert transcoder("run", clip, tmp_path / "p.jpg", "--quiet", "--width", "48") == 0
    assert picture(tmp_path / "p.jpg").shape == (32, 48, 3)


def test_folders_are_named_by_what_is_asked_for() -> None:
    assert folder_of(Path("a/film.m3u8")) == Path("a/film")
    assert folder_of(Path("a/film.mp4")) is None
