"""Frame rates and durations: what headers claim is believed only as far as the packets bear it out."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from pipelines.errors import LimitExceeded
from pipelines.facts.frame_rates import MeasuredRate, best_rate, measure
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, open_input
from pipelines.probe import probe
from pipelines.source import SourceInfo
from tests.measure import find_boxes
from tests.media import Tone, make_audio, make_video

RATES = [
    Fraction(24_000, 1001),
    Fraction(24),
    Fraction(25),
    Fraction(30_000, 1001),
    Fraction(60_000, 1001),
    Fraction(120),
]
TINY = (64, 48)


def facts(path: Path, limits: Limits | None = None) -> SourceInfo:
    return probe(LocalFile(path, path.name), limits or Limits())


@pytest.mark.parametrize("extension", ["mp4", "mkv", "webm", "ts", "flv", "avi"])
@pytest.mark.parametrize("rate", RATES, ids=str)
def test_exact_rates_are_found_in_every_container(tmp_path: Path, rate: Fraction, extension: str) -> None:
    codec = {"avi": "mpeg4", "webm": "vp9"}.get(extension, "h264")
    path = make_video(tmp_path / f"a.{extension}", rate=rate, seconds=5, size=TINY, codec=codec, audio=())
    assert facts(path).video[0].frame_rate == rate


def test_fragmented_mp4_has_its_true_rate(tmp_path: Path) -> None:
    options = {"movflags": "+frag_keyframe+empty_moov+default_base_moof"}
    path = make_video(tmp_path / "a.mp4", container_options=options, size=TINY, seconds=3)
    assert facts(path).video[0].frame_rate == 25


def test_variable_rate_is_the_average_of_the_whole(tmp_path: Path) -> None:
    times = [Fraction(n, 30) for n in range(30)] + [1 + Fraction(n, 10) for n in range(30)]
    path = make_video(tmp_path / "a.mp4", timestamps=times, rate=30, seconds=2, size=TINY, audio=())
    rate = facts(path).video[0].frame_rate
    assert rate is not None
    assert rate == pytest.approx(Fraction(60, 4), rel=0.05)


@pytest.mark.parametrize(
    ("container", "codec"), [("h264", "h264"), ("hevc", "hevc"), ("m4v", "mpeg4"), ("mpeg2video", "mpeg2video")]
)
def test_a_raw_stream_is_timed_by_the_rate_in_its_headers(tmp_path: Path, container: str, codec: str) -> None:
    path = make_video(tmp_path / "a", container=container, codec=codec, rate=30, size=(64, 64), audio=())
    source = facts(path)
    assert (source.video[0].frame_rate, source.duration_seconds) == (30, None)
    with open_input(LocalFile(path, "a"), Limits()) as opened:
        stream = opened.streams.video[0]
        packet = next(opened.demux(stream))
        assert (packet.duration or 0) * packet.time_base == Fraction(1, 30)


def with_timescale(path: Path, timescale: int) -> Path:
    """The file with another `mdhd` timescale in its (only) track."""
    data = bytearray(path.read_bytes())
    box = find_boxes(path, "mdhd")[0]
    data[box.offset + 20 : box.offset + 24] = timescale.to_bytes(4)
    path.write_bytes(data)
    return path


def test_a_timescale_that_makes_millions_of_frames_per_second_is_limit_fps(tmp_path: Path) -> None:
    path = with_timescale(make_video(tmp_path / "a.mp4", size=TINY, audio=()), 0x7FFFFFFF)
    with pytest.raises(LimitExceeded) as refused:
        facts(path)
    assert refused.value.code == "limit_fps"


def test_a_timescale_of_zero_is_survived(tmp_path: Path) -> None:
    path = with_timescale(make_video(tmp_path / "a.mp4", size=TINY, audio=()), 0)
    assert facts(path).video[0].decodable


def test_measuring_sorts_and_ignores_repeats() -> None:
    times = [0, 3, 1, 2, 2, 6, 4, 5, 9, 7, 8, 10, 11, 12]
    assert measure(times, Fraction(1, 25)) == MeasuredRate(Fraction(25), Fraction(1, 8), steady=True)


def test_too_few_times_measure_nothing() -> None:
    assert measure([0, 1, 1, 2], Fraction(1, 25)) is None


def test_a_dropped_frame_does_not_change_the_measured_rate() -> None:
    times = [n for n in range(60) if n != 30]
    measured = measure(times, Fraction(1, 25))
    assert measured is not None
    assert (measured.rate, measured.steady) == (25, True)


MEASURED_25 = MeasuredRate(Fraction(25), Fraction(1, 4000), steady=True)


@pytest.mark.parametrize("claimed", [Fraction(1000), Fraction(50), Fraction(90_000), Fraction(25, 2)], ids=str)
def test_header_rates_that_packets_contradict_are_not_believed(claimed: Fraction) -> None:
    assert best_rate((claimed, claimed), MEASURED_25, None) == 25


def test_the_first_header_rate_that_fits_is_taken() -> None:
    assert best_rate((Fraction(50), Fraction(25), Fraction(24)), MEASURED_25, None) == 25


def test_an_unlikely_rate_without_measurement_is_unknown() -> None:
    assert best_rate((Fraction(1000), None), None, None) is None
    assert best_rate((None, Fraction(1000), Fraction(30)), None, None) == 30


# AVI has no start time: its muxer fills the gap with repeats
STARTS = [(extension, start) for extension in ("mp4", "mkv", "ts", "flv") for start in (0, 3)] + [("avi", 0)]


@pytest.mark.parametrize(("extension", "start"), STARTS)
def test_duration_does_not_depend_on_where_the_clock_starts(tmp_path: Path, extension: str, start: int) -> None:
    codec = "mpeg4" if extension == "avi" else "h264"
    tone = Tone("mp3" if extension in ("avi", "flv") else "aac", sample_rate=44_100)
    path = make_video(tmp_path / f"a.{extension}", codec=codec, start=Fraction(start), size=TINY, audio=(tone,))
    assert facts(path).duration_seconds == pytest.approx(2.0, abs=0.06)


def test_a_clock_restart_in_a_transport_stream_promises_no_duration(tmp_path: Path) -> None:
    one = make_video(tmp_path / "one.ts", seconds=6, size=TINY, audio=())
    other = make_video(tmp_path / "other.ts", seconds=6, start=Fraction(80_000), size=TINY, audio=())
    path = tmp_path / "both.ts"
    path.write_bytes(one.read_bytes() + other.read_bytes())
    assert facts(path).duration_seconds is None


def test_variable_bit_rate_without_an_index_promises_no_duration(tmp_path: Path) -> None:
    assert facts(make_audio(tmp_path / "a.aac", codec="aac", seconds=5)).duration_seconds is None


def test_constant_bit_rate_and_indexed_mp3_promise_their_duration(tmp_path: Path) -> None:
    ac3 = facts(make_audio(tmp_path / "a.ac3", codec="ac3", seconds=5))
    mp3 = facts(make_audio(tmp_path / "a.mp3", options={"qscale": "4"}, seconds=5))
    assert ac3.duration_seconds == pytest.approx(5, abs=0.05)
    assert mp3.duration_seconds == pytest.approx(5, abs=0.05)
