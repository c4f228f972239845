"""What a user asks for: jobs, outputs, rungs. Frozen and closed (unknown fields are errors); stored as JSON.

Times are seconds, bitrates bit/s, sizes displayed pixels (after rotation and sample aspect ratio).
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from pipelines.rungs import (
    AUDIO_CODECS,
    VIDEO_CODECS,
    AudioContainer,
    AudioSpec,
    Model,
    Rung,
    SubtitleSpec,
    VideoContainer,
)
from pipelines.webhook import Webhook

__all__ = [
    "AUDIO_CODECS", "VIDEO_CODECS", "AudioOutput", "AudioSpec", "Clip", "CopyOutput", "DevicePolicy", "FileJob",
    "FileOutput", "Input", "JobSpec", "MkvOutput", "Model", "MovOutput", "Mp4Output", "Output", "Rung",
    "SubtitleSpec", "TsOutput", "UniqueOutputs", "Webhook", "WebmOutput",
]  # fmt: skip

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._ -]{0,62}[A-Za-z0-9_-])?")


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or ".." in name:
        raise ValueError("a name has letters, digits, '.', '_', '-' or spaces, starts with a letter or digit")
    return name


OutputName = Annotated[str, AfterValidator(_check_name)]
Seconds = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class Clip(Model):
    """A part of the input, frame-accurate; times count from the input's first presented moment."""

    start: Seconds = 0.0
    end: Seconds | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.end is not None and self.end <= self.start:
            raise ValueError("a clip ends after it starts")
        return self


class Input(Model):
    """Exactly one of `url` (http or https), `upload` (an upload's id) and `path` (in one of the media roots)."""

    url: str | None = Field(None, max_length=8192)
    upload: str | None = Field(None, max_length=200)
    path: str | None = Field(None, max_length=4096)
    clip: Clip | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(value is not None for value in (self.url, self.upload, self.path)) != 1:
            raise ValueError("give exactly one of url, upload, path")
        return self


class _Output(Model):
    name: OutputName | None = Field(None, description="file name without extension; unique in the job")


class _VideoFile(_Output):
    video: Rung | Literal["copy"] | None = Rung()
    audio: AudioSpec | Literal["copy"] | None = AudioSpec()
    subtitles: SubtitleSpec | None = SubtitleSpec()

    @property
    def container(self) -> str:
        return str(self.type)  # type: ignore[attr-defined]

    @model_validator(mode="after")
    def _carried(self) -> Self:
        check_codecs(self.container, self.video, self.audio)
        if self.video is None and self.audio is None:
            raise ValueError("an output needs video or audio")
        return self


class Mp4Output(_VideoFile):
    """MP4 with its index at the front (faststart)."""

    type: Literal["mp4"] = "mp4"


class MovOutput(_VideoFile):
    """QuickTime."""

    type: Literal["mov"] = "mov"


class MkvOutput(_VideoFile):
    """Matroska."""

    type: Literal["mkv"] = "mkv"


class WebmOutput(_VideoFile):
    """WebM: VP9 or AV1 with Opus."""

    type: Literal["webm"] = "webm"


class TsOutput(_VideoFile):
    """MPEG transport stream."""

    type: Literal["ts"] = "ts"


class AudioOutput(_Output):
    """Sound only. `format` follows the codec when not given (aac → m4a)."""

    type: Literal["audio"] = "audio"
    format: AudioContainer | None = None
    audio: AudioSpec | Literal["copy"] = AudioSpec()

    @property
    def container(self) -> str:
        if self.format is not None:
            return self.format
        codec = None if self.audio == "copy" else self.audio.codec
        return "m4a" if codec in (None, "aac") else str(codec)

    @model_validator(mode="after")
    def _carried(self) -> Self:
        check_codecs(self.container, None, self.audio)
        return self


class CopyOutput(_Output):
    """Remux: every track that the container can carry, without re-encoding."""

    type: Literal["copy"] = "copy"
    format: VideoContainer | Literal["m4a"] = "mp4"

    @property
    def container(self) -> str:
        return self.format


FileOutput = Mp4Output | MovOutput | MkvOutput | WebmOutput | TsOutput | AudioOutput | CopyOutput
Output = Annotated[FileOutput, Field(discriminator="type")]


def check_codecs(
    container: str,
    video: Rung | Literal["copy"] | None,
    audio: AudioSpec | Literal["copy"] | None,
) -> None:
    """ValueError when `container` does not carry the codec asked for."""
    if isinstance(video, Rung) and video.codec is not None and video.codec not in VIDEO_CODECS[container]:
        raise ValueError(f"{container} does not carry {video.codec}; it carries {', '.join(VIDEO_CODECS[container])}")
    if isinstance(audio, AudioSpec) and audio.codec is not None and audio.codec not in AUDIO_CODECS[container]:
        raise ValueError(f"{container} does not carry {audio.codec}; it carries {', '.join(AUDIO_CODECS[container])}")


class DevicePolicy(Model):
    """Where the job may run; `id` pins it to one device."""

    policy: Literal["auto", "hardware", "software"] = "auto"
    id: str | None = Field(None, max_length=100)
    fallback: bool = Field(True, description="whether the next step down may be taken when one fails")


def _with_names(outputs: Any) -> Any:
    """Gives nameless outputs their names: output, or output-1, output-2 … where there are several."""
    if not isinstance(outputs, list | tuple):
        return outputs
    named = []
    for number, output in enumerate(outputs, 1):
        name = "output" if len(outputs) == 1 else f"output-{number}"
        if isinstance(output, dict) and output.get("name") is None:
            output = {**output, "name": name}
        elif isinstance(output, _Output) and output.name is None:
            output = output.model_copy(update={"name": name})
        named.append(output)
    return tuple(named)


Outputs = Annotated[tuple[Output, ...], BeforeValidator(_with_names), Field(min_length=1, max_length=16)]


def _unique_names(outputs: tuple[FileOutput, ...]) -> tuple[FileOutput, ...]:
    names = [str(output.name).casefold() for output in outputs]
    if len(set(names)) != len(names):
        raise ValueError("outputs have different names")
    return outputs


UniqueOutputs = Annotated[Outputs, AfterValidator(_unique_names)]


class FileJob(Model):
    """A file in, files out."""

    kind: Literal["file"] = "file"
    input: Input
    outputs: UniqueOutputs | None = None
    preset: str | None = Field(None, max_length=100, description="a preset's name, in place of outputs")
    queue: str = Field("default", pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    priority: int = Field(0, ge=-1000, le=1000, description="higher starts earlier")
    device: DevicePolicy = DevicePolicy()
    max_missing: float = Field(
        0.01,
        ge=0,
        le=1,
        description="share of the promised duration that may be missing before the job fails",
    )
    timeout_seconds: float | None = Field(None, gt=0, le=7 * 86_400, description="deadline of one attempt")
    webhook: Webhook | None = None
    metadata: dict[str, str | int | float | bool | None] = Field(default_factory=dict, max_length=64)

    @model_validator(mode="after")
    def _outputs_or_preset(self) -> Self:
        if (self.outputs is None) == (self.preset is None):
            raise ValueError("give either outputs or preset")
        return self

    @field_validator("metadata")
    @classmethod
    def _small(cls, value: dict[str, Any]) -> dict[str, Any]:
        if sum(len(str(k)) + len(str(v)) for k, v in value.items()) > 16_384:
            raise ValueError("metadata is at most 16 KiB")
        return value


JobSpec = FileJob
