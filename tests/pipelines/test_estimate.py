"""What a plan is expected to take: by speeds that are known, by rate control and by the source."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pipelines.estimates.estimate import estimate
from pipelines.estimates.speeds import Speed, Speeds, effort_of, learned, same_effort
from pipelines.estimates.work import Estimate, Pace
from tests.pipelines.facts import audio, planned, source, video

X264 = Speed(stage="encode", coder="libx264", effort="medium", pixels_per_second=50e6)
H264 = Speed(stage="decode", coder="h264", pixels_per_second=500e6)


def of(output: dict[str, Any], *speeds: Speed, **changes: Any) -> Estimate:
    facts = source(video(bit_rate=changes.pop("bit_rate", None)), audio(bit_rate=128_000), **changes)
    return estimate(planned({"type": "mp4", **output}, facts), facts, Pace(cpu=speeds))


def test_parts_that_share_the_cpu_take_their_times_together() -> None:
    made = of({"video": {"height": 720}}, X264, H264)
    decode, encode = 1920 * 1080 * 25 / 500e6, 1280 * 720 * 25 / 50e6
    assert made.speed == pytest.approx(1 / (decode + encode), rel=0.01)
    assert made.seconds == pytest.approx(60 * (decode + encode), rel=0.01)
    assert {part.basis for part in made.work} == {"measured"}


def test_nothing_is_foretold_of_what_is_not_known() -> None:
    made = of({"video": {"height": 720}}, X264)
    assert (made.speed, made.seconds) == (None, None)
    assert any("not known on this device" in reason for reason in made.because)


def test_a_copy_has_a_size_and_no_speed() -> None:
    made = of({"video": "copy", "audio": "copy"}, bit_rate=4_000_000)
    assert made.speed is None
    assert made.size_bytes == pytest.approx((4_000_000 + 128_000) * 60 / 8, rel=0.02)


def test_a_faster_effort_is_derived_from_the_known_one() -> None:
    fast = of({"video": {"height": 720, "speed": "ultrafast"}}, X264, H264)
    usual = of({"video": {"height": 720}}, X264, H264)
    slow = of({"video": {"height": 720, "speed": "slower"}}, X264, H264)
    assert fast.speed is not None
    assert usual.speed is not None
    assert slow.speed is not None
    assert fast.speed > 2 * usual.speed > 4 * slow.speed
    assert fast.work[1].basis == "derived"


def test_a_bitrate_gives_the_size_and_quality_a_guess_that_rises_with_it() -> None:
    asked = {"mode": "vbr", "bitrate": 3_000_000}
    audio_spec = {"codec": "aac", "bitrate": 128_000}
    exact = of({"video": {"rate_control": asked}, "audio": audio_spec})
    assert exact.size_bytes == pytest.approx(3_128_000 * 60 / 8, rel=0.02)
    sizes = [of({"video": {"rate_control": {"mode": "crf", "crf": crf}}}).size_bytes or 0 for crf in (18, 24, 30)]
    assert sizes[0] > 1.5 * sizes[1] > 2 * sizes[2] > 0


def test_a_cap_bounds_the_guess() -> None:
    capped = {"mode": "crf", "crf": 10, "maxrate": 1_000_000}
    made = of({"video": {"rate_control": capped}, "audio": None})
    assert made.size_bytes == pytest.approx(1_000_000 * 60 / 8, rel=0.02)
    assert any("capped" in reason for reason in made.because)


def test_a_source_of_few_bits_needs_few() -> None:
    calm, busy = (of({"video": {"height": 720}}, bit_rate=rate).size_bytes or 0 for rate in (500_000, 12_000_000))
    assert busy > 2 * calm > 0


def test_without_a_duration_the_speed_is_still_told() -> None:
    made = of({"video": {"height": 720}}, X264, H264, duration_seconds=None)
    assert made.speed is not None
    assert (made.seconds, made.size_bytes) == (None, None)


@pytest.mark.parametrize("encoder", ["libx264", "libx265", "libsvtav1", "libvpx-vp9", "h264_vaapi", "hevc_qsv"])
def test_an_effort_is_read_back_from_an_encoders_options(encoder: str) -> None:
    names = {same_effort(encoder, effort) for effort in ("veryfast", "medium", "veryslow")}
    assert names == {"veryfast", "medium", "veryslow"} or names <= {"ultrafast", "veryfast", "medium", "veryslow"}
    assert same_effort(encoder, "medium") == "medium"


def test_an_unknown_encoder_is_taken_for_usual() -> None:
    assert effort_of("mjpeg_vaapi", {}) == "medium"


def test_speeds_of_attempts_approach_what_they_take() -> None:
    speed = Speed(stage="encode", coder="libx264", effort="medium", pixels_per_second=10e6)
    for _ in range(20):
        # each takes as long as 40 Mpixel/s would
        speed = learned(speed, speed.pixels_per_second / 40e6, 1.0)
    assert speed.pixels_per_second == pytest.approx(40e6, rel=0.05)
    assert speed.samples == 20


def test_one_odd_attempt_moves_a_learned_speed_a_little() -> None:
    speed = Speed(stage="encode", coder="libx264", effort="medium", pixels_per_second=40e6, samples=5)
    assert learned(speed, 1000.0, 1.0).pixels_per_second > 40e6 * 10**-0.31
    assert learned(speed, 2.0, 0.01).pixels_per_second == pytest.approx(40e6, rel=0.01)


def test_what_an_attempt_said_outweighs_the_trial() -> None:
    speeds = Speeds.of([X264], [X264.model_copy(update={"pixels_per_second": 7e6, "samples": 3})])
    found = speeds.find("encode", "libx264", "medium")
    assert found is not None
    assert (found.pixels_per_second, found.basis) == (7e6, "learned")


def test_qsv_is_as_fast_as_the_engine_behind_it() -> None:
    speeds = Speeds.of([Speed(stage="encode", coder="hevc_vaapi", effort="medium", pixels_per_second=300e6)])
    found = speeds.find("encode", "hevc_qsv", "medium")
    assert found is not None
    assert found.pixels_per_second == 300e6


def test_rates_of_odd_sources_are_counted_exactly() -> None:
    facts = source(video(frame_rate=Fraction(30_000, 1001), width=853, height=479), audio())
    made = estimate(planned({"type": "mp4", "video": {}}, facts), facts, Pace(cpu=(X264, H264)))
    assert made.work[0].pixels == pytest.approx(853 * 479 * 30_000 / 1001)
