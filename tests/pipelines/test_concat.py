"""Inputs joined into one output: lengths, boundaries, sound beside pictures, and what differs between inputs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from pipelines.concat.transcode import plan_files, transcode_joined
from pipelines.errors import BadInput, LimitExceeded, UnsupportedSpec
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.result import Result
from pipelines.spec import FileJob
from pipelines.stitch.cuts import spec_refusal
from tests.jobs import DEVICE, SMALL
from tests.measure import click_times, decode_audio, decode_video, flash_times, tones
from tests.media import Tone, make_audio, make_flash_click, make_video
from tests.pictures import made, plane_of, seen
from tests.pipelines.test_picture_hdr import PQ, columns, hdr_clip, pq

Clips = Sequence[dict[str, float] | None]


def job(paths: Sequence[Path], *outputs: dict[str, Any], clips: Clips | None = None, **more: Any) -> FileJob:
    inputs = [{"path": path.name, "clip": clip} for path, clip in zip(paths, clips or [None] * len(paths), strict=True)]
    return FileJob.model_validate({"inputs": inputs, "outputs": list(outputs), **more})


def files(paths: Sequence[Path]) -> list[LocalFile]:
    return [LocalFile(path, path.name) for path in paths]


def joined(
    paths: Sequence[Path], folder: Path, output: dict[str, Any], limits: Limits | None = None, **more: Any
) -> tuple[Path, Result]:
    folder.mkdir(exist_ok=True)
    result = transcode_joined(
        job(paths, output, **more), files(paths), folder, device=DEVICE, limits=limits or Limits()
    )
    return folder / result.outputs[0].path, result


MP4 = {"type": "mp4", "video": SMALL}


@pytest.mark.slow
def test_frames_of_all_inputs_are_there_at_the_first_ones_rate(tmp_path: Path) -> None:
    a = make_video(tmp_path / "a.mp4", size=(160, 120), rate=25, seconds=2)
    b = make_video(tmp_path / "b.mkv", size=(128, 128), rate=50, seconds=1)
    c = make_video(tmp_path / "c.ts", size=(96, 54), rate=Fraction(30_000, 1001), seconds=2)
    output, result = joined([a, b, c], tmp_path / "out", MP4)
    video = decode_video(output)
    assert abs(len(video.frames) - 125) <= 1
    assert {(frame.width, frame.height) for frame in video.frames} == {(86, 64)}
    steps = np.diff([float(time) for time in video.times])
    assert steps == pytest.approx(0.04, abs=1e-4)
    assert result.outputs[0].duration_seconds == pytest.approx(5, abs=0.06)


@pytest.mark.slow
def test_sound_and_picture_stay_together_after_each_joint(tmp_path: Path) -> None:
    paths = [
        make_flash_click(tmp_path / "a.mp4", seconds=2, rate=30),
        make_flash_click(tmp_path / "b.mkv", seconds=2, rate=25, sample_rate=44_100),
        make_flash_click(tmp_path / "c.ts", seconds=2, rate=30),
    ]
    output, _ = joined(paths, tmp_path / "out", {"type": "mp4", "video": {"speed": "ultrafast"}})
    flashes, clicks = [float(time) for time in flash_times(output)], click_times(output)
    assert len(flashes) == len(clicks) == 6
    assert np.abs(np.array(flashes) - np.array(clicks)).max() < 0.02 + 0.017  # half a frame at 30 fps
    assert np.abs(np.mean(np.array(flashes) - np.array(clicks))) < 0.02
    for number, time in enumerate(clicks):
        assert time == pytest.approx(2 * (number // 2) + 0.5 + number % 2, abs=0.06)


def test_clips_of_each_input_are_cut_where_they_say(tmp_path: Path) -> None:
    paths = [make_flash_click(tmp_path / f"{name}.mp4", seconds=2, rate=30) for name in "ab"]
    clips = [{"start": 1, "end": 2}, {"start": 0, "end": 1}]
    output, _ = joined(paths, tmp_path / "out", {"type": "mp4", "video": {"speed": "ultrafast"}}, clips=clips)
    assert [float(time) for time in flash_times(output)] == pytest.approx([0.5, 1.5], abs=0.034)
    assert click_times(output) == pytest.approx([0.5, 1.5], abs=0.02)
    assert len(decode_video(output).frames) == 60
    assert decode_audio(output).seconds == pytest.approx(2, abs=0.03)


@pytest.mark.parametrize("silent", [0, 1, 2])
def test_an_input_without_sound_is_silent_for_its_time(tmp_path: Path, silent: int) -> None:
    paths = [
        make_video(tmp_path / f"{n}.mp4", size=(96, 64), seconds=1, audio=() if n == silent else (Tone(),))
        for n in range(3)
    ]
    output, _ = joined(paths, tmp_path / "out", MP4)
    heard = decode_audio(output)
    assert heard.seconds == pytest.approx(3, abs=0.05)
    rate = heard.sample_rate
    for number in range(3):
        middle = heard.samples[:, int((number + 0.2) * rate) : int((number + 0.8) * rate)]
        assert (float(np.abs(middle).max()) < 1e-3) is (number == silent)


def test_sound_of_other_layouts_and_rates_becomes_the_first_ones(tmp_path: Path) -> None:
    paths = [
        make_audio(tmp_path / "a.wav", codec="pcm_s16le", layout="stereo", seconds=1, frequencies=(440.0, 440.0)),
        make_audio(tmp_path / "b.flac", layout="mono", sample_rate=22_050, seconds=1, frequencies=(660.0,)),
        make_audio(tmp_path / "c.wav", codec="pcm_s16le", layout="5.1", seconds=1, frequencies=(880.0,) * 6),
    ]
    output, _ = joined(paths, tmp_path / "out", {"type": "audio", "format": "flac"})
    heard = decode_audio(output)
    assert (heard.layout, heard.sample_rate) == ("stereo", 48_000)
    assert heard.samples.shape[1] == pytest.approx(3 * 48_000, abs=100)
    for number, pitch in enumerate((440, 660, 880)):
        part = type(heard)(heard.samples[:, number * 48_000 + 4800 : (number + 1) * 48_000 - 4800], 48_000, "stereo",
                           heard.start)  # fmt: skip
        assert tones(part) == pytest.approx((pitch, pitch), abs=4)


def test_hdr_and_sdr_are_joined_as_sdr(tmp_path: Path) -> None:
    hdr = hdr_clip(tmp_path / "hdr.mkv", columns(pq([203] * 8)), PQ)
    sdr = make_video(tmp_path / "sdr.mp4", size=(128, 64), seconds=1, audio=())
    for paths in ([hdr, sdr], [sdr, hdr]):
        output, _ = joined(
            paths,
            tmp_path / paths[0].stem,
            {"type": "mp4", "audio": None, "video": {"codec": "hevc", "speed": "ultrafast"}},
        )
        info = seen(output)
        assert not info.colour.is_hdr
        assert info.pixel_format == "yuv420p"
        frames = decode_video(output).frames
        level = plane_of(frames[0] if paths[0] is hdr else frames[-1])[32, 64]
        alone = plane_of(decode_video(made(hdr, tmp_path / "alone", "mp4"), limit=1).frames[0])[32, 64]
        assert level == pytest.approx(int(alone), abs=4)


def test_each_input_is_a_chapter_where_that_is_asked_for(tmp_path: Path) -> None:
    paths = [make_video(tmp_path / f"{name}.mp4", size=(96, 64), seconds=1) for name in ("first", "second")]
    output, _ = joined(paths, tmp_path / "out", MP4, input_chapters=True)
    from pipelines.probe import probe

    chapters = probe(LocalFile(output, "out"), Limits()).chapters
    assert [chapter.title for chapter in chapters] == ["first", "second"]
    assert [chapter.start_seconds for chapter in chapters] == pytest.approx([0, 1], abs=0.03)


def test_ladders_are_joined_too(tmp_path: Path) -> None:
    paths = [make_video(tmp_path / f"{name}.mp4", size=(96, 64), seconds=1) for name in "ab"]
    ladder = {"type": "hls", "segment_seconds": 1, "video": [{"height": 48, "speed": "ultrafast"}, SMALL]}
    _, result = joined(paths, tmp_path / "out", ladder)
    assert [each.frames for each in result.outputs[0].renditions if each.kind == "video"] == [50, 50]


def test_errors_name_the_input(tmp_path: Path) -> None:
    good = make_video(tmp_path / "a.mp4", size=(96, 64), seconds=1)
    bad = tmp_path / "b.mp4"
    bad.write_bytes(b"not media at all" * 100)
    with pytest.raises(BadInput) as caught:
        joined([good, bad], tmp_path / "out", MP4)
    assert caught.value.message.startswith("input 2: ")
    assert caught.value.facts["input"] == 2
    sound = make_audio(tmp_path / "c.wav", codec="pcm_s16le", seconds=1)
    with pytest.raises(UnsupportedSpec, match="input 2 has no picture"):
        joined([good, sound], tmp_path / "out", MP4)
    with pytest.raises(UnsupportedSpec, match="clip of input 2 starts at 5 s"):
        joined([good, good], tmp_path / "out", MP4, clips=[None, {"start": 5}])


def test_limits_are_for_the_sum(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "a.mp4", size=(96, 64), seconds=1)
    with pytest.raises(LimitExceeded, match="together"):
        joined([clip, clip], tmp_path / "out", MP4, Limits(max_duration_seconds=1.5))


@pytest.mark.parametrize(
    "output",
    [{"type": "copy"}, {"type": "mp4", "video": "copy"}, {"type": "mp4", "audio": "copy"},
     {"type": "mp4", "audio": {"loudness": {}}}],
)  # fmt: skip
def test_what_can_not_be_joined_is_refused(tmp_path: Path, output: dict[str, Any]) -> None:
    clip = make_video(tmp_path / "a.mp4", size=(96, 64), seconds=1)
    with pytest.raises(UnsupportedSpec):
        joined([clip, clip], tmp_path / "out", output)


def test_the_plan_has_a_part_for_each_input(tmp_path: Path) -> None:
    paths = [make_video(tmp_path / f"{name}.mp4", size=(96, 64), seconds=1) for name in "ab"]
    planned = plan_files(job(paths, MP4, clips=[None, {"start": 0.5}]), files(paths), DEVICE, Limits())
    assert [part.duration_seconds for part in planned.parts] == pytest.approx([1, 0.5], abs=0.03)
    assert planned.duration_seconds == pytest.approx(1.5, abs=0.05)
    assert planned.parts[1].reason.startswith("input 2; 96×64")


def test_jobs_say_input_or_inputs() -> None:
    two = [{"path": "a"}, {"path": "b"}]
    spec = FileJob.model_validate({"inputs": two, "preset": "web-mp4"})
    assert spec.input.path == "a"
    assert FileJob.model_validate(spec.model_dump(mode="json")) == spec
    assert spec_refusal(spec.model_copy(update={"preset": None, "outputs": ()})) == "its inputs are joined"
    for wrong in ({"input": {"path": "c"}, "inputs": two}, {"inputs": two[:1]}, {"inputs": []}, {"inputs": two * 40},
                  {"input": two[0], "input_chapters": True}):  # fmt: skip
        with pytest.raises(ValidationError):
            FileJob.model_validate({**wrong, "preset": "web-mp4"})
