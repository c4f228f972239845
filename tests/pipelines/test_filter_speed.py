"""Speed: pictures, sound, subtitles and chapters of an output keep together; and fades of sound."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from pydantic import ValidationError

from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.probe import probe
from pipelines.spec import FileJob
from pipelines.stitch.cuts import spec_refusal
from tests.jobs import transcoded
from tests.measure import decode_video
from tests.media import Mark, Subtitles, make_audio, make_video
from tests.pictures import Array

SMALL = {"speed": "ultrafast"}
SIZE = (160, 120)


def at_speed(factor: float | str, **output: Any) -> dict[str, Any]:
    return {"type": "mkv", "video": SMALL, "filters": [{"type": "speed", "factor": factor}], **output}


def times_of(path: Path) -> list[Fraction]:
    with av.open(str(path)) as container:
        return [frame.pts * frame.time_base for frame in container.decode(video=0)]


def sound_of(path: Path) -> tuple[Array, int]:
    """The first channel, and its rate."""
    with av.open(str(path)) as container:
        frames = list(container.decode(audio=0))
    return np.concatenate([frame.to_ndarray()[0] for frame in frames]), frames[0].sample_rate


def loudest(sound: Array, rate: int, frequency: float) -> float:
    """Seconds at which a tone is loudest, of 20 ms windows."""
    wave = np.exp(-2j * np.pi * frequency * np.arange(len(sound)) / rate) * sound
    width = rate // 50
    return float(np.abs(np.convolve(wave, np.ones(width) / width, "same")).argmax() / rate)


@pytest.mark.parametrize("factor", ["1/2", 2, pytest.param("25/24", marks=pytest.mark.slow)])
def test_each_picture_is_at_its_time_divided_by_the_factor(tmp_path: Path, factor: float | str) -> None:
    path = make_video(tmp_path / "clip.mp4", size=SIZE, rate=24, seconds=2, b_frames=2)
    output, result = transcoded(path, tmp_path / "out", {**at_speed(factor), "type": "mp4"})
    pace = Fraction(factor)
    times = times_of(output)
    assert times == pytest.approx([Fraction(number, 24) / pace for number in range(48)], abs=1e-6)
    video, audio = result.outputs[0].renditions
    assert video.duration_seconds == pytest.approx(float(2 / pace), abs=1e-4)
    assert audio.duration_seconds == pytest.approx(float(2 / pace), abs=1e-4)
    assert audio.source_end_seconds == pytest.approx(float(2 / pace), abs=0.05)


def test_variable_timing_is_scaled_and_stays_variable(tmp_path: Path) -> None:
    stamps = [Fraction(n, 1000) for n in (0, 40, 120, 130, 400, 900, 1500)]
    path = make_video(tmp_path / "clip.mkv", size=SIZE, timestamps=stamps, end=Fraction(2), audio=())
    output, _ = transcoded(path, tmp_path / "out", at_speed("1/4"))
    assert [float(time) for time in times_of(output)] == [float(4 * stamp) for stamp in stamps]


def test_a_rate_that_is_asked_for_is_kept(tmp_path: Path) -> None:
    path = make_video(tmp_path / "clip.mkv", size=SIZE, seconds=2, audio=())
    output, _ = transcoded(path, tmp_path / "out", at_speed(2, video={**SMALL, "frame_rate": 10}))
    assert [float(time) for time in times_of(output)] == [number / 10 for number in range(10)]


def test_what_would_be_too_fast_for_players_is_cut_down_evenly(tmp_path: Path) -> None:
    path = make_video(tmp_path / "clip.mkv", size=SIZE, rate=30, seconds=2, audio=())
    output, result = transcoded(path, tmp_path / "out", {**at_speed(3), "type": "mp4"})
    assert times_of(output) == pytest.approx([Fraction(number, 45) for number in range(30)], abs=1e-4)
    assert result.outputs[0].renditions[0].dropped == 30


@pytest.mark.parametrize("factor", [0.5, 2])
def test_sound_keeps_its_pitch_and_stays_with_the_picture(tmp_path: Path, factor: float) -> None:
    rate = 48_000
    seconds = np.arange(3 * rate) / rate
    swell = np.exp(-(((seconds - 1.5) / 0.2) ** 2))
    path = tmp_path / "clip.wav"
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("pcm_s16le", rate=rate, layout="mono")
        wave = (20_000 * swell * np.sin(2 * np.pi * 440 * seconds)).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(wave[None], format="s16", layout="mono")
        frame.sample_rate = rate
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    output = {"type": "audio", "format": "flac", "audio": {"codec": "flac"}}
    made, _ = transcoded(path, tmp_path / "out", {**output, "filters": [{"type": "speed", "factor": factor}]})
    sound, sample_rate = sound_of(made)
    assert len(sound) == round(3 / factor * sample_rate)
    assert loudest(sound.astype(float), sample_rate, 440) == pytest.approx(1.5 / factor, abs=0.03)
    spectrum = np.abs(np.fft.rfft(sound))
    assert spectrum.argmax() * sample_rate / len(sound) == pytest.approx(440, abs=5)


def test_subtitles_and_chapters_go_with_the_film(tmp_path: Path) -> None:
    cues = Subtitles(((1, 2, "Hello"),))
    marks = (Mark(0, 1, "one"), Mark(1, 3, "two"))
    path = make_video(tmp_path / "clip.mkv", size=SIZE, seconds=3, subtitles=(cues,), chapters=marks)
    output, _ = transcoded(path, tmp_path / "out", {**at_speed(2), "type": "mp4"})
    source = probe(LocalFile(output, output.name), Limits())
    assert [chapter.start_seconds for chapter in source.chapters] == pytest.approx([0, 0.5], abs=0.002)
    text, _ = transcoded(path, tmp_path / "text", {"type": "subtitles", "filters": [{"type": "speed", "factor": 2}]})
    assert "00:00:00,500 --> 00:00:01,000" in text.read_text()


def test_a_clip_is_taken_first_and_played_faster_then(tmp_path: Path) -> None:
    path = make_video(tmp_path / "clip.mp4", size=SIZE, seconds=4)
    output, result = transcoded(path, tmp_path / "out", at_speed(2), clip={"start": 1.0, "end": 3.0})
    assert len(times_of(output)) == 50
    assert result.outputs[0].duration_seconds == pytest.approx(1.0, abs=0.002)


@pytest.mark.slow
def test_ladders_are_cut_in_the_time_that_is_played(tmp_path: Path) -> None:
    path = make_video(tmp_path / "clip.mp4", size=SIZE, seconds=4)
    ladder = {"type": "hls", "segment_seconds": 1, "video": [{"height": 64, "speed": "ultrafast"}]}
    output, result = transcoded(path, tmp_path / "out", {**ladder, "filters": [{"type": "speed", "factor": 2}]})
    playlist = next(each for each in output.parent.rglob("*.m3u8") if "64p" in str(each) and "frame" not in each.name)
    lengths = [
        float(line[8:].split(",")[0]) for line in playlist.read_text().splitlines() if line.startswith("#EXTINF")
    ]
    assert lengths == pytest.approx([1.0, 1.0], abs=0.03)
    assert result.outputs[0].duration_seconds == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize(
    "output",
    [
        at_speed(2, audio="copy"),
        at_speed(2, video="copy", audio=None),
        at_speed(4.5),
        at_speed("1e1"),
        at_speed(0),
        {"type": "mp4", "video": {"filters": [{"type": "speed", "factor": 2}]}},
        {"type": "copy", "filters": [{"type": "speed", "factor": 2}]},
        {"type": "hls", "video": [{"filters": [{"type": "fade", "in_seconds": 1, "sound": True}]}]},
    ],
)
def test_what_has_no_speed_is_refused(output: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FileJob.model_validate({"input": {"path": "in"}, "outputs": [output]})


def test_a_job_at_another_speed_is_not_cut_into_pieces() -> None:
    spec = FileJob.model_validate({"input": {"path": "in"}, "outputs": [{**at_speed(2), "type": "mp4"}]})
    assert spec_refusal(spec) == "it is played at another speed"


def test_sound_fades_alone(tmp_path: Path) -> None:
    path = make_audio(tmp_path / "clip.flac", seconds=3, layout="mono")
    fade = {"in_seconds": 1, "out_seconds": 0.5}
    made, _ = transcoded(
        path, tmp_path / "out", {"type": "audio", "audio": {"codec": "flac", "fade": fade}, "format": "flac"}
    )
    plain, _ = transcoded(path, tmp_path / "plain", {"type": "audio", "audio": {"codec": "flac"}, "format": "flac"})
    (faded, rate), (whole, _) = sound_of(made), sound_of(plain)
    assert len(faded) == len(whole)
    shares = {at: _level(faded, rate, at) / _level(whole, rate, at) for at in (0.25, 0.5, 1.5, 2.4, 2.75)}
    assert list(shares.values()) == pytest.approx([0.25, 0.5, 1, 1, 0.5], abs=0.03)


def test_sound_fades_with_the_pictures_at_the_end_of_what_is_played(tmp_path: Path) -> None:
    path = make_video(tmp_path / "clip.mkv", size=SIZE, seconds=4)
    filters = [{"type": "speed", "factor": 2}, {"type": "fade", "out_seconds": 1, "sound": True}]
    output, _ = transcoded(path, tmp_path / "out", {"type": "mkv", "video": SMALL, "filters": filters})
    sound, rate = sound_of(output)
    assert _level(sound, rate, 1.5) / _level(sound, rate, 0.6) == pytest.approx(0.5, abs=0.08)
    pictures = decode_video(output).frames
    assert pictures[-1].to_ndarray(format="gray").mean() < 10


def _level(sound: Array, rate: int, at: float) -> float:
    part = sound[int((at - 0.05) * rate) : int((at + 0.05) * rate)].astype(float)
    return float(np.sqrt((part**2).mean()))
