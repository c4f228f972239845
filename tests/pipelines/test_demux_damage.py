"""Inputs that are cut, empty or overwritten: the rule of `pipelines.completeness`, and nothing crashes or hangs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import BadInput, LimitExceeded, NoFrames, Truncated, UnsupportedSpec
from tests.jobs import SMALL, rest_slow, run_job, transcoded, warning_counts
from tests.measure import decode_video
from tests.media import Tone, make_audio, make_video

VIDEO = ("mp4", "mkv", "ts", "avi", "webm")
PROMISING = ("mp4", "mkv", "avi", "webm", "flac", "mp3", "wav", "m4a")
SECONDS = 3


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same 3 s in every format; the MP4 has its index first, the M4A last."""
    folder = tmp_path_factory.mktemp("media")
    clip: dict[str, Any] = {"size": (96, 64), "seconds": SECONDS, "gop": 25}
    made = {
        "mp4": make_video(folder / "a.mp4", b_frames=2, container_options={"movflags": "faststart"}, **clip),
        "mkv": make_video(folder / "a.mkv", b_frames=2, **clip),
        "ts": make_video(folder / "a.ts", b_frames=2, **clip),
        "avi": make_video(folder / "a.avi", audio=(Tone("mp3"),), **clip),
        "webm": make_video(folder / "a.webm", codec="vp9", audio=(Tone("opus"),), **clip),
    }
    sounds = ("flac", "mp3", "wav", "m4a", "opus")
    return made | {form: make_audio(folder / f"a.{form}", seconds=SECONDS) for form in sounds}


def output_for(form: str) -> dict[str, Any]:
    return {"type": "mp4", "video": SMALL} if form in VIDEO else {"type": "audio", "format": "flac"}


def cut(path: Path, share: float, folder: Path) -> Path:
    target = folder / f"cut{path.suffix}"
    target.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    return target


@pytest.mark.parametrize("share", rest_slow([0.5, 0.9, 0.25], 1))
@pytest.mark.parametrize("form", PROMISING)
def test_a_cut_file_is_truncated(media: dict[str, Path], tmp_path: Path, form: str, share: float) -> None:
    with pytest.raises(Truncated) as caught:
        run_job(cut(media[form], share, tmp_path), tmp_path, output_for(form))
    assert caught.value.code == "truncated"
    assert not caught.value.retryable


@pytest.mark.parametrize("form", ["mp4", "mkv", "avi", "flac", "mp3", "wav"])
def test_a_cut_file_is_taken_as_it_is_when_the_job_says_so(media: dict[str, Path], tmp_path: Path, form: str) -> None:
    _, result = transcoded(cut(media[form], 0.6, tmp_path), tmp_path, output_for(form), max_missing=1)
    assert 1 < (result.outputs[0].duration_seconds or 0) < 2.6


@pytest.mark.parametrize("form", ["mp4", "mkv", "webm", "flac", "mp3"])
def test_what_is_missing_within_the_allowance_is_counted(media: dict[str, Path], tmp_path: Path, form: str) -> None:
    _, result = transcoded(cut(media[form], 0.8, tmp_path), tmp_path, output_for(form), max_missing=0.5)
    assert "short_input" in warning_counts(result)


@pytest.mark.parametrize("form", ["ts", "opus"])
def test_formats_that_promise_nothing_end_where_they_are_cut(media: dict[str, Path], tmp_path: Path, form: str) -> None:
    """A transport stream may be cut anywhere, and has no header to compare with."""
    _, result = transcoded(cut(media[form], 0.6, tmp_path), tmp_path, output_for(form))
    assert 0.9 < (result.outputs[0].duration_seconds or 0) < 2.2


@pytest.mark.parametrize("form", ["mp4", "mkv", "avi", "flac"])
def test_hardly_more_than_a_header_is_an_error_with_a_code(media: dict[str, Path], tmp_path: Path, form: str) -> None:
    with pytest.raises(BadInput) as caught:
        run_job(cut(media[form], 0.02, tmp_path), tmp_path, output_for(form))
    assert caught.value.code in ("truncated", "no_frames", "bad_input")


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts", "a.mp3"])
def test_an_empty_file_is_bad_input(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.touch()
    with pytest.raises(BadInput, match="empty"):
        run_job(path, tmp_path, output_for(path.suffix[1:]))


def damaged(path: Path, folder: Path, seed: int) -> Path:
    """Bytes overwritten at random, zeroed, or taken out."""
    chance = random.Random(seed)
    data = bytearray(path.read_bytes())
    length = len(data) * chance.choice((1, 5, 20)) // 100
    start = chance.randrange(len(data) // 50, len(data) - length)
    kind = seed % 3
    if kind == 0:
        for _ in range(chance.choice((1, 5, 30, 200))):
            at = chance.randrange(len(data) - 64)
            size = chance.randrange(1, 64)
            data[at : at + size] = chance.randbytes(size)
    elif kind == 1:
        data[start : start + length] = bytes(length)
    else:
        del data[start : start + length]
    target = folder / f"damaged{seed}{path.suffix}"
    target.write_bytes(data)
    return target


def ends_by_the_rule(source: Path, folder: Path, form: str) -> None:
    for number, output in enumerate((output_for(form), {"type": "copy", "format": "mkv"})):
        try:
            path, result = transcoded(source, folder / f"{source.stem}{number}", output)
        except (BadInput, LimitExceeded, UnsupportedSpec):
            continue
        lost = SECONDS - (result.outputs[0].duration_seconds or 0)
        counted = warning_counts(result)
        assert path.stat().st_size > 0
        # what is lost is little, or the format could not know
        assert lost < 0.4 or form in ("ts", "opus") or "track_dropped" in counted, (source.name, lost, counted)


@pytest.mark.parametrize("seed", rest_slow(range(3), 2))
@pytest.mark.parametrize("form", ["mp4", "mkv", "ts", "avi"])
def test_damage_ends_by_the_rule(media: dict[str, Path], tmp_path: Path, form: str, seed: int) -> None:
    ends_by_the_rule(damaged(media[form], tmp_path, seed), tmp_path, form)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["mp4", "mkv", "ts", "avi", "webm", "flac", "mp3", "opus", "m4a", "wav"])
def test_any_damage_ends_by_the_rule(media: dict[str, Path], tmp_path: Path, form: str) -> None:
    for seed in range(3, 20):
        ends_by_the_rule(damaged(media[form], tmp_path, seed), tmp_path, form)


def test_damage_in_one_place_is_counted_with_its_time(tmp_path: Path) -> None:
    whole = make_video(tmp_path / "a.mkv", size=(96, 64), seconds=12, gop=25, audio=())
    data = bytearray(whole.read_bytes())
    at = len(data) // 2
    data[at : at + 40] = bytes(40)
    path = tmp_path / "damaged.mkv"
    path.write_bytes(data)
    out, result = transcoded(path, tmp_path / "out", {"type": "mp4", "video": SMALL})
    assert result.warnings
    times = [warning.first_seconds for warning in result.warnings]
    assert all(time is not None and 4 < time < 8 for time in times)
    assert len(decode_video(out).frames) >= 270


def test_a_hole_in_the_middle_is_lost_time(media: dict[str, Path], tmp_path: Path) -> None:
    data = bytearray(media["ts"].read_bytes())
    start = len(data) // 3 // 188 * 188
    del data[start + 50 : start + len(data) // 3]
    path = tmp_path / "hole.ts"
    path.write_bytes(data)
    with pytest.raises(BadInput, match="lost"):
        run_job(path, tmp_path, {"type": "mp4", "video": SMALL})
    _, result = transcoded(path, tmp_path, {"type": "mp4", "video": SMALL}, max_missing=0.6)
    assert "hole" in warning_counts(result)


def test_nothing_decodable_is_no_frames(media: dict[str, Path], tmp_path: Path) -> None:
    data = media["mp4"].read_bytes()
    start = data.index(b"mdat") + 4
    path = tmp_path / "a.mp4"
    path.write_bytes(data[:start] + bytes(len(data) - start))
    with pytest.raises(NoFrames):
        run_job(path, tmp_path, {"type": "mp4"})
