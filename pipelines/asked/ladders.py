"""What a user asks for as ladders: several renditions in segments, under manifests for adaptive players."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipelines.asked.filter_output import OutputFilters, sounding_fade
from pipelines.asked.outputs import OutputBase
from pipelines.asked.rungs import AudioCodec, AudioSpec, Model, Rung, SubtitleSpec, VideoCodec
from pipelines.packaging.layout import EncryptionMethod, Manifest, SegmentFormat

MAX_RUNGS = 12

LadderKind = Literal["hls", "hls-ts", "dash", "cmaf"]
LADDER_VIDEO: dict[str, tuple[VideoCodec, ...]] = {
    "hls": ("h264", "hevc", "av1"),
    "hls-ts": ("h264",),
    "dash": ("h264", "hevc", "av1", "vp9"),
    "cmaf": ("h264", "hevc", "av1"),
}
"""Codecs that players take there; the first is the default."""
LADDER_AUDIO: dict[str, tuple[AudioCodec, ...]] = {
    "hls": ("aac", "opus", "flac"),
    "hls-ts": ("aac", "mp3"),
    "dash": ("aac", "opus", "flac"),
    "cmaf": ("aac", "opus", "flac"),
}
SAMPLE_SEALED: dict[SegmentFormat, tuple[str, ...]] = {
    "fmp4": ("h264", "hevc", "aac", "opus", "flac"),
    "ts": ("h264", "aac"),
}
"""Codecs that there is a rule for encrypting the samples of."""
SEGMENT_CONTAINERS: dict[SegmentFormat, str] = {"fmp4": "fmp4", "ts": "ts_segments"}


Hex16 = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{32}$")]


KEY_MASK = "*" * 32
"""What is shown in place of a key."""


class Encryption(Model):
    """The key is given, stored with the job, and served to players by whoever gave it."""

    method: EncryptionMethod = Field(
        "aes-128", description="aes-128: whole segments; sample-aes: the samples in them, which stay seekable"
    )
    key: str = Field(
        pattern=r"^([0-9a-fA-F]{32}|\*{32})$",
        repr=False,
        description="16 bytes in hexadecimal digits, shown as asterisks",
    )
    uri: str = Field(max_length=2048, pattern=r"^\S+$", description="where players get the key")
    iv: Hex16 | None = Field(
        None,
        description="16 bytes in hexadecimal digits; sample-aes needs it, else each segment's number when not given",
    )
    key_id: Hex16 | None = Field(
        None, description="of sample-aes in fMP4: what its headers call the key; by the uri when not given"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.method == "sample-aes" and self.iv is None:
            raise ValueError("sample-aes needs an iv: all samples begin with it")
        if self.method == "aes-128" and self.key_id is not None:
            raise ValueError("key_id is for sample-aes: whole segments have no headers to say it in")
        return self


class Ladder(OutputBase):
    """What all ladders have."""

    video: Annotated[tuple[Rung, ...], Field(min_length=1, max_length=MAX_RUNGS)] | Literal["auto"] | None = Field(
        "auto", description="rungs; auto: by the source's size and rate, never above them; null: sound alone"
    )
    per_title: bool = Field(
        False, description="with auto: caps by what samples of the film take, and no rungs that are of no use to it"
    )
    filters: OutputFilters = Field(
        (), description="of every rung; a rung's own come in addition, in place of those alike. speed: of all tracks"
    )
    audio: AudioSpec | Annotated[tuple[AudioSpec, ...], Field(min_length=1, max_length=4)] | None = Field(
        AudioSpec(), description="one, or several (such as AAC and Opus): a group of all chosen tracks for each"
    )
    subtitles: SubtitleSpec | None = SubtitleSpec()
    segment_seconds: float = Field(4.0, ge=1, le=30, description="segments end at the first keyframe of each cell")
    single_file: bool = Field(False, description="one file for each rendition, its segments named by byte ranges")
    copy_if_fits: bool = Field(
        False, description="take the source's video as it is for a rung that it satisfies, where its keyframes allow"
    )

    @property
    @abstractmethod
    def kind(self) -> LadderKind: ...

    @property
    @abstractmethod
    def manifests(self) -> tuple[Manifest, ...]: ...

    @property
    def segment_format(self) -> SegmentFormat:
        return "fmp4"

    @property
    def container(self) -> str:
        """The row of CONTAINERS that holds for its segments."""
        return SEGMENT_CONTAINERS[self.segment_format]

    @property
    def has_iframes(self) -> bool:
        """Whether there are playlists of keyframes."""
        return False

    @property
    def key(self) -> Encryption | None:
        """What its segments are encrypted with."""
        return None

    @property
    def sounds(self) -> tuple[AudioSpec, ...]:
        if self.audio is None:
            return ()
        return (self.audio,) if isinstance(self.audio, AudioSpec) else self.audio

    @model_validator(mode="after")
    def _carried(self) -> Self:
        if self.video is None and self.audio is None:
            raise ValueError("an output needs video or audio")
        if self.per_title and self.video != "auto":
            raise ValueError('per_title is for "video": "auto"')
        for rung in self.video if isinstance(self.video, tuple) else ():
            if sounding_fade(rung.filters) is not None:
                raise ValueError("a fade with its sound is one of the ladder's own filters: its rungs share the sound")
            self._check(rung.codec, LADDER_VIDEO[self.kind])
        for sound in self.sounds:
            self._check(sound.codec, LADDER_AUDIO[self.kind])
        return self

    def _check(self, codec: str | None, carried: tuple[str, ...]) -> None:
        if codec is not None and codec not in carried:
            raise ValueError(f"{self.kind} does not carry {codec}; it carries {', '.join(carried)}")


class HlsLadder(Ladder):
    """HTTP Live Streaming: `NAME/index.m3u8` and its segments, in fragmented MP4 or transport streams."""

    type: Literal["hls"] = "hls"
    segment_type: SegmentFormat = "fmp4"
    iframes: bool = Field(True, description="playlists of keyframes, which players scrub and search with")
    encryption: Encryption | None = None

    @property
    def has_iframes(self) -> bool:
        return self.iframes and (self.encryption is None or self.encryption.method == "sample-aes")

    @model_validator(mode="after")
    def _sealable(self) -> Self:
        if self.encryption is None or self.encryption.method != "sample-aes":
            return self
        if self.encryption.key_id is not None and self.segment_type == "ts":
            raise ValueError("key_id is for fMP4: transport streams have no place for it")
        sealable = SAMPLE_SEALED[self.segment_type]
        rungs = self.video if isinstance(self.video, tuple) else ()
        for codec in (*(rung.codec for rung in rungs), *(sound.codec for sound in self.sounds)):
            if codec is not None and codec not in sealable:
                raise ValueError(
                    f"sample-aes in {self.segment_type} has no rule for {codec}; {', '.join(sealable)} it has"
                )
        return self

    @property
    def key(self) -> Encryption | None:
        return self.encryption

    @property
    def kind(self) -> LadderKind:
        return "hls-ts" if self.segment_type == "ts" else "hls"

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return ("hls",)

    @property
    def segment_format(self) -> SegmentFormat:
        return self.segment_type


class DashLadder(Ladder):
    """MPEG-DASH: `NAME/manifest.mpd` and its segments."""

    type: Literal["dash"] = "dash"

    @property
    def kind(self) -> LadderKind:
        return "dash"

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return ("dash",)


class CmafLadder(Ladder):
    """One set of segments under an HLS playlist and a DASH manifest."""

    type: Literal["cmaf"] = "cmaf"
    iframes: bool = Field(True, description="HLS playlists of keyframes, which players scrub and search with")

    @property
    def has_iframes(self) -> bool:
        return self.iframes

    @property
    def kind(self) -> LadderKind:
        return "cmaf"

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return ("hls", "dash")


LadderOutput = HlsLadder | DashLadder | CmafLadder
