"""Variable timing is kept, constant timing is made on request, and the last picture stays for as long as it did."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import pytest

from tests.hls_rules import check_media
from tests.jobs import SMALL, rest_slow, run_job, transcoded
from tests.measure import assert_dts_rising, decode_audio, decode_video, edit_lists, frame_psnr, packet_times
from tests.media import Tone, make_video

SIZE = (96, 64)
WEBM: dict[str, Any] = {"height": 64, "codec": "vp9", "speed": "ultrafast"}
REORDERED: dict[str, Any] = {**SMALL, "speed": "veryfast"}
"""A rung whose encoder uses B-frames."""


def uneven(count: int, tick: Fraction) -> list[Fraction]:
    """Times of frames, 1 to 120 of the source's ticks (milliseconds where those are finer) apart."""
    random_gaps = random.Random(7)
    step = max(tick, Fraction(1, 1000))
    times = [Fraction(0)]
    for _ in range(count - 1):
        gap = random_gaps.randrange(1, 120) * step
        times.append(times[-1] + round(gap / tick) * tick)
    return times


SOURCES = [
    ("mp4", Fraction(1, 1001), 2), ("mp4", Fraction(1, 600), 0), ("mp4", Fraction(1, 12_345), 2),
    ("mp4", Fraction(1, 1_000_000), 2), ("mov", Fraction(1, 24_000), 2), ("mkv", Fraction(1, 1000), 2),
    ("ts", Fraction(1, 90_000), 2),
]  # fmt: skip


@pytest.mark.parametrize(("form", "tick", "b_frames"), rest_slow(SOURCES, 2), ids=[f"{s[0]} {s[1]}" for s in SOURCES])
def test_every_frame_stays_within_half_a_tick_of_its_time(
    tmp_path: Path, form: str, tick: Fraction, b_frames: int
) -> None:
    times = uneven(25, tick)
    source = make_video(
        tmp_path / f"in.{form}", size=SIZE, timestamps=times, time_base=tick, audio=(), b_frames=b_frames, seconds=4
    )
    before = decode_video(source)
    for container, coarsest in (("mp4", 90_000), ("ts", 90_000), ("mkv", 1000), ("webm", 1000)):
        output = {"type": container, "video": WEBM if container == "webm" else REORDERED}
        path, result = transcoded(source, tmp_path / container, output)
        after = decode_video(path)
        assert len(after.times) == len(times)
        allowed = max(tick, Fraction(1, coarsest)) / 2
        for shown, meant in zip(after.times, before.times, strict=True):
            assert abs((shown - after.times[0]) - (meant - before.times[0])) <= allowed
        assert frame_psnr(before.frames, after.frames) > 18
        assert_dts_rising(path)
        assert not result.warnings


@pytest.mark.parametrize("rate", rest_slow([Fraction(24_000, 1001), Fraction(10), Fraction(30), Fraction(25)], 2))
@pytest.mark.parametrize("container", rest_slow(["mp4", "mkv", "ts"], 1))
def test_constant_rate_is_exact_and_counts_what_it_drops_and_repeats(
    tmp_path: Path, container: str, rate: Fraction
) -> None:
    times = uneven(30, Fraction(1, 1000))
    source = make_video(tmp_path / "in.mkv", size=SIZE, timestamps=times, time_base=Fraction(1, 1000), seconds=4)
    output = {"type": container, "video": {**SMALL, "frame_rate": str(rate)}}
    path, result = transcoded(source, tmp_path / "out", output)
    got = decode_video(path).times
    tick = Fraction(1, 1000) if container == "mkv" else Fraction(1, 90_000)
    assert all(abs(time - got[0] - number / rate) <= tick for number, time in enumerate(got))
    assert abs(len(got) / rate - (times[-1] + Fraction(1, 25))) <= 2 / rate
    counted = result.outputs[0].renditions[0].facts
    assert len(times) - counted["dropped"] + counted["repeated"] == len(got)
    assert counted["dropped"] + counted["repeated"] > 0


def test_constant_rate_shows_at_each_moment_what_the_source_shows(tmp_path: Path) -> None:
    times = [Fraction(n, 1000) for n in (0, 40, 80, 500, 540, 1000, 1040)]
    source = make_video(tmp_path / "in.mkv", size=SIZE, timestamps=times, time_base=Fraction(1, 1000), audio=())
    path, _ = transcoded(source, tmp_path, {"type": "mp4", "video": {"frame_rate": 25, "speed": "ultrafast"}})
    before, after = decode_video(source), decode_video(path)
    assert len(after.frames) == 27
    for number, frame in enumerate(after.frames):
        shown = max(n for n, time in enumerate(times) if time < Fraction(number, 25) + Fraction(1, 50))
        best = max(range(len(times)), key=lambda n: frame_psnr([before.frames[n]], [frame]))
        assert best == shown


SLIDES = [Fraction(0), Fraction(1), Fraction(5, 2), Fraction(4)]
SLIDES_END = Fraction(7)


def shown_until(path: Path) -> float:
    """When the file ends, counted from its first picture; a transport stream ends with its last picture."""
    first = decode_video(path, limit=1).times[0]
    with av.open(str(path)) as container:
        if container.format.name == "mpegts":
            return float(decode_video(path).times[-1] - first)
        assert container.duration is not None
        return container.duration / 1_000_000 - float(first)


@pytest.mark.parametrize("form", rest_slow(["mkv", "mp4", "mov", "webm"], 1))
@pytest.mark.parametrize("container", ["mp4", "mov", "mkv", "webm", "ts"])
def test_the_last_picture_of_a_slideshow_stays(tmp_path: Path, form: str, container: str) -> None:
    codec = "vp9" if form == "webm" else "h264"
    source = make_video(
        tmp_path / f"in.{form}", size=SIZE, timestamps=SLIDES, end=SLIDES_END, time_base=Fraction(1, 1000), audio=(),
        codec=codec,
    )  # fmt: skip
    path, result = transcoded(
        source, tmp_path, {"type": container, "video": WEBM if container == "webm" else REORDERED}
    )
    got = decode_video(path).times
    assert [float(time - got[0]) for time in got[:4]] == pytest.approx([0, 1, 2.5, 4], abs=0.001)
    assert shown_until(path) == pytest.approx(7, abs=0.11 if container == "ts" else 0.002)
    assert result.outputs[0].duration_seconds == pytest.approx(7, abs=0.001)


@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_a_copied_slideshow_lasts_as_long(tmp_path: Path, container: str, b_frames: int) -> None:
    source = make_video(
        tmp_path / "in.mkv", size=SIZE, timestamps=SLIDES, end=SLIDES_END, time_base=Fraction(1, 1000), audio=(),
        b_frames=b_frames,
    )  # fmt: skip
    path, result = transcoded(source, tmp_path, {"type": "copy", "format": container})
    got = decode_video(path).times
    assert [float(time - got[0]) for time in got] == pytest.approx([0, 1, 2.5, 4], abs=0.001)
    assert shown_until(path) == pytest.approx(7, abs=0.002)
    assert not result.warnings


def test_generations_do_not_change_how_long_the_last_picture_stays(tmp_path: Path) -> None:
    path = make_video(
        tmp_path / "in.mkv", size=SIZE, timestamps=SLIDES, end=SLIDES_END, time_base=Fraction(1, 1000), audio=()
    )
    for generation in range(3):
        path, _ = transcoded(path, tmp_path / str(generation), {"type": "mp4", "video": REORDERED})
    assert shown_until(path) == pytest.approx(7, abs=0.002)


def test_a_clip_of_a_slideshow_ends_where_it_should(tmp_path: Path) -> None:
    source = make_video(
        tmp_path / "in.mkv", size=SIZE, timestamps=SLIDES, end=SLIDES_END, time_base=Fraction(1, 1000), audio=()
    )
    for start, end, count in ((0.5, 2.0, 2), (3.0, 3.5, 1), (4.5, 6.0, 1), (0.0, 6.0, 4)):
        path, _ = transcoded(
            source, tmp_path / f"{start}", {"type": "mp4", "video": SMALL}, clip={"start": start, "end": end}
        )
        assert len(decode_video(path).frames) == count
        assert shown_until(path) == pytest.approx(end - start, abs=0.002)


CONTAINERS = ["mp4", "mkv", "ts"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_header_of_1000_fps_does_not_make_the_encoder_think_so(tmp_path: Path, container: str) -> None:
    """A time base of 1 ms is taken for a rate by some writers: GOPs and bitrates are counted with the true rate."""
    source = make_video(
        tmp_path / "in.mp4", size=SIZE, rate=1000, timestamps=[Fraction(n, 25) for n in range(75)],
        time_base=Fraction(1, 1000), seconds=4, audio=(), gop=300,
    )  # fmt: skip
    rung = {**SMALL, "gop_seconds": 1, "rate_control": {"mode": "vbr", "bitrate": 200_000}}
    path, result = transcoded(source, tmp_path, {"type": container, "video": rung})
    keys = [index for index, (_, _, key) in enumerate(packet_times(path)) if key]
    assert keys == [0, 25, 50]
    bits = result.outputs[0].renditions[0].bytes * 8 / 3
    assert 80_000 < bits < 320_000


def test_field_rates_are_not_taken_for_frame_rates(tmp_path: Path) -> None:
    source = make_video(
        tmp_path / "in.ts", codec="mpeg2video", size=(96, 64), rate=25, interlaced="top", seconds=2, audio=()
    )
    path, _ = transcoded(source, tmp_path / "out", {"type": "mp4", "video": {**SMALL, "gop_seconds": 1}})
    times = decode_video(path).times
    assert len(times) == 50
    assert all(later - earlier == Fraction(1, 25) for earlier, later in pairwise(times))
    assert [index for index, packet in enumerate(packet_times(path)) if packet[2]] == [0, 25]


def test_sound_that_ends_before_the_picture_or_after_it_keeps_its_length(tmp_path: Path) -> None:
    for seconds in (Fraction(1), Fraction(3)):
        source = make_video(tmp_path / f"in{seconds}.mkv", size=SIZE, audio=(Tone("flac", seconds=seconds),))
        path, result = transcoded(source, tmp_path / f"{seconds}", {"type": "mkv", "video": SMALL})
        assert decode_audio(path).seconds == pytest.approx(float(seconds), abs=0.025)
        assert len(decode_video(path).frames) == 50
        assert not result.warnings


GAPS = [Fraction(n, 25) for n in (0, 1, 10, 11, 30, 70, 74)]


@pytest.mark.parametrize(("container", "same"), [("mp4", True), ("mov", True), ("mkv", True), ("ts", False)])
def test_a_copy_from_a_transport_stream_ends_as_its_last_picture_can(
    tmp_path: Path, container: str, same: bool
) -> None:
    """It has no durations: the one of the last picture is the one before it, not the longest of all."""
    source = make_video(tmp_path / "in.ts", size=SIZE, timestamps=GAPS, end=Fraction(3), audio=(), b_frames=2)
    path, result = transcoded(source, tmp_path / "out", {"type": "copy", "format": container})
    assert result.outputs[0].duration_seconds == pytest.approx(3.12, abs=0.002)
    assert shown_until(path) == pytest.approx(3.12 if same else 2.96, abs=0.002)


@pytest.mark.parametrize("kind", ["hls", "dash", "cmaf"])
@pytest.mark.parametrize("speed", ["ultrafast", "veryfast"])
def test_ladders_of_uneven_pictures_end_when_they_do(tmp_path: Path, kind: str, speed: str) -> None:
    """Also where pictures are reordered, so that samples have the durations of others."""
    source = make_video(tmp_path / "in.mkv", size=SIZE, timestamps=GAPS, end=Fraction(3), audio=())
    rung = {"height": 64, "speed": speed}
    result = run_job(source, tmp_path / "out", {"type": kind, "segment_seconds": 2, "video": [rung]})
    root = tmp_path / "out" / "output"
    if kind == "dash":
        assert 'mediaPresentationDuration="PT3.0S"' in (root / "manifest.mpd").read_text()
    else:
        listed = check_media(root / "64p" / "index.m3u8")
        assert [entry.seconds for entry in listed.entries] == [Fraction(14, 5), Fraction(1, 5)]
    assert result.outputs[0].duration_seconds == pytest.approx(3)


UNEVEN = {
    "a long last picture": ([Fraction(n, 5) for n in (0, 5, 30, 31, 32)], Fraction(47, 5)),
    "a short one": (GAPS, Fraction(3)),
    "a long first one": ([Fraction(n, 10) for n in (0, 30, 31, 32, 33)], Fraction(17, 5)),
    "two": ([Fraction(0), Fraction(1, 25)], Fraction(3)),
}


@pytest.mark.parametrize("name", UNEVEN)
@pytest.mark.parametrize("origin", ["mkv", "mp4"])
@pytest.mark.parametrize("container", ["mp4", "mov"])
def test_the_edit_list_and_the_samples_agree_on_the_end(tmp_path: Path, container: str, origin: str, name: str) -> None:
    """Readers believe either: pictures in another order than they are decoded in must not make them differ."""
    times, end = UNEVEN[name]
    source = make_video(
        tmp_path / f"in.{origin}", size=SIZE, timestamps=times, end=end, time_base=Fraction(1, 1000), audio=()
    )
    first, _ = transcoded(source, tmp_path / "first", {"type": container, "video": REORDERED})
    again, _ = transcoded(first, tmp_path / "again", {"type": "copy", "format": container})
    for path in (first, again):
        assert shown_until(path) == pytest.approx(float(end), abs=0.002)
        assert edit_lists(path)[0][-1][0] == pytest.approx(float(end) * 1000, abs=2)
        assert [float(time) for time in decode_video(path).times] == pytest.approx(times, abs=0.001)
