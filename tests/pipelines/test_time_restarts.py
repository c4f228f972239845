"""Clocks that wrap, restart or lie: the output has one continuous clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import LimitExceeded
from pipelines.limits import Limits
from tests.jobs import SMALL, rest_slow, run_job, transcoded, warning_counts
from tests.measure import assert_dts_rising, click_times, decode_audio, decode_video, flash_times
from tests.media import Tone, make_video
from tests.remux import remux
from tests.signals import plain_picture

RATE = 30
FLASHES = (Fraction(1, 2), Fraction(3, 2))
WRAP = Fraction(2**33, 90_000)
TEN_HOURS = Fraction(36_000)


def broadcast(
    path: Path, *, start: Fraction = Fraction(0), size: tuple[int, int] = (96, 64), seconds: Fraction = Fraction(2)
) -> Path:
    flashes = {round(flash * RATE) for flash in FLASHES}
    count = int(seconds * RATE)
    return make_video(
        path, size=size, rate=RATE, seconds=seconds, start=start, time_base=Fraction(1, 90_000),
        frames=(plain_picture(size, 235 if number in flashes else 16) for number in range(count)),
        audio=(Tone(layout="mono", clicks=tuple(flash for flash in FLASHES if flash < seconds), amplitude=0.8),),
    )  # fmt: skip


def joined(path: Path, parts: Sequence[Path]) -> Path:
    """Byte for byte."""
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    return path


def assert_continuous(path: Path, *, frames: int, flashes: int) -> None:
    """No picture is lost, nothing jumps, and each click has its flash."""
    times = decode_video(path).times
    assert len(times) == frames
    assert all(0 < later - earlier < Fraction(1, 12) for earlier, later in pairwise(times))
    shown, heard = flash_times(path), click_times(path)
    assert len(shown) == len(heard) == flashes
    assert all(abs(float(flash) - click) <= 0.01 for flash, click in zip(shown, heard, strict=True))
    assert_dts_rising(path)


OUTPUTS = [
    {"type": "mp4", "video": SMALL}, {"type": "copy", "format": "ts"}, {"type": "ts", "video": SMALL},
    {"type": "copy", "format": "mp4"},
]  # fmt: skip
JOINTS: list[tuple[str, list[Fraction]]] = [
    ("the same clock", [Fraction(0), Fraction(0)]),
    ("a clock hours later", [Fraction(0), TEN_HOURS]),
    ("a clock hours earlier", [TEN_HOURS, Fraction(0)]),
    ("three clocks", [Fraction(100), Fraction(0), TEN_HOURS]),
    ("a wrap and a restart", [WRAP - 1, Fraction(0)]),
]


@pytest.mark.parametrize("output", rest_slow(OUTPUTS, 2), ids=["mp4", "copied to ts", "ts", "copied to mp4"])
@pytest.mark.parametrize("starts", rest_slow([joint[1] for joint in JOINTS], 3), ids=[joint[0] for joint in JOINTS])
def test_joined_transport_streams_go_on(tmp_path: Path, starts: list[Fraction], output: dict[str, Any]) -> None:
    parts = [broadcast(tmp_path / f"{number}.ts", start=start) for number, start in enumerate(starts)]
    path, result = transcoded(joined(tmp_path / "in.ts", parts), tmp_path / "out", output)
    assert_continuous(path, frames=60 * len(parts), flashes=2 * len(parts))
    assert warning_counts(result)["clock_jump"] == len(parts) - 1
    jump = next(warning for warning in result.warnings if warning.code == "clock_jump")
    assert jump.first_seconds == pytest.approx(
        float(starts[0]) - (float(WRAP) if starts[0] > TEN_HOURS else 0) + 2, abs=0.1
    )


def test_short_parts_are_joined_too(tmp_path: Path) -> None:
    part = broadcast(tmp_path / "part.ts", seconds=Fraction(4, 5))
    path, _ = transcoded(joined(tmp_path / "in.ts", [part] * 3), tmp_path / "out", {"type": "mp4", "video": SMALL})
    assert_continuous(path, frames=72, flashes=3)


@pytest.mark.slow
def test_a_part_of_another_size_is_fitted(tmp_path: Path) -> None:
    parts = [broadcast(tmp_path / "a.ts"), broadcast(tmp_path / "b.ts", size=(192, 128))]
    for number, order in enumerate((parts, parts[::-1])):
        source = joined(tmp_path / "in.ts", order)
        path, _ = transcoded(source, tmp_path / f"{number}", {"type": "mp4", "video": SMALL})
        assert_continuous(path, frames=120, flashes=4)
        assert {(frame.width, frame.height) for frame in decode_video(path).frames} == {(96, 64)}


@pytest.mark.parametrize("output", rest_slow(OUTPUTS, 2), ids=["mp4", "copied to ts", "ts", "copied to mp4"])
def test_a_wrap_of_33_bits_is_no_event(tmp_path: Path, output: dict[str, Any]) -> None:
    source = broadcast(tmp_path / "in.ts", start=WRAP - 1)
    path, result = transcoded(source, tmp_path / "out", output)
    assert_continuous(path, frames=60, flashes=2)
    assert not result.warnings


def retimed(source: Path, target: Path, change: Callable[[str, int, int], int], live: str = "0") -> Path:
    """A copy whose packets have other times: `change` gets type, number and milliseconds of each."""

    def moved(packet: Any, kind: str, number: int) -> Any:
        by = change(kind, number, packet.pts) - packet.pts
        packet.pts, packet.dts = packet.pts + by, packet.dts + by
        return packet

    return remux(source, target, moved, options={"live": live})


FAR = 10**12
"""Milliseconds."""


@pytest.mark.parametrize("live", rest_slow(["1", "0"], 1), ids=["without a duration", "with one"])
@pytest.mark.parametrize("kind", ["video", "audio"])
@pytest.mark.parametrize(
    "output",
    [
        {"type": "mp4", "video": SMALL},
        {"type": "mp4", "video": {**SMALL, "frame_rate": 25}},
        {"type": "copy", "format": "mkv"},
    ],
    ids=["variable", "constant", "copied"],
)
def test_a_packet_ages_away_is_refused_before_the_way_there_is_filled(
    tmp_path: Path, kind: str, live: str, output: dict[str, Any]
) -> None:
    clip = make_video(tmp_path / "a.mkv", size=(96, 64), seconds=1)
    source = retimed(clip, tmp_path / "far.mkv", lambda k, n, ms: ms + FAR if k == kind and n >= 20 else ms, live=live)
    began = time.monotonic()
    with pytest.raises(LimitExceeded) as caught:
        run_job(source, tmp_path, output)
    assert caught.value.code == "limit_duration"
    assert time.monotonic() - began < 10


def test_a_gap_in_a_file_is_a_gap(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "a.mkv", size=(96, 64), seconds=1, audio=(Tone("flac"),))
    source = retimed(clip, tmp_path / "gap.mkv", lambda kind, number, ms: ms + 5000 if ms >= 500 else ms)
    path, result = transcoded(source, tmp_path / "out", {"type": "mkv", "video": SMALL})
    times = decode_video(path).times
    assert len(times) == 25
    assert times[13] - times[12] == pytest.approx(5.04, abs=0.002)
    assert decode_audio(path).seconds == pytest.approx(6, abs=0.03)
    assert warning_counts(result) == {"hole": 1}


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
def test_a_gap_of_hours_takes_few_pictures(tmp_path: Path, container: str) -> None:
    clip = make_video(tmp_path / "a.mkv", size=(96, 64), seconds=1, audio=())
    source = retimed(clip, tmp_path / "gap.mkv", lambda kind, number, ms: ms + 30_000_000 if ms >= 500 else ms)
    path, _ = transcoded(source, tmp_path / "out", {"type": container, "video": SMALL})
    times = decode_video(path).times
    assert len(times) == 25 + 8
    assert times[-1] - times[0] == pytest.approx(30_000 + 24 / 25, abs=0.002)


def stamp_pes(path: Path, number: int, ticks: int) -> None:
    """Moves the presentation time of a video packet of a transport stream far ahead, and leaves its decode time."""
    data = bytearray(path.read_bytes())
    at = -1
    for _ in range(number):
        at = data.index(b"\0\0\1\xe0", at + 1)
    assert data[at + 7] >> 6 == 3  # both times are there
    old = data[at + 9]
    data[at + 9] = (old & 0xF1) | (ticks >> 30 & 7) << 1
    path.write_bytes(data)


@pytest.mark.parametrize("copied", [False, True])
def test_a_wild_presentation_time_is_left_out(tmp_path: Path, copied: bool) -> None:
    source = make_video(tmp_path / "a.ts", size=(96, 64), seconds=1, audio=(), b_frames=2)
    stamp_pes(source, 11, 3 << 30)
    output = {"type": "copy", "format": "ts"} if copied else {"type": "mp4", "video": SMALL}
    path, result = transcoded(source, tmp_path / "out", output)
    times = decode_video(path).times
    assert len(times) == 25
    assert times[-1] - times[0] < 1
    assert warning_counts(result)["wild_timestamp"] == 1


def test_a_gap_is_filled_where_a_constant_rate_is_asked_for(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "a.mkv", size=(96, 64), seconds=1, audio=())
    source = retimed(clip, tmp_path / "gap.mkv", lambda kind, number, ms: ms + 5000 if ms >= 500 else ms)
    path, result = transcoded(source, tmp_path / "out", {"type": "mp4", "video": {**SMALL, "frame_rate": 25}})
    assert len(decode_video(path).frames) == 150
    assert result.outputs[0].renditions[0].facts == {"dropped": 0, "repeated": 125}


def test_the_limit_of_duration_is_the_operators(tmp_path: Path) -> None:
    source = make_video(tmp_path / "a.mkv", size=(96, 64), seconds=3, container_options={"live": "1"})
    with pytest.raises(LimitExceeded) as caught:
        run_job(source, tmp_path, {"type": "mp4", "video": SMALL}, limits=Limits(max_duration_seconds=2))
    assert caught.value.code == "limit_duration"
