"""What becomes of a stream: live playlists, recordings, other servers, snapshots. Frozen values."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from pipelines.asked.filters import BurnInFilter, CropFilter, FadeFilter, OverlayFilter
from pipelines.asked.rungs import AudioCodec, AudioSpec, Model, Rung, Speed, VideoCodec
from pipelines.spec import OutputName

Codecs = tuple[tuple[VideoCodec, ...], tuple[AudioCodec, ...]]

CARRIED: dict[str, Codecs] = {
    "fmp4": (("h264", "hevc", "av1", "vp9"), ("aac", "opus", "flac", "mp3")),
    "ts": (("h264", "hevc"), ("aac", "mp3")),
    "mp4": (("h264", "hevc", "av1", "vp9"), ("aac", "opus", "flac", "mp3")),
    "mkv": (("h264", "hevc", "av1", "vp9"), ("aac", "opus", "flac", "mp3")),
    "flv": (("h264",), ("aac", "mp3")),
    "rtp": (("h264",), ("aac",)),
}
"""What live containers carry and players accept there; the first of each is the default."""

PUSH_CONTAINERS = {"rtmp": "flv", "rtmps": "flv", "rtsp": "rtp", "rtsps": "rtp", "udp": "ts", "srt": "ts"}
"""Schemes that are pushed to, and what is sent there."""


class LiveRung(Rung):
    """A rung that is encoded as it comes: fast enough unless more is asked for."""

    speed: Speed = Field("veryfast", description="encoding effort, in x264's words for every codec")


LiveVideo = LiveRung | Literal["copy"] | None
LiveAudio = AudioSpec | Literal["copy"] | None


def scheme_of(url: str) -> str:
    return url.partition(":")[0].lower()


class Reconnect(Model):
    """Pauses double from `first_seconds` to `longest_seconds`, and start anew once pictures have come again."""

    max_attempts: int | None = Field(None, ge=0, le=1_000_000, description="in a row; null: for ever")
    first_seconds: float = Field(1.0, ge=0.1, le=3600)
    longest_seconds: float = Field(30.0, ge=0.1, le=3600)
    on_end: Literal["reconnect", "complete"] = Field(
        "reconnect", description="what an orderly end of the source means: connect again, or the stream is over"
    )


def _check_codecs(container: str, video: LiveVideo, audio: LiveAudio) -> None:
    videos, audios = CARRIED[container]
    if isinstance(video, Rung):
        if video.codec is not None and video.codec not in videos:
            raise ValueError(f"{container} carries {', '.join(videos)} here, not {video.codec}")
        if any(isinstance(each, BurnInFilter | OverlayFilter | FadeFilter) for each in video.filters):
            raise ValueError("burn_in, overlay and fade are for files: a stream has no end, and no files beside it")
        if any(isinstance(each, CropFilter) and each.auto for each in video.filters):
            raise ValueError("black bars are measured on whole files: give a crop in a stream its width and height")
        if video.deinterlace == "ivtc":
            raise ValueError("ivtc is for files")
        if video.deinterlace == "bob" and video.frame_rate is None:
            raise ValueError("bob needs a frame_rate in a stream")
    if isinstance(audio, AudioSpec) and audio.loudness is not None:
        raise ValueError("loudness is measured over the whole, and a stream has no end yet")
    if isinstance(audio, AudioSpec) and audio.codec is not None and audio.codec not in audios:
        raise ValueError(f"{container} carries {', '.join(audios)} here, not {audio.codec}")


_TRACK_NAME = re.compile(r"[va]([0-9]+|-copy)")


def _check_name(name: str) -> str:
    taken = _TRACK_NAME.fullmatch(name) or name in ("input", "input.udp", "snapshot.jpg")
    if taken or name.endswith((".m3u8", ".mpd")):
        raise ValueError(f"{name} is the service's own name for something")
    return name


class _LiveOutput(Model):
    name: Annotated[OutputName, AfterValidator(_check_name)] | None = Field(
        None, description="unique in the job; a folder's or a file's name"
    )


class _Encoded(_LiveOutput):
    audio: LiveAudio = AudioSpec()

    @property
    @abstractmethod
    def container(self) -> str: ...

    @property
    def rungs(self) -> tuple[LiveRung | Literal["copy"], ...]:
        """The video renditions."""
        video = getattr(self, "video", None)
        if video is None:
            return ()
        return video if isinstance(video, tuple) else (video,)

    @model_validator(mode="after")
    def _carried(self) -> Self:
        for rung in self.rungs or (None,):
            _check_codecs(self.container, rung, self.audio)
        if not self.rungs and self.audio is None:
            raise ValueError("an output needs video or audio")
        return self


class _Packaged(_Encoded):
    video: Annotated[tuple[LiveRung, ...], Field(min_length=1, max_length=8)] | LiveVideo = LiveRung()
    segment_seconds: float = Field(4.0, ge=1, le=20)
    window_seconds: float = Field(24.0, ge=3, le=3600, description="what the main playlist reaches back")
    dvr_seconds: float | None = Field(
        None, ge=3, le=7 * 86_400, description="what dvr.m3u8 reaches back, and the manifest of DASH"
    )

    @property
    def kept_seconds(self) -> float:
        return max(self.window_seconds, self.dvr_seconds or 0.0)

    @model_validator(mode="after")
    def _window(self) -> Self:
        if self.window_seconds < 3 * self.segment_seconds:
            raise ValueError("a window holds at least three segments")
        return self


class _Listed(_Packaged):
    """With playlists of HLS."""

    low_latency: bool = Field(
        False, description="segments are published in parts, and requests wait for them (low-latency HLS); needs fMP4"
    )
    part_seconds: float = Field(
        0.5, ge=0.2, le=2, description="of a part: it has the fewest pictures that last as long"
    )

    @model_validator(mode="after")
    def _parted(self) -> Self:
        if self.low_latency and self.container != "fmp4":
            raise ValueError("low latency needs segments of the type fmp4")
        if self.low_latency and self.part_seconds > self.segment_seconds / 2:
            raise ValueError("a segment has two parts at least")
        return self


class HlsOutput(_Listed):
    """Live HLS: `index.m3u8`, and `dvr.m3u8` where there is a longer window."""

    type: Literal["hls"] = "hls"
    segment_type: Literal["fmp4", "ts"] = "fmp4"

    @property
    def container(self) -> str:
        return self.segment_type


class DashOutput(_Packaged):
    """Live MPEG-DASH: `manifest.mpd`."""

    type: Literal["dash"] = "dash"

    @property
    def container(self) -> str:
        return "fmp4"


class CmafOutput(_Listed):
    """HLS and DASH over one set of segments."""

    type: Literal["cmaf"] = "cmaf"

    @property
    def container(self) -> str:
        return "fmp4"


class RecordOutput(_Encoded):
    """Files of `segment_seconds`, each playable alone. What is too old, or too much, is deleted, oldest first."""

    type: Literal["record"] = "record"
    format: Literal["mp4", "mkv", "ts"] = "mp4"
    video: LiveVideo = "copy"
    audio: LiveAudio = "copy"
    segment_seconds: float = Field(300.0, ge=2, le=86_400)
    keep_seconds: float | None = Field(None, ge=2, description="files that ended longer ago are deleted")
    keep_bytes: int | None = Field(None, ge=1 << 20, description="of all files together")
    min_free_bytes: int | None = Field(None, ge=0, description="files are deleted to keep this free on the disk")

    @property
    def container(self) -> str:
        return self.format


class PushOutput(_Encoded):
    """Sent on to another server."""

    type: Literal["push"] = "push"
    url: str = Field(max_length=8192, description="rtmp, rtmps, rtsp, rtsps, udp or srt")
    video: LiveVideo = LiveRung()
    gop_seconds: float = Field(2.0, ge=0.5, le=10)
    on_failure: Literal["reconnect", "drop"] = Field(
        "reconnect", description="drop: the output is given up and the others go on"
    )
    reconnect: Reconnect = Reconnect()

    @property
    def container(self) -> str:
        return PUSH_CONTAINERS.get(scheme_of(self.url), "flv")

    @field_validator("url")
    @classmethod
    def _known(cls, url: str) -> str:
        if scheme_of(url) not in PUSH_CONTAINERS:
            raise ValueError(f"a push URL starts with one of {', '.join(PUSH_CONTAINERS)}")
        return url


class SnapshotOutput(_LiveOutput):
    """A JPEG of the newest picture, replaced every so often."""

    type: Literal["snapshot"] = "snapshot"
    every_seconds: float = Field(10.0, ge=1, le=86_400)
    height: int | None = Field(None, ge=16, le=4320, description="pixels; the source's when not given")
    quality: int = Field(80, ge=1, le=100)

    @property
    def rungs(self) -> tuple[LiveRung, ...]:
        return ()


LiveOutput = HlsOutput | DashOutput | CmafOutput | RecordOutput | PushOutput | SnapshotOutput
PackagedOutput = HlsOutput | DashOutput | CmafOutput


def _with_names(outputs: Any) -> Any:
    """Gives nameless outputs their type's name, numbered from the second on."""
    if not isinstance(outputs, list | tuple):
        return outputs
    named: list[Any] = []
    seen: dict[str, int] = {}
    for output in outputs:
        kind = output.get("type") if isinstance(output, dict) else getattr(output, "type", None)
        if isinstance(kind, str):
            seen[kind] = seen.get(kind, 0) + 1
            name = kind if seen[kind] == 1 else f"{kind}-{seen[kind]}"
            if isinstance(output, dict) and output.get("name") is None:
                output = {**output, "name": name}
            elif isinstance(output, _LiveOutput) and output.name is None:
                output = output.model_copy(update={"name": name})
        named.append(output)
    return tuple(named)


def _unique(outputs: tuple[LiveOutput, ...]) -> tuple[LiveOutput, ...]:
    names = [str(output.name).casefold() for output in outputs]
    if len(set(names)) != len(names):
        raise ValueError("outputs have different names")
    return outputs


LiveOutputs = Annotated[
    tuple[Annotated[LiveOutput, Field(discriminator="type")], ...],
    BeforeValidator(_with_names),
    Field(min_length=1, max_length=16),
    AfterValidator(_unique),
]
