"""Parts of an input: frame-accurate where encoded, from a keyframe where copied, and sound in sync in both."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.edit_lists import first_media_time, set_edit_list, track_ticks
from tests.jobs import SMALL, rest_slow, transcoded, warning_counts
from tests.measure import assert_dts_rising, click_times, decode_audio, decode_video, flash_times
from tests.media import Tone, make_audio, make_video
from tests.signals import plain_picture

SIZE = (96, 64)
RATE = 30
SECONDS = 6
GOP_SECONDS = 3
FLASHES = tuple(Fraction(number, 2) for number in range(1, 2 * SECONDS))
SOURCES: dict[str, dict[str, Any]] = {
    "mp4": {}, "mkv": {}, "ts": {}, "webm": {"codec": "vp9", "b_frames": 0, "sound": "opus"},
    "avi": {"b_frames": 0, "sound": "pcm_s16le"}, "mkv at 10 h": {"start": Fraction(36_000)},
    "ts at 1000 s": {"start": Fraction(1000)}, "mkv without cues": {"container_options": {"live": "1"}},
}  # fmt: skip


def build(path: Path, *, sound: str = "aac", b_frames: int = 2, **more: Any) -> Path:
    flashes = {int(time * RATE) for time in FLASHES}
    pictures = (plain_picture(SIZE, 235 if number in flashes else 16) for number in range(SECONDS * RATE))
    return make_video(
        path, size=SIZE, rate=RATE, seconds=SECONDS, frames=pictures, gop=GOP_SECONDS * RATE, b_frames=b_frames,
        audio=(Tone(sound, "mono", clicks=FLASHES, amplitude=0.8),), **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("clips")
    return {
        name: build(folder / f"{number}.{name.split()[0]}", **options)
        for number, (name, options) in enumerate(SOURCES.items())
    }


CLIPS = [(1.2, 4.1), (3.8, None), (5.7, None), (0.0, 2.2), (2.4, 2.7), (0.03, 1.2)]


def within(start: float, end: float | None) -> list[float]:
    return [float(time) - start for time in FLASHES if start <= time < (end or SECONDS)]


@pytest.mark.parametrize(("start", "end"), rest_slow(CLIPS, 3), ids=str)
@pytest.mark.parametrize("name", rest_slow(list(SOURCES), 3))
def test_a_clip_has_the_right_pictures_and_its_sound_in_sync(
    sources: dict[str, Path], tmp_path: Path, name: str, start: float, end: float | None
) -> None:
    clip = {"start": start} | ({} if end is None else {"end": end})
    path, result = transcoded(sources[name], tmp_path, {"type": "mp4", "video": SMALL}, clip=clip)
    # a source whose clock starts with what its sound encoder put first is that much later
    assert [float(time) for time in flash_times(path)] == pytest.approx(within(start, end), abs=0.035)
    assert click_times(path) == pytest.approx([float(time) for time in flash_times(path)], abs=0.01)
    length = (end or SECONDS) - start
    assert len(decode_video(path).frames) == pytest.approx(length * RATE, abs=1.5)
    assert decode_audio(path).seconds == pytest.approx(length, abs=0.045)
    assert not result.warnings


@pytest.mark.parametrize("container", rest_slow(["mp4", "mkv", "ts"], 2))
@pytest.mark.parametrize("name", rest_slow(["mp4", "mkv", "ts", "mkv at 10 h"], 2))
def test_a_copied_clip_starts_at_a_keyframe_with_its_sound_in_sync(
    sources: dict[str, Path], tmp_path: Path, name: str, container: str
) -> None:
    path, result = transcoded(
        sources[name], tmp_path, {"type": "copy", "format": container}, clip={"start": 3.8, "end": 5.3}
    )
    shown, heard = flash_times(path), click_times(path)
    # from the keyframe at 3 s, which is a flash; its click may have begun in the packet before
    assert len(shown) == 5
    assert heard[-4:] == pytest.approx([float(time) for time in shown[-4:]], abs=0.01)
    assert float(shown[-1] - shown[0]) == pytest.approx(2, abs=0.002)
    assert warning_counts(result) == {"clip_at_keyframe": 1}
    assert_dts_rising(path)


def test_a_copied_clip_from_the_start_has_no_warning(sources: dict[str, Path], tmp_path: Path) -> None:
    path, result = transcoded(
        sources["mp4"], tmp_path, {"type": "copy", "format": "mp4"}, clip={"start": 0, "end": 2.2}
    )
    assert click_times(path) == pytest.approx([float(time) for time in flash_times(path)], abs=0.01)
    assert len(flash_times(path)) == 4
    assert not result.warnings


@pytest.mark.parametrize(("start", "end"), rest_slow([(1.2, 4.1), (5.4, None), (0.25, 1.25)], 1), ids=str)
@pytest.mark.parametrize("form", ["flac", "mp3", "wav", "m4a", "opus"])
def test_a_clip_of_sound_is_exact(tmp_path: Path, form: str, start: float, end: float | None) -> None:
    codec = {"mp3": "mp3", "m4a": "aac", "opus": "opus", "wav": "pcm_s16le"}.get(form, "flac")
    source = make_audio(
        tmp_path / f"in.{form}", tracks=(Tone(codec, "mono", clicks=FLASHES, amplitude=0.8),), seconds=SECONDS
    )
    clip = {"start": start} | ({} if end is None else {"end": end})
    path, result = transcoded(source, tmp_path / "out", {"type": "audio", "format": "flac"}, clip=clip)
    assert click_times(path) == pytest.approx(within(start, end), abs=0.002)
    assert decode_audio(path).seconds == pytest.approx((end or SECONDS) - start, abs=0.001)
    assert not result.warnings


def test_a_clip_is_taken_of_an_edited_film(tmp_path: Path) -> None:
    """Times of a clip count from what is shown first, after the edit list."""

    source = build(tmp_path / "in.mp4")
    for track in (0, 1):
        begin = first_media_time(source, track) + track_ticks(source, track)
        set_edit_list(source, track, [(5000, begin)])
    path, _ = transcoded(source, tmp_path / "out", {"type": "mp4", "video": SMALL}, clip={"start": 0.7, "end": 2.2})
    assert [float(time) for time in flash_times(path)] == pytest.approx([0.3, 0.8, 1.3], abs=0.002)
    assert click_times(path) == pytest.approx([0.3, 0.8, 1.3], abs=0.01)
