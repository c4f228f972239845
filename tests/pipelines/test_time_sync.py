"""Picture and sound stay together: a white frame and a click, found again in what was written."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import SMALL, transcoded
from tests.measure import click_times, decode_audio, decode_video, flash_times
from tests.media import make_flash_click

SIZE = (96, 64)
TIMES = (Fraction(1, 2), Fraction(3, 2))
EXACT_SECONDS = 0.010
TS_SECONDS = 0.022
"""A transport stream can't say which samples are priming: up to one AAC frame."""

CONTAINERS = [
    ("mp4", "h264", "aac"), ("mp4", "h264", "opus"), ("mp4", "h264", "mp3"), ("mp4", "h264", "flac"),
    ("mov", "h264", "aac"),
    ("mkv", "h264", "aac"), ("mkv", "h264", "opus"), ("mkv", "h264", "mp3"), ("mkv", "h264", "flac"),
    ("webm", "vp9", "opus"),
    ("ts", "h264", "aac"), ("ts", "h264", "mp3"), ("ts", "h264", "opus"),
]  # fmt: skip


@pytest.fixture(scope="module")
def flashes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 s with a flash and a click at 0.5 s and at 1.5 s; the sound is exact (FLAC)."""
    path = tmp_path_factory.mktemp("flashes") / "in.mkv"
    return make_flash_click(path, times=TIMES, size=SIZE, audio_codec="flac")


def assert_in_sync(path: Path, times: tuple[Fraction, ...] = TIMES, within: float = EXACT_SECONDS) -> None:
    """Each click within the limit of its flash, and flashes as far apart as they were."""
    shown, heard = flash_times(path), click_times(path)
    assert len(shown) == len(heard) == len(times), (shown, heard)
    for seen, sound in zip(shown, heard, strict=True):
        assert abs(float(seen) - sound) <= within, (shown, heard)
    for seen, time in zip(shown, times, strict=True):
        assert abs((seen - shown[0]) - (time - times[0])) <= Fraction(1, 500)


@pytest.mark.parametrize(("container", "codec", "sound"), CONTAINERS)
def test_flash_and_click_stay_within_10_ms_in_every_container(
    flashes: Path, tmp_path: Path, container: str, codec: str, sound: str
) -> None:
    output: dict[str, Any] = {"type": container, "video": {**SMALL, "codec": codec}, "audio": {"codec": sound}}
    path, _ = transcoded(flashes, tmp_path, output)
    assert_in_sync(path, within=TS_SECONDS if container == "ts" else EXACT_SECONDS)
    assert flash_times(path)[0] - decode_video(path, limit=1).times[0] == pytest.approx(0.5, abs=0.002)


@pytest.mark.parametrize(
    ("container", "sound"), [("mp4", "aac"), ("mkv", "opus"), ("mkv", "mp3"), ("ts", "aac"), ("ts", "mp3")]
)
def test_a_second_generation_adds_nothing(flashes: Path, tmp_path: Path, container: str, sound: str) -> None:
    output: dict[str, Any] = {"type": container, "video": SMALL, "audio": {"codec": sound}}
    path = flashes
    for generation in range(3):
        path, _ = transcoded(path, tmp_path / str(generation), output)
    assert_in_sync(path, within=TS_SECONDS if container == "ts" else EXACT_SECONDS)


@pytest.mark.parametrize("rate", [48_000, 44_100, 24_000])
@pytest.mark.parametrize("sound", ["aac", "mp3"])
@pytest.mark.parametrize("pictures", [True, False])
def test_sound_of_transport_streams_begins_when_it_did_in_each_generation(
    tmp_path: Path, pictures: bool, sound: str, rate: int
) -> None:
    """Which samples are priming can't be said there: those are left out, and nothing is put before the sound."""
    path = make_flash_click(tmp_path / "in.mkv", times=TIMES[:1], seconds=1, size=SIZE, audio_codec="flac")
    output: dict[str, Any] = {
        "type": "ts", "video": SMALL if pictures else None, "audio": {"codec": sound, "sample_rate": rate},
    }  # fmt: skip
    for generation in range(2):
        path, _ = transcoded(path, tmp_path / str(generation), output)
        heard = decode_audio(path)
        begin = decode_video(path, limit=1).times[0] if pictures else heard.start
        assert float(heard.start - begin) == pytest.approx(0, abs=0.0005)
        assert [time - float(begin) for time in click_times(path)] == pytest.approx([0.5], abs=0.001)
