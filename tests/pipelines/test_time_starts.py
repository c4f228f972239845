"""Where things start: tracks that begin late, clocks that begin anywhere, edit lists. The output starts at 0."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.edit_lists import Edit, first_media_time, set_edit_list, track_ticks
from tests.jobs import SMALL, rest_slow, transcoded, warning_counts
from tests.measure import click_times, decode_audio, decode_video, flash_times
from tests.media import Tone, make_video
from tests.signals import plain_picture

SIZE = (96, 64)
RATE = 30
FLASHES = (Fraction(1, 2), Fraction(3, 2))
TEN_HOURS = Fraction(36_000)
NONE = Fraction(0)
QUARTER, THIRD = Fraction(1, 4), Fraction(1, 3)


def flash_click(
    path: Path, *, picture_late: Fraction = NONE, sound_late: Fraction = NONE, start: Fraction = NONE, **more: Any
) -> Path:
    """2 s with flashes and clicks at 0.5 and 1.5 s, whose picture or sound begins late."""
    count = 2 * RATE
    flashes = {round((time - picture_late) * RATE) for time in FLASHES}
    return make_video(
        path,
        size=SIZE,
        rate=RATE,
        frames=(plain_picture(SIZE, 235 if number in flashes else 16) for number in range(count)),
        timestamps=[picture_late + Fraction(number, RATE) for number in range(count)],
        audio=(Tone(layout="mono", clicks=tuple(t - sound_late for t in FLASHES), amplitude=0.8, start=sound_late),),
        start=start,
        **more,
    )


def assert_at(path: Path, flashes: Sequence[float], clicks: Sequence[float]) -> None:
    assert [float(time) for time in flash_times(path)] == pytest.approx(flashes, abs=0.004)
    assert click_times(path) == pytest.approx(clicks, abs=0.004)


@pytest.mark.parametrize("start", [NONE, TEN_HOURS], ids=["at 0", "at 10 h"])
@pytest.mark.parametrize(("picture", "sound"), [(NONE, QUARTER), (THIRD, NONE)], ids=["sound late", "picture late"])
@pytest.mark.parametrize("form", rest_slow(["mp4", "mkv", "ts"], 1))
@pytest.mark.parametrize("copied", [False, True], ids=["encoded", "copied"])
def test_offset_of_sound_and_picture_is_kept_and_the_output_starts_at_zero(
    tmp_path: Path, form: str, picture: Fraction, sound: Fraction, start: Fraction, copied: bool
) -> None:
    source = flash_click(tmp_path / f"in.{form}", picture_late=picture, sound_late=sound, start=start)
    output: dict[str, Any] = {"type": "copy", "format": "mkv"} if copied else {"type": "mp4", "video": SMALL}
    path, result = transcoded(source, tmp_path / "out", output)
    shown, heard = flash_times(path), click_times(path)
    assert len(shown) == len(heard) == 2
    assert all(abs(float(flash) - click) < 0.003 for flash, click in zip(shown, heard, strict=True))
    # a source whose clock starts before its picture and sound starts with what its encoder put before them
    assert 0.498 < shown[0] < 0.525
    assert min(decode_video(path, limit=1).times[0], decode_audio(path).start) == 0
    assert not result.warnings


SKIPPED = Fraction(3, 10)
Edits = Sequence[tuple[int, Fraction | None]]
"""(milliseconds shown, from where in the track's media; None: nothing shown)"""
WHOLE: Edits = [(2000, NONE)]
EDIT_LISTS: list[tuple[str, Edits, Edits, list[float], list[float], int]] = [
    ("both skipped", [(1700, SKIPPED)], [(1700, SKIPPED)], [0.2, 1.2], [0.2, 1.2], 51),
    ("picture skipped", [(1700, SKIPPED)], WHOLE, [0.2, 1.2], [0.5, 1.5], 51),
    ("sound skipped", WHOLE, [(1700, SKIPPED)], [0.5, 1.5], [0.2, 1.2], 60),
    ("ended early", [(1200, NONE)], [(1200, NONE)], [0.5], [0.5], 36),
    ("picture after nothing", [(400, None), (2000, NONE)], WHOLE, [0.9, 1.9], [0.5, 1.5], 60),
    ("both after nothing", [(5000, None), (2000, NONE)], [(5000, None), (2000, NONE)], [0.5, 1.5], [0.5, 1.5], 60),
    ("shown twice", [(1000, NONE)] * 2, [(1000, NONE)] * 2, [0.5, 1.5], [0.5, 1.5], 60),
]


def edited(path: Path, picture: Edits, sound: Edits, **more: Any) -> Path:
    flash_click(path, gop=100, **more)
    for track, edits in enumerate((picture, sound)):
        ticks, first = track_ticks(path, track), first_media_time(path, track)
        entries: list[Edit] = [(ms, -1 if at is None else first + round(at * ticks)) for ms, at in edits]
        set_edit_list(path, track, entries)
    return path


@pytest.mark.parametrize("b_frames", rest_slow([2, 0], 1))
@pytest.mark.parametrize(
    ("picture", "sound", "flashes", "clicks", "frames"), [c[1:] for c in EDIT_LISTS], ids=[c[0] for c in EDIT_LISTS]
)
def test_edit_lists_are_followed(
    tmp_path: Path, picture: Edits, sound: Edits, flashes: list[float], clicks: list[float], frames: int, b_frames: int
) -> None:
    source = edited(tmp_path / "in.mp4", picture, sound, b_frames=b_frames)
    path, result = transcoded(source, tmp_path / "out", {"type": "mp4", "video": SMALL})
    assert_at(path, flashes, clicks)
    assert len(decode_video(path).frames) == frames
    assert not result.warnings


def test_parts_of_an_edit_list_follow_each_other(tmp_path: Path) -> None:
    parts: Edits = [(800, NONE), (800, Fraction(6, 5))]
    source = edited(tmp_path / "in.mp4", parts, parts)
    path, result = transcoded(source, tmp_path / "out", {"type": "mkv", "video": SMALL})
    assert [float(time) for time in flash_times(path)] == pytest.approx([0.5, 1.1], abs=0.002)
    assert click_times(path) == pytest.approx([0.5, 1.1], abs=0.01)
    assert len(decode_video(path).frames) == 48
    assert not result.warnings


@pytest.mark.parametrize("b_frames", [0, 2])
def test_a_copy_keeps_what_an_edit_list_cuts_off_at_the_end_out(tmp_path: Path, b_frames: int) -> None:
    source = edited(tmp_path / "in.mp4", [(1200, NONE)], [(1200, NONE)], b_frames=b_frames)
    path, _ = transcoded(source, tmp_path / "out", {"type": "copy", "format": "mp4"})
    assert_at(path, [0.5], [0.5])
    assert len(decode_video(path).frames) in (36, 37)


def test_a_copy_of_a_skipped_start_shows_what_players_of_the_source_show(tmp_path: Path) -> None:
    source = edited(tmp_path / "in.mp4", [(1700, SKIPPED)], [(1700, SKIPPED)])
    path, _ = transcoded(source, tmp_path / "out", {"type": "copy", "format": "mp4"})
    assert_at(path, [0.2, 1.2], [0.2, 1.2])


def test_packets_that_an_edit_list_hides_go_along_where_others_refer_to_them(tmp_path: Path) -> None:
    parts: Edits = [(800, NONE), (800, Fraction(6, 5))]
    source = edited(tmp_path / "in.mp4", parts, parts)
    path, result = transcoded(source, tmp_path / "out", {"type": "copy", "format": "mkv"})
    shown, heard = flash_times(path), click_times(path)
    assert float(shown[-1] - shown[0]) == pytest.approx(heard[-1] - heard[0], abs=0.01)
    assert warning_counts(result)["hidden_packets"] == 1


@pytest.mark.parametrize("form", ["mkv", "mp4", "mov", "ts"])
def test_times_before_zero_are_moved_to_it(tmp_path: Path, form: str) -> None:
    source = flash_click(tmp_path / f"in.{form}", start=Fraction(-3, 2), b_frames=2)
    path, _ = transcoded(source, tmp_path / "out", {"type": "mp4", "video": SMALL})
    shown, heard = flash_times(path), click_times(path)
    assert [float(flash) for flash in shown] == pytest.approx(heard, abs=0.004)
    assert len(decode_video(path).frames) == (60 if form in ("mkv", "ts") else 15)
