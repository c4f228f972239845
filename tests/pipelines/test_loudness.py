"""Loudness by EBU R 128: what comes out has the loudness asked for, measured by another implementation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyloudnorm
import pytest
from pydantic import ValidationError

from pipelines.asked.rungs import AudioSpec
from pipelines.asked.streams import StreamJob
from pipelines.errors import UnsupportedSpec
from pipelines.filters import Loudness, Normalise
from pipelines.result import LoudnessResult, Result
from pipelines.sound.loudness import LoudnessMeter, corrected
from tests.jobs import SMALL, run_job, transcoded
from tests.measure import DecodedAudio, decode_audio, tones
from tests.media import Tone, make_audio, make_video
from tests.pipelines.facts import audio, audio_of, source

Array = np.ndarray[Any, np.dtype[Any]]
RATE = 48_000


def wav(path: Path, samples: Array, layout: str = "stereo", rate: int = RATE) -> Path:
    """Samples (channels × samples, full scale 1) as 32-bit floats."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("pcm_f32le", rate=rate, layout=layout)
        packed = np.ascontiguousarray(samples.T.reshape(1, -1).astype(np.float32))
        frame = av.AudioFrame.from_ndarray(packed, format="flt", layout=layout)
        frame.sample_rate = rate
        for each in (frame, None):
            container.mux(stream.encode(each))
    return path


def speech(seconds: float, level: float = 0.05, rate: int = RATE, channels: int = 2) -> Array:
    """A voice of harmonics in syllables, of a level that goes up and down: its loudness has a range."""
    count = int(seconds * rate)
    time = np.arange(count) / rate
    phases = np.random.default_rng(7).random((channels, 8, 1)) * 2 * np.pi
    pitches = 180 * np.arange(1, 9)[None, :, None]
    voice = np.sin(2 * np.pi * pitches * time + phases).mean(axis=1)
    syllables = 0.7 + 0.3 * np.sin(2 * np.pi * 3 * time)
    slow = 10 ** (np.sin(2 * np.pi * time / 4) * 3 / 20)
    made: Array = np.clip(level * voice * syllables * slow, -1, 1)
    return made


def lufs(heard: DecodedAudio) -> float:
    """By pyloudnorm."""
    meter = pyloudnorm.Meter(heard.sample_rate)
    return float(meter.integrated_loudness(heard.samples.T.astype(np.float64)))


def true_peak(heard: DecodedAudio) -> float:
    """dBTP, of samples interpolated eightfold by their spectrum."""
    count = heard.samples.shape[1]
    spectrum = np.fft.rfft(heard.samples, axis=1)
    wide = np.fft.irfft(spectrum, n=8 * count, axis=1) * 8
    return 20 * math.log10(float(np.abs(wide).max()))


def told(result: Result) -> LoudnessResult:
    (found,) = [each.loudness for each in result.outputs[0].renditions if each.loudness is not None]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target", [-23, -16, -14])
def test_a_programme_comes_out_at_its_target(tmp_path: Path, target: float) -> None:
    path = wav(tmp_path / "in.wav", speech(8))
    asked = {"type": "audio", "format": "flac", "audio": {"loudness": {"target_lufs": target}}}
    output, result = transcoded(path, tmp_path / "out", asked)
    heard = decode_audio(output)
    assert lufs(heard) == pytest.approx(target, abs=0.3)
    assert true_peak(heard) <= -1
    about = told(result)
    assert about.before.integrated_lufs == pytest.approx(lufs(decode_audio(path)), abs=0.1)
    assert about.after.integrated_lufs == pytest.approx(lufs(heard), abs=0.1)
    assert about.before.true_peak_dbtp == pytest.approx(true_peak(decode_audio(path)), abs=0.2)
    assert about.before.range_lu > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output", "layout"),
    [
        ({"type": "mp4", "audio": {"codec": "aac"}}, "stereo"),
        ({"type": "webm", "audio": {"codec": "opus"}}, "5.1"),
        ({"type": "mkv", "audio": {"codec": "flac", "layout": "stereo"}}, "5.1"),
        ({"type": "audio", "format": "mp3"}, "mono"),
    ],
    ids=["aac", "opus-5.1", "downmix", "mp3-mono"],
)
def test_every_codec_and_layout_meets_the_target(tmp_path: Path, output: dict[str, Any], layout: str) -> None:
    channels = av.AudioLayout(layout).nb_channels
    path = wav(tmp_path / "in.wav", speech(5, channels=channels), layout)
    output = {**output, "audio": {**output.get("audio", {}), "loudness": {"target_lufs": -20}}}
    written, result = transcoded(path, tmp_path / "out", output)
    heard = decode_audio(written)
    # pyloudnorm takes up to five channels, without LFE
    if heard.layout == "5.1":
        heard = DecodedAudio(heard.samples[[0, 1, 2, 4, 5]], heard.sample_rate, "5.0", heard.start)
    assert lufs(heard) == pytest.approx(-20, abs=0.5)
    after = told(result).after.integrated_lufs
    assert after is not None
    assert after == pytest.approx(-20, abs=0.2)


def test_ladders_are_normalised_too(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", size=(160, 120), seconds=3, audio=(Tone(amplitude=0.05),))
    result = run_job(
        path,
        tmp_path / "out",
        {"type": "hls", "segment_seconds": 1, "video": [SMALL], "audio": {"loudness": {"target_lufs": -16}}},
    )
    after = told(result).after.integrated_lufs
    assert after == pytest.approx(-16, abs=0.3)


@pytest.mark.slow
def test_peaks_are_limited_only_where_the_gain_lifts_them_too_high(tmp_path: Path) -> None:
    samples = speech(6, level=0.1)
    samples[:, 2 * RATE : 2 * RATE + 40] = 0.5  # one click
    path = wav(tmp_path / "in.wav", samples)
    for over_peak, limited in (("limit", True), ("quieter", False)):
        asked = {"loudness": {"target_lufs": -16, "true_peak_dbtp": -2, "over_peak": over_peak}}
        output, result = transcoded(path, tmp_path / over_peak, {"type": "audio", "format": "flac", "audio": asked})
        heard, about = decode_audio(output), told(result)
        assert about.limited is limited
        assert true_peak(heard) <= -1.9
        assert (abs(lufs(heard) + 16) < 0.5) is limited
    # without a need for it, the sound is the same but for its level
    output, result = transcoded(
        path, tmp_path / "low", {"type": "audio", "format": "flac", "audio": {"loudness": {"target_lufs": -36}}}
    )
    assert not told(result).limited
    gain = 10 ** (told(result).gain_db / 20)
    assert np.abs(decode_audio(output).samples - samples.astype(np.float32) * gain).max() < 2e-4


def test_limiting_keeps_sound_in_its_place(tmp_path: Path) -> None:
    samples = np.zeros((2, 3 * RATE))
    samples[:, RATE : RATE + 2000] = 0.9 * np.sin(2 * np.pi * 1000 * np.arange(2000) / RATE)
    samples += speech(3, level=0.01)
    path = wav(tmp_path / "in.wav", samples)
    asked = {"type": "audio", "format": "flac", "audio": {"loudness": {"target_lufs": -9}}}
    output, result = transcoded(path, tmp_path / "out", asked)
    heard = decode_audio(output)
    assert told(result).limited
    assert heard.samples.shape == samples.shape
    loud = int(np.argmax(np.abs(heard.samples[0]) > 0.5))
    assert abs(loud - RATE) < RATE // 1000


@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.39, 0.5])
def test_short_sound_is_measured_as_if_it_went_on(tmp_path: Path, seconds: float) -> None:
    count = int(seconds * RATE)
    samples = np.tile(0.1 * np.sin(2 * np.pi * 1000 * np.arange(count) / RATE), (2, 1))
    path = wav(tmp_path / "in.wav", samples)
    asked = {"type": "audio", "format": "flac", "audio": {"loudness": {"target_lufs": -23}}}
    output, result = transcoded(path, tmp_path / "out", asked)
    assert told(result).before.integrated_lufs == pytest.approx(-20, abs=0.3)
    level = np.sqrt(np.mean(decode_audio(output).samples ** 2))
    assert 20 * np.log10(level) == pytest.approx(-26, abs=0.5)


def test_silence_stays_silence(tmp_path: Path) -> None:
    path = wav(tmp_path / "in.wav", np.zeros((2, RATE)))
    asked = {"type": "audio", "format": "flac", "audio": {"loudness": {}}}
    output, result = transcoded(path, tmp_path / "out", asked)
    assert told(result).before == Loudness(integrated_lufs=None, range_lu=0.0, true_peak_dbtp=None)
    assert told(result).gain_db == 0
    assert np.abs(decode_audio(output).samples).max() < 2**-22  # dither of 24 bits


def test_the_part_that_is_taken_is_what_is_measured(tmp_path: Path) -> None:
    samples = np.concatenate([speech(3, level=0.4), speech(3, level=0.02)], axis=1)
    path = wav(tmp_path / "in.wav", samples)
    asked = {"type": "audio", "format": "flac", "audio": {"loudness": {"target_lufs": -20}}}
    output, _ = transcoded(path, tmp_path / "out", asked, clip={"start": 3, "end": 6})
    assert lufs(decode_audio(output)) == pytest.approx(-20, abs=0.3)


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    path = wav(tmp_path / "in.wav", speech(5))
    asked = {"type": "audio", "format": "flac", "audio": {"loudness": {"target_lufs": -18}}}
    once, _ = transcoded(path, tmp_path / "one", asked)
    _, result = transcoded(once, tmp_path / "two", asked)
    assert abs(told(result).gain_db) < 0.1


def test_the_gain_is_bounded_and_follows_from_what_was_measured() -> None:
    step = Normalise(target_lufs=-16, true_peak_dbtp=-1)

    def gain(integrated: float, peak: float, **more: Any) -> tuple[float, bool]:
        found = Loudness(integrated_lufs=integrated, range_lu=5, true_peak_dbtp=peak)
        made = corrected(step.model_copy(update=more), found)
        return made.gain_db, made.limits

    assert gain(-20, -10) == (4, False)
    assert gain(-20, -3) == (4, True)
    assert gain(-20, -3, over_peak="quieter") == (2, False)
    assert gain(-10, 0.5) == (-6, False)
    assert gain(-69, -60) == (40, False)


def test_true_peaks_lie_between_samples() -> None:
    """A tone of a quarter of the sample rate, 45° off: samples at 0.707, the wave at 1."""
    fade = np.minimum(1, np.minimum(np.arange(RATE), RATE - np.arange(RATE)) / 4800)
    samples = (fade * np.sin(np.pi / 2 * np.arange(RATE) + np.pi / 4)).astype(np.float32)
    meter = LoudnessMeter()
    frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
    frame.sample_rate = RATE
    meter.push(frame)
    assert meter.result().true_peak_dbtp == pytest.approx(0, abs=0.3)
    assert 20 * math.log10(float(np.abs(samples).max())) == pytest.approx(-3, abs=0.05)


def test_channels_are_chosen_and_put_in_order(tmp_path: Path) -> None:
    path = make_audio(tmp_path / "in.wav", codec="pcm_s16le", layout="5.1", seconds=1)
    before = tones(decode_audio(path))
    for wanted, expected in ((("FR", "FL"), (1, 0)), ((2,), (2,)), (("FC", "FC"), (2, 2)), ((5, "LFE"), (5, 3))):
        output, _ = transcoded(
            path, tmp_path / "out", {"type": "audio", "format": "flac", "audio": {"channel_map": wanted}}
        )
        heard = decode_audio(output)
        assert heard.layout == ("mono" if len(wanted) == 1 else "stereo")
        assert tones(heard) == pytest.approx(tuple(before[place] for place in expected), abs=4)


def test_a_map_of_stereo_swaps_it_where_nothing_else_changes(tmp_path: Path) -> None:
    path = make_audio(tmp_path / "in.wav", codec="pcm_s16le", seconds=0.5)
    output, _ = transcoded(
        path, tmp_path / "out", {"type": "audio", "format": "flac", "audio": {"channel_map": ["FR", "FL"]}}
    )
    assert np.array_equal(decode_audio(output).samples, decode_audio(path).samples[::-1])


@pytest.mark.parametrize("channel_map", [["BL"], [2], ["FL", "FR", 7]])
def test_channels_that_are_not_there_are_refused(channel_map: list[str | int]) -> None:
    with pytest.raises(UnsupportedSpec, match="no channel"):
        audio_of({"type": "mp4", "audio": {"channel_map": channel_map}}, source(audio(layout="stereo", channels=2)))


def test_a_map_of_another_number_than_the_layout_is_refused() -> None:
    with pytest.raises(UnsupportedSpec, match="channel_map has 1"):
        audio_of({"type": "mp4", "audio": {"channel_map": [0], "layout": "stereo"}}, source(audio()))


@pytest.mark.parametrize(
    "wrong",
    [{"channel_map": []}, {"channel_map": ["volume=1"]}, {"channel_map": [64]}, {"loudness": {"target_lufs": 0}},
     {"loudness": {"true_peak_dbtp": 3}}, {"loudness": {"target_lufs": math.nan}}, {"loudness": {"filter": "x"}}],
)  # fmt: skip
def test_hostile_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AudioSpec.model_validate(wrong)


def test_streams_have_no_loudness_to_measure() -> None:
    with pytest.raises(ValidationError, match="no end yet"):
        StreamJob.model_validate(
            {"input": {"url": "rtmp://example.org/a"},
             "outputs": [{"type": "hls", "video": [{"height": 360}], "audio": {"loudness": {}}}]}
        )  # fmt: skip


def test_the_plan_says_what_will_be_done() -> None:
    made = audio_of(
        {"type": "mp4", "audio": {"loudness": {"target_lufs": -16}, "layout": "stereo"}},
        source(audio(layout="5.1", channels=6)),
    )
    assert "one gain to -16 LUFS" in made.reason
    assert [step.kind for step in made.filters] == ["resample", "normalise"]
