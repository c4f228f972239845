"""What a user asks of one track: codecs, sizes, rates, qualities. Frozen values.

Times are seconds, bitrates bit/s, sizes displayed pixels (after rotation and sample aspect ratio).
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from pipelines.asked.filters import Filters
from pipelines.rate_control import Bitrate, RateControl

VideoCodec = Literal["h264", "hevc", "av1", "vp9"]
AudioCodec = Literal["aac", "opus", "mp3", "flac"]
VideoContainer = Literal["mp4", "mov", "mkv", "webm", "ts"]
AudioContainer = Literal["m4a", "mp3", "opus", "flac"]
Speed = Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"]
PixelFormat = Literal["yuv420p", "yuv420p10le", "yuv422p", "yuv422p10le", "yuv444p", "yuv444p10le"]
Layout = Literal["mono", "stereo", "5.1", "7.1"]

VIDEO_CODECS: dict[str, tuple[VideoCodec, ...]] = {
    "mp4": ("h264", "hevc", "av1", "vp9"),
    "mov": ("h264", "hevc"),
    "mkv": ("h264", "hevc", "av1", "vp9"),
    "webm": ("vp9", "av1"),
    "ts": ("h264", "hevc"),
}
"""Codecs that a container carries and players accept there; the first is the default."""

AUDIO_CODECS: dict[str, tuple[AudioCodec, ...]] = {
    "mp4": ("aac", "opus", "mp3", "flac"),
    "mov": ("aac", "mp3"),
    "mkv": ("aac", "opus", "mp3", "flac"),
    "webm": ("opus",),
    "ts": ("aac", "mp3", "opus"),
    "m4a": ("aac",),
    "mp3": ("mp3",),
    "opus": ("opus",),
    "flac": ("flac",),
}

NTSC_RATES = {
    Fraction(n): Fraction(d, 1001)
    for n, d in {
        "23.976": 24_000, "23.98": 24_000, "29.97": 30_000, "59.94": 60_000, "119.88": 120_000,
    }.items()
}  # fmt: skip


_RATE = re.compile(r" *[0-9]{1,9}(\.[0-9]{1,12}|/[0-9]{1,9})? *")


def parse_ratio(value: object, refusal: str) -> Fraction:
    """A number, or a fraction in words; ValueError with these words for what is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction):
        raise ValueError(refusal)
    if isinstance(value, str) and not _RATE.fullmatch(value):
        # an exponent would be worked out digit by digit, however many
        raise ValueError(refusal)
    try:
        return value if isinstance(value, Fraction) else Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise ValueError(refusal) from None


def parse_frame_rate(value: object) -> Fraction:
    """A frame rate from 30, 29.97 (taken as 30000/1001) or "30000/1001"; ValueError outside 0.1-480."""
    rate = parse_ratio(value, "a frame rate is a number or a fraction such as 30000/1001")
    rate = NTSC_RATES.get(rate, rate)
    if not Fraction(1, 10) <= rate <= 480 or rate.denominator > 1_000_000:
        raise ValueError("a frame rate lies between 0.1 and 480")
    return rate


FrameRate = Annotated[
    Fraction,
    BeforeValidator(parse_frame_rate),
    PlainSerializer(lambda rate: str(rate), return_type=str),
    Field(json_schema_extra={"examples": [30, "30000/1001"]}),
]


class Model(BaseModel):
    """Base of all values here: frozen, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


METADATA_CHARACTERS = 16_384


def _within_metadata(value: dict[str, Any]) -> dict[str, Any]:
    if sum(len(str(k)) + len(str(v)) for k, v in value.items()) > METADATA_CHARACTERS:
        raise ValueError("metadata is at most 16 KiB")
    return value


Text = Annotated[str, Field(max_length=METADATA_CHARACTERS)]
"""Of a client's own. The bound also makes sure that it is text: JSON can say "\\ud800", which no answer can repeat."""

Metadata = Annotated[
    dict[Text, Text | int | float | bool | None], Field(max_length=64), AfterValidator(_within_metadata)
]
"""A client's own notes on a job, given back as they came."""


class Rung(Model):
    """One requested video rendition. Not given means: as the source has it, or the best fit for the container."""

    codec: VideoCodec | None = Field(None, description="the container's usual codec when not given")
    width: int | None = Field(None, ge=16, le=16384, description="the widest displayed width")
    height: int | None = Field(None, ge=16, le=16384, description="the highest displayed height")
    upscale: bool = Field(False, description="enlarge sources that are smaller than width × height")
    frame_rate: FrameRate | None = Field(None, description="constant frame rate; source timing when not given")
    rate_control: RateControl | None = Field(None, description="the codec's usual CRF when not given")
    gop_seconds: float = Field(4.0, ge=0.1, le=60, description="longest time between keyframes")
    pixel_format: PixelFormat | None = None
    rotation: Literal["apply", "keep"] = Field(
        "apply", description="turn the picture, or keep it as it is coded and say how players turn it"
    )
    deinterlace: Literal["auto", "on", "off", "bob", "ivtc"] = Field(
        "auto",
        description="auto, bob and ivtc where interlaced pictures are found; bob makes a frame of each field, ivtc "
        "takes 3:2 pulldown back, as auto does where it is measured all over the input",
    )
    speed: Speed = Field("medium", description="encoding effort, in x264's words for every codec")
    filters: Filters = Field((), description="applied in their own order: crop, rotate, mirror, denoise …")


class LoudnessSpec(Model):
    """Loudness by EBU R 128: the sound is measured first, then one gain is applied to all of it."""

    target_lufs: float = Field(-23.0, ge=-40, le=-8, description="integrated loudness; EBU's is -23")
    true_peak_dbtp: float = Field(-1.0, ge=-9, le=0, description="peaks of the waveform, between samples too")
    over_peak: Literal["limit", "quieter"] = Field(
        "limit", description="where the gain would lift peaks above that: limit these, or take less gain"
    )


Channel = Annotated[int, Field(ge=0, lt=64)] | Annotated[str, Field(pattern=r"^[A-Z]{2,4}[0-9]?$")]


class SoundFade(Model):
    """From silence at the start, to silence at the end."""

    in_seconds: float = Field(0.0, ge=0, le=60)
    out_seconds: float = Field(0.0, ge=0, le=60)

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.in_seconds and not self.out_seconds:
            raise ValueError("give in_seconds or out_seconds")
        return self


class AudioSpec(Model):
    """The audio renditions of an output."""

    codec: AudioCodec | None = Field(None, description="the container's usual codec when not given")
    bitrate: Bitrate | None = Field(None, description="bit/s; by codec and channel count when not given")
    sample_rate: int | None = Field(None, ge=8_000, le=192_000, description="Hz")
    layout: Layout | None = Field(None, description="downmix or keep; never invents channels")
    downmix: Literal["level", "scaled"] = Field(
        "level",
        description="level: dialogue as loud as before, peaks limited; scaled: quieter by as much as could ever clip",
    )
    channel_map: tuple[Channel, ...] | None = Field(
        None,
        min_length=1,
        max_length=8,
        description="the source's channels to take, in the order of the output's: names such as FL, or places from 0",
    )
    loudness: LoudnessSpec | None = Field(None, description="normalise loudness; as it is when not given")
    fade: SoundFade | None = Field(None, description="of the sound, from and to silence; times are the output's")
    tracks: Literal["all", "default"] | tuple[Annotated[int, Field(ge=0, lt=64)], ...] | None = Field(
        None,
        description="positions among the source's audio tracks; all for video files, default for audio files",
    )
    languages: tuple[Annotated[str, Field(pattern=r"^[a-zA-Z-]{2,12}$")], ...] | None = Field(
        None, description="only tracks in these languages (ISO 639, as the file writes them)"
    )


class SubtitleSpec(Model):
    """The subtitle tracks of an output; text is converted to the container's kind."""

    tracks: Literal["all"] | tuple[Annotated[int, Field(ge=0, lt=64)], ...] = "all"
    languages: tuple[Annotated[str, Field(pattern=r"^[a-zA-Z-]{2,12}$")], ...] | None = None
