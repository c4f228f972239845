"""What OUT's extension, a preset and options ask for together."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from pipelines.asked import rungs
from pipelines.errors import UnsupportedSpec
from pipelines.presets import Preset, load_presets
from pipelines.rate_control import Crf, Vbr
from pipelines.spec import AudioOutput, AudioSpec, CopyOutput, FileOutput, MkvOutput, Mp4Output, Rung, WebmOutput
from transcoder.cli import choices as cli_choices
from transcoder.cli.choices import Choices
from transcoder.cli.failures import CommandError
from transcoder.cli.target import CONTAINERS, container_of, output_for
from transcoder.cli.values import SUFFIXES

PRESETS = load_presets()
FILES = {
    name: preset for name, preset in PRESETS.items() if all(isinstance(each, FileOutput) for each in preset.outputs)
}
"""Those that make one file of video or sound."""


def made(container: str, preset: str | None = None, **options: object) -> FileOutput:
    return output_for(container, PRESETS[preset] if preset else None, Choices(**options))[0]  # type: ignore[arg-type]


def rung(output: FileOutput) -> Rung:
    video = getattr(output, "video", None)
    assert isinstance(video, Rung)
    return video


def sound(output: FileOutput) -> AudioSpec:
    audio = getattr(output, "audio", None)
    assert isinstance(audio, AudioSpec)
    return audio


def test_choices_are_the_engines_own() -> None:
    assert get_args(cli_choices.VideoCodecChoice) == (*get_args(rungs.VideoCodec), "copy", "none")
    assert get_args(cli_choices.AudioCodecChoice) == (*get_args(rungs.AudioCodec), "copy", "none")
    assert get_args(cli_choices.SpeedChoice) == get_args(rungs.Speed)


def test_every_container_has_an_extension() -> None:
    assert set(CONTAINERS.values()) == {*get_args(rungs.VideoContainer), *get_args(rungs.AudioContainer)}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_extension_alone_is_enough(suffix: str) -> None:
    container = container_of(Path(f"out{suffix.upper()}"))
    assert made(container).container == container


@pytest.mark.parametrize("name", ["out.avi", "out", "mp4", ".mp4"])
def test_other_extension_is_refused_with_the_choice(name: str) -> None:
    with pytest.raises(CommandError, match=r"\.mp4 .*\.flac"):
        container_of(Path(name))


@pytest.mark.parametrize("name", sorted(PRESETS.keys() - FILES.keys()))
def test_preset_of_a_ladder_or_pictures_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(CommandError, match="jobs submit"):
        output_for("mp4", PRESETS[name], Choices())


@pytest.mark.parametrize("preset", FILES.values(), ids=list(FILES))
def test_preset_in_its_own_container_is_the_preset(preset: Preset) -> None:
    (wanted,) = preset.outputs
    output, notes = output_for(wanted.container, preset, Choices())
    assert output == wanted
    assert notes == ()


def test_preset_goes_into_another_container() -> None:
    output = made("mkv", "h264-720p")
    assert isinstance(output, MkvOutput)
    assert output.video == PRESETS["h264-720p"].outputs[0].video  # type: ignore[union-attr]


def test_sound_that_the_container_lacks_is_replaced_and_said() -> None:
    output, notes = output_for("webm", PRESETS["av1-1080p"], Choices())
    assert sound(output).codec == "opus"
    assert sound(output).bitrate is None
    assert len(notes) == 1
    assert "aac" in notes[0]


def test_picture_that_the_container_lacks_is_refused_with_the_choice() -> None:
    with pytest.raises(UnsupportedSpec, match=r"av1.*\.mp4"):
        made("ts", "av1-1080p")


def test_video_preset_for_a_sound_file_gives_its_sound() -> None:
    output = made("m4a", "h264-720p")
    assert isinstance(output, AudioOutput)
    assert sound(output).bitrate == 128_000


def test_other_codec_drops_the_presets_quality() -> None:
    output, notes = output_for("mp4", PRESETS["h264-720p"], Choices(video_codec="hevc"))
    assert rung(output).codec == "hevc"
    assert rung(output).rate_control is None
    assert rung(output).height == 720
    assert len(notes) == 1


def test_options_change_the_preset() -> None:
    changed = rung(made("mp4", "h264-720p", height=360, speed="slow", frame_rate="29.97", gop_seconds=2.0))
    assert (changed.height, changed.width, changed.speed, changed.gop_seconds) == (360, 1280, "slow", 2.0)
    assert str(changed.frame_rate) == "30000/1001"


def test_crf_keeps_the_presets_cap() -> None:
    assert rung(made("mp4", "h264-720p", crf=18)).rate_control == Crf(crf=18, maxrate=4_500_000, bufsize=9_000_000)


def test_maxrate_changes_the_cap_only() -> None:
    assert rung(made("mp4", "h264-720p", maxrate=1_000_000)).rate_control == Crf(crf=22, maxrate=1_000_000)


def test_bitrate_is_an_average() -> None:
    assert rung(made("mp4", bitrate=2_000_000)).rate_control == Vbr(bitrate=2_000_000)


def test_bitrate_of_a_sound_file_is_the_sounds() -> None:
    assert sound(made("mp3", bitrate=96_000)).bitrate == 96_000


@pytest.mark.parametrize("options", [{"crf": 20, "bitrate": 1_000_000}, {"maxrate": 1_000_000}])
def test_rate_controls_that_exclude_each_other_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(CommandError):
        made("mp4", **options)


def test_copy_is_a_remux() -> None:
    assert made("mkv", copy=True) == CopyOutput(name="output", format="mkv")
    assert made("mkv", "remux-mp4") == CopyOutput(name="output", format="mkv")
    assert made("mp3", copy=True) == AudioOutput(name="output", format="mp3", audio="copy")


def test_copy_takes_a_clip_but_no_encoding() -> None:
    assert isinstance(made("mkv", copy=True, start=1.0, end=2.0), CopyOutput)
    with pytest.raises(CommandError, match=r"--height, --crf"):
        made("mkv", copy=True, height=720, crf=20)


def test_tracks_can_be_copied_or_left_out() -> None:
    output = made("mp4", video_codec="copy", audio_codec="none", subtitles=False)
    assert output == Mp4Output(name="output", video="copy", audio=None, subtitles=None)


def test_archive_keeps_its_copied_sound() -> None:
    output = made("mkv", "mkv-archive-hevc", crf=20)
    assert getattr(output, "audio", None) == "copy"
    assert rung(output).rate_control == Crf(crf=20)


def test_no_sound_in_a_sound_file_is_refused() -> None:
    with pytest.raises(CommandError, match="sound only"):
        made("mp3", audio_codec="none")


def test_preset_with_several_files_is_refused() -> None:
    two = Preset(name="two", outputs=(Mp4Output(name="a"), WebmOutput(name="b")))
    with pytest.raises(CommandError, match="2 files"):
        output_for("mp4", two, Choices())


def test_given_options_are_named_as_typed() -> None:
    given = Choices(frame_rate="30", gop_seconds=2, copy=True, subtitles=False).given
    assert given == ["--copy", "--no-subtitles", "--fps", "--gop"]
