"""What `run IN OUT` asks for: OUT's extension, a preset and options become one output. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from pipelines.errors import UnsupportedSpec
from pipelines.presets import Preset
from pipelines.rate_control import Crf, RateControl, Vbr
from pipelines.spec import (
    AUDIO_CODECS,
    VIDEO_CODECS,
    AudioOutput,
    AudioSpec,
    CopyOutput,
    FileOutput,
    PictureOutput,
    Rung,
    SubtitleSpec,
)
from transcoder.cli.choices import Choices
from transcoder.cli.failures import CommandError
from transcoder.cli.values import OTHER_SUFFIXES, SUFFIXES

CONTAINERS: dict[str, str] = {suffix: suffix.removeprefix(".") for suffix in SUFFIXES} | {".m4v": "mp4"}
"""The container that a file name's extension asks for."""

FOLLOWED_BY_COPY = ("--copy", "--start", "--end")
COPY_FORMATS = (*VIDEO_CODECS, "m4a")

_OUTPUT: TypeAdapter[FileOutput] = TypeAdapter(Annotated[FileOutput, Field(discriminator="type")])


@dataclass(frozen=True)
class Parts:
    """An output's tracks before its container is settled."""

    video: Rung | Literal["copy"] | None
    audio: AudioSpec | Literal["copy"] | None
    subtitles: SubtitleSpec | None


def container_of(out: Path) -> str:
    """The container for a file name; CommandError for an extension that names none."""
    container = CONTAINERS.get(out.suffix.lower())
    if container is None:
        what = f"the extension {out.suffix!r}" if out.suffix else "a name without extension"
        raise CommandError(
            "unsupported", f"{out}: {what} names no output format; there are {' '.join((*SUFFIXES, *OTHER_SUFFIXES))}"
        )
    return container


def output_for(container: str, preset: Preset | None, choices: Choices) -> tuple[FileOutput, tuple[str, ...]]:
    """The one output of a run, and notes on what of the preset was changed to fit.

    UnsupportedSpec or CommandError where preset, options and container exclude each other.
    """
    wanted = None if preset is None else _single(preset)
    if choices.copy or isinstance(wanted, CopyOutput):
        refused = [option for option in choices.given if option not in FOLLOWED_BY_COPY]
        if refused:
            raise CommandError("unsupported", f"a copy is not encoded: it can't follow {', '.join(refused)}")
        return _copied(container), ()
    notes: list[str] = []
    parts = _parts(wanted)
    parts = Parts(
        video=_video(parts.video, container, choices, preset, notes),
        audio=_audio(parts.audio, container, choices, preset, notes),
        subtitles=parts.subtitles if choices.subtitles else None,
    )
    if container in VIDEO_CODECS:
        tracks = {"video": parts.video, "audio": parts.audio, "subtitles": parts.subtitles}
        return _OUTPUT.validate_python({"type": container, "name": "output", **tracks}), tuple(notes)
    if parts.audio is None:
        raise CommandError("unsupported", f"{container} holds sound only, and --audio-codec none leaves none")
    return AudioOutput(name="output", format=container, audio=parts.audio), tuple(notes)


def _single(preset: Preset) -> FileOutput:
    if len(preset.outputs) != 1:
        raise CommandError(
            "unsupported",
            f"preset {preset.name} makes {len(preset.outputs)} files and `run` writes one: use `jobs submit`",
        )
    (output,) = preset.outputs
    if not isinstance(output, FileOutput):
        what = "pictures" if isinstance(output, PictureOutput) else f"a {output.type} ladder"
        raise CommandError("unsupported", f"preset {preset.name} makes {what} and `run` one file: use `jobs submit`")
    return output


def _copied(container: str) -> FileOutput:
    if container in COPY_FORMATS:
        return CopyOutput(name="output", format=container)
    return AudioOutput(name="output", format=container, audio="copy")


def _parts(output: FileOutput | None) -> Parts:
    if output is None:
        return Parts(Rung(), AudioSpec(), SubtitleSpec())
    return Parts(getattr(output, "video", None), getattr(output, "audio", None), getattr(output, "subtitles", None))


def _video(
    video: Rung | Literal["copy"] | None, container: str, choices: Choices, preset: Preset | None, notes: list[str]
) -> Rung | Literal["copy"] | None:
    if container not in VIDEO_CODECS or choices.video_codec == "none":
        return None
    if choices.video_codec == "copy":
        return "copy"
    if not isinstance(video, Rung):
        if choices.video_codec is None and not choices.rung and choices.crf is None:
            return video
        video = Rung()
    fields: dict[str, object] = {name: getattr(video, name) for name in video.model_fields_set} | choices.rung
    if choices.video_codec is not None:
        if video.codec not in (None, choices.video_codec):
            # quality scales and caps are a codec's own
            fields["rate_control"] = None
            notes.append(f"{choices.video_codec} in place of {video.codec}: the preset's rate control does not apply")
        fields["codec"] = choices.video_codec
    elif video.codec is not None and video.codec not in VIDEO_CODECS[container] and preset is not None:
        able = " ".join("." + name for name, codecs in VIDEO_CODECS.items() if video.codec in codecs)
        raise UnsupportedSpec(
            f"preset {preset.name} makes {video.codec}, which {container} does not carry; {able} do "
            "(or name another codec with --video-codec)",
            stage="plan",
            preset=preset.name,
        )
    control = _rate_control(choices, fields.get("rate_control"))
    return Rung.model_validate(fields | {"rate_control": control})


def _rate_control(choices: Choices, before: object) -> RateControl | None:
    if choices.crf is not None and choices.bitrate is not None:
        raise CommandError("invalid_request", "--crf and --bitrate exclude each other; --crf with --maxrate caps it")
    if choices.bitrate is not None:
        return Vbr(bitrate=choices.bitrate, maxrate=choices.maxrate)
    caps = before if isinstance(before, Crf) else None
    crf = choices.crf if choices.crf is not None else caps.crf if caps else None
    if choices.maxrate is not None and crf is None:
        raise CommandError("invalid_request", "--maxrate needs --crf or --bitrate")
    if choices.maxrate is not None and crf is not None:
        return Crf(crf=crf, maxrate=choices.maxrate)
    if choices.crf is not None:
        return Crf(crf=choices.crf, maxrate=caps and caps.maxrate, bufsize=caps and caps.bufsize)
    return before  # type: ignore[return-value]


def _audio(
    audio: AudioSpec | Literal["copy"] | None,
    container: str,
    choices: Choices,
    preset: Preset | None,
    notes: list[str],
) -> AudioSpec | Literal["copy"] | None:
    if choices.audio_codec == "none":
        return None
    if choices.audio_codec == "copy":
        return "copy"
    sound_only = container not in VIDEO_CODECS
    bitrate = choices.audio_bitrate or (choices.bitrate if sound_only else None)
    if not isinstance(audio, AudioSpec):
        if choices.audio_codec is None and bitrate is None and not (sound_only and audio is None):
            return audio
        audio = AudioSpec()
    fields: dict[str, object] = {name: getattr(audio, name) for name in audio.model_fields_set}
    codec = choices.audio_codec or audio.codec
    if choices.audio_codec is None and codec is not None and codec not in AUDIO_CODECS[container]:
        codec = AUDIO_CODECS[container][0]
        notes.append(f"{container} does not carry {audio.codec}: {codec} at its usual bitrate instead")
    if codec != audio.codec:
        fields["bitrate"] = None
    fields["codec"] = codec
    if bitrate is not None:
        fields["bitrate"] = bitrate
    return AudioSpec.model_validate(fields)
