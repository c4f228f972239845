"""What a user asks for as files: a container each, with its tracks."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from pipelines.asked.filter_output import OutputFilters, SoundFilters, of_pictures, pace_of
from pipelines.asked.filters import VideoFilter
from pipelines.asked.rungs import (
    AUDIO_CODECS,
    VIDEO_CODECS,
    AudioContainer,
    AudioSpec,
    Model,
    Rung,
    SubtitleSpec,
    VideoContainer,
)

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._ -]{0,62}[A-Za-z0-9_-])?")


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or ".." in name:
        raise ValueError("a name has letters, digits, '.', '_', '-' or spaces, starts with a letter or digit")
    return name


OutputName = Annotated[str, AfterValidator(_check_name)]


class OutputBase(Model):
    name: OutputName | None = Field(None, description="file name without extension; unique in the job")

    @property
    def pace(self) -> Fraction:
        """Seconds of the source in a second of the output."""
        return pace_of(self._filters())

    @property
    def common(self) -> tuple[VideoFilter, ...]:
        """Filters of all its pictures."""
        return of_pictures(self._filters())

    def _filters(self) -> Any:
        return getattr(self, "filters", ())


class _VideoFile(OutputBase):
    video: Rung | Literal["copy"] | None = Rung()
    audio: AudioSpec | Literal["copy"] | None = AudioSpec()
    subtitles: SubtitleSpec | None = SubtitleSpec()
    filters: OutputFilters = Field((), description="speed, for all its tracks; others are as those of `video`")

    @property
    def container(self) -> str:
        return str(self.type)  # type: ignore[attr-defined]

    @model_validator(mode="after")
    def _carried(self) -> Self:
        check_codecs(self.container, self.video, self.audio)
        if self.video is None and self.audio is None:
            raise ValueError("an output needs video or audio")
        if self.pace != 1 and "copy" in (self.video, self.audio):
            raise ValueError("speed is for tracks that are encoded: a copied one keeps its times")
        if self.common and not isinstance(self.video, Rung):
            raise ValueError("filters are for pictures that are encoded")
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


class AudioOutput(OutputBase):
    """Sound only. `format` follows the codec when not given (aac → m4a)."""

    type: Literal["audio"] = "audio"
    format: AudioContainer | None = None
    audio: AudioSpec | Literal["copy"] = AudioSpec()
    filters: SoundFilters = Field((), description="speed, its pitch kept")

    @property
    def container(self) -> str:
        if self.format is not None:
            return self.format
        codec = None if self.audio == "copy" else self.audio.codec
        return "m4a" if codec in (None, "aac") else str(codec)

    @model_validator(mode="after")
    def _carried(self) -> Self:
        check_codecs(self.container, None, self.audio)
        if self.pace != 1 and self.audio == "copy":
            raise ValueError("speed is for sound that is encoded: a copied track keeps its times")
        return self


class SubtitleOutput(OutputBase):
    """One text subtitle track as a file of its own: the one at `track`, or the first in `language`."""

    type: Literal["subtitles"] = "subtitles"
    format: Literal["srt", "vtt", "ass"] = "srt"
    track: Annotated[int, Field(ge=0, lt=64)] | None = Field(
        None, description="position among the source's subtitle tracks; the first one when not given"
    )
    language: Annotated[str, Field(pattern=r"^[a-zA-Z-]{2,12}$")] | None = Field(
        None, description="ISO 639, as the file writes it"
    )
    filters: SoundFilters = Field((), description="speed, as that of the film that they are for")

    @property
    def container(self) -> str:
        return self.format


class CopyOutput(OutputBase):
    """Remux: every track that the container can carry, without re-encoding."""

    type: Literal["copy"] = "copy"
    format: VideoContainer | Literal["m4a"] = "mp4"

    @property
    def container(self) -> str:
        return self.format


FileOutput = Mp4Output | MovOutput | MkvOutput | WebmOutput | TsOutput | AudioOutput | SubtitleOutput | CopyOutput


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
