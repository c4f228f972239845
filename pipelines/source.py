"""Facts about an input: what `probe` returns and `plan` decides on."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, PlainSerializer

Ratio = Annotated[Fraction, PlainSerializer(lambda value: str(value), return_type=str)]


class Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Track(Facts):
    """What every track has. `index` is the stream's index in the file, `position` its place among its type."""

    index: int
    position: int
    codec: str
    decodable: bool
    empty: bool = False
    """The header names the track, and no packet of it is in the file."""
    start_seconds: float | None = None
    duration_seconds: float | None = None
    bit_rate: int | None = None
    language: str | None = None
    title: str | None = None
    default: bool = False
    forced: bool = False
    roles: tuple[str, ...] = ()
    """What else it is for: comment, dub, hearing_impaired … (`metadata.ROLES`)."""


class MasteringDisplay(Facts):
    """SMPTE ST 2086 in x265's integers: chromaticities (x, y) × 50,000, luminance in cd/m² × 10,000."""

    green: tuple[int, int]
    blue: tuple[int, int]
    red: tuple[int, int]
    white: tuple[int, int]
    max_luminance: int
    min_luminance: int


class Colour(Facts):
    """FFmpeg's names for the colour tags; None where the source does not say."""

    primaries: str | None = None
    transfer: str | None = None
    matrix: str | None = None
    range: Literal["tv", "pc"] | None = None
    mastering_display: MasteringDisplay | None = None
    max_cll: tuple[int, int] | None = None
    """Content light level: MaxCLL, MaxFALL in cd/m²."""

    @property
    def is_hdr(self) -> bool:
        return self.transfer in ("smpte2084", "arib-std-b67")


class Area(Facts):
    """A part of a coded picture."""

    x: int
    y: int
    width: int
    height: int


class DolbyVision(Facts):
    """What a container declares. `compatible`: what the base layer is by itself (1 HDR10, 2 SDR, 4 HLG, 0 nothing)."""

    profile: int
    compatible: int


class VideoInfo(Track):
    """A moving picture track (attached pictures are not: see `SourceInfo.pictures`)."""

    profile: str | None = None
    width: int
    height: int
    pixel_format: str | None = None
    bit_depth: int = 8
    sample_aspect_ratio: Ratio = Fraction(1)
    rotation: int = 0
    """Degrees clockwise that a player turns the coded picture by: 0, 90, 180, 270."""
    mirrored: bool = False
    """The picture is flipped horizontally before it is turned."""
    frame_rate: Ratio | None = None
    """The best guess at the average rate; None when unknown. Never a promise: sources may be variable."""
    frame_count: int | None = None
    keyframe_seconds: float | None = None
    """The longest time without a keyframe, where the file's index says so."""
    time_base: Ratio
    field_order: Literal["progressive", "tt", "bb", "tb", "bt"] | None = None
    """What the file says."""
    interlacing: Literal["progressive", "top", "bottom"] | None = None
    """What the first frames show: the field that is earlier, None where nothing moves or nothing was measured."""
    uneven: bool = False
    """The first pictures last two and three fields in turn, as film does that is repeated by flags."""
    pulldown: Literal["hard", "soft"] | None = None
    """Film at 29.97 pictures a second, in its pictures or in its times alone; None: it is not, or nobody asked."""
    colour: Colour = Colour()
    dolby_vision: DolbyVision | None = None
    active: Area | None = None
    """What lies between black bars; None: there are none, or nobody asked for them to be measured."""

    @property
    def display_size(self) -> tuple[Fraction, Fraction]:
        """Displayed width and height in square pixels, after aspect ratio and rotation."""
        width, height = self.width * self.sample_aspect_ratio, Fraction(self.height)
        return (height, width) if self.rotation in (90, 270) else (width, height)


class AudioInfo(Track):
    sample_rate: int
    channels: int
    layout: str
    """FFmpeg's name, such as `stereo` or `5.1(side)`; `N channels` when the source does not say."""
    sample_format: str | None = None
    bits_per_sample: int | None = None


class TextOrigin(Facts):
    """The file beside the input that a subtitle track is from."""

    number: int
    """Its place in the list, from 1."""
    key: str
    """What it is known by."""
    label: str
    """What messages call it."""
    charset: str
    guessed: bool = False
    """Nobody said the encoding, neither the file nor its owner."""
    asked_charset: str | None = None
    offset_seconds: float = 0.0

    @property
    def name(self) -> str:
        return f"subtitles file {self.number} ({self.label})"


class SubtitleInfo(Track):
    kind: Literal["text", "picture", "unknown"] = "unknown"
    beside: TextOrigin | None = None
    """None: a track of the input itself."""


class OtherTrack(Facts):
    """A track that is never transcoded: data, timecode, attachment."""

    index: int
    kind: str
    codec: str | None = None


class Chapter(Facts):
    start_seconds: float
    end_seconds: float
    title: str | None = None


class SourceInfo(Facts):
    """An input, as its header and its first frames tell. Times are seconds on the input's own clock."""

    format: str
    """FFmpeg's demuxer name."""
    size_bytes: int | None = None
    promised_bytes: int | None = None
    """How long the file is by its own structure; None where that says nothing."""
    duration_seconds: float | None = None
    start_seconds: float = 0.0
    bit_rate: int | None = None
    video: tuple[VideoInfo, ...] = ()
    audio: tuple[AudioInfo, ...] = ()
    subtitles: tuple[SubtitleInfo, ...] = ()
    pictures: tuple[VideoInfo, ...] = ()
    """Attached pictures (cover art)."""
    other: tuple[OtherTrack, ...] = ()
    chapters: tuple[Chapter, ...] = ()
    metadata: dict[str, str] = {}

    @property
    def missing_bytes(self) -> float | None:
        """Share of the promised bytes that the file lacks; None where nothing is promised."""
        if self.promised_bytes is None or self.size_bytes is None:
            return None
        return max(0.0, 1 - self.size_bytes / self.promised_bytes)

    def without_empty_tracks(self) -> SourceInfo:
        return self.model_copy(
            update={
                "video": tuple(track for track in self.video if not track.empty),
                "audio": tuple(track for track in self.audio if not track.empty),
            }
        )
