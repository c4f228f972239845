"""Filters as data. A chain of these is part of a plan; `graph` turns it into an FFmpeg graph at the last moment."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from pipelines.source import Facts, Ratio

Range = Literal["tv", "pc"]
HdrTransfer = Literal["smpte2084", "arib-std-b67"]


class Deinterlace(Facts):
    """Both fields of a frame become one progressive frame; `field_first` is the field that is shown first."""

    kind: Literal["deinterlace"] = "deinterlace"
    field_first: Literal["top", "bottom", "auto"] = "auto"
    bob: bool = False
    """Every field becomes a frame: twice the rate."""


class InverseTelecine(Facts):
    """3:2 pulldown is taken back: of five frames at `rate` four are left."""

    kind: Literal["inverse_telecine"] = "inverse_telecine"
    field_first: Literal["top", "bottom", "auto"] = "auto"
    rate: Ratio


class Crop(Facts):
    """Cuts to a size, from the top left corner given."""

    kind: Literal["crop"] = "crop"
    width: int
    height: int
    x: int = 0
    y: int = 0


class Scale(Facts):
    """To a size, pixel format, matrix and range in one step. Matrices are FFmpeg's names; None leaves them alone."""

    kind: Literal["scale"] = "scale"
    width: int
    height: int
    pixel_format: str
    in_matrix: str | None = None
    out_matrix: str | None = None
    in_range: Range | None = None
    out_range: Range | None = None


class ToneMap(Facts):
    """PQ or HLG to BT.709 SDR, to a size and pixel format in one step."""

    kind: Literal["tonemap"] = "tonemap"
    width: int
    height: int
    pixel_format: str
    transfer: HdrTransfer
    primaries: str = "bt2020"
    peak: int = 1000
    """The brightest that the source gets, in cd/m²."""
    in_matrix: str | None = "bt2020nc"
    in_range: Range = "tv"


class Flatten(Facts):
    """Straight (not premultiplied) alpha is laid over black; what comes out is RGB without alpha."""

    kind: Literal["flatten"] = "flatten"
    bit_depth: int = 8
    in_matrix: str | None = None
    in_range: Range | None = None


class Transpose(Facts):
    """Turns the picture clockwise by 90, 180 or 270 degrees, after flipping it horizontally where `mirror` says so."""

    kind: Literal["transpose"] = "transpose"
    degrees: Literal[0, 90, 180, 270]
    mirror: bool = False


class Pad(Facts):
    """Bars around the picture, up to a size; the picture in its middle."""

    kind: Literal["pad"] = "pad"
    width: int
    height: int
    colour: str = "#000000"


Level = Literal["light", "medium", "strong"]


class Denoise(Facts):
    """Noise and grain are smoothed away. `deep`: the pictures have more than 8 bits."""

    kind: Literal["denoise"] = "denoise"
    level: Level
    deep: bool = False


class Sharpen(Facts):
    """Edges get more contrast. `deep`: the pictures have more than 8 bits."""

    kind: Literal["sharpen"] = "sharpen"
    level: Level
    deep: bool = False


class Overlay(Facts):
    """An image over the picture. Sizes are pixels of the canvas, `width` and `height` those of the canvas itself.

    `image` is what its file is known by, `image_width` None its own. Times are the output's.
    """

    kind: Literal["overlay"] = "overlay"
    image: str
    width: int
    height: int
    image_width: int | None = None
    pixel_aspect: Ratio = Fraction(1)
    across: float
    down: float
    """Where it is between left (0) and right (1), top and bottom."""
    margin_x: int
    margin_y: int
    opacity: float = 1.0
    start_seconds: float = 0.0
    end_seconds: float | None = None
    pixel_format: str
    matrix: str | None = None


class BurnIn(Facts):
    """Text of a subtitle track drawn into the picture. Shares of its height; None: as the track has it."""

    kind: Literal["burn_in"] = "burn_in"
    stream: int
    """The source's stream, of the input or of a file beside it."""
    size: float | None = None
    colour: str | None = None
    outline: float | None = None
    outline_colour: str | None = None
    margin: float | None = None
    position: Literal["bottom", "top", "middle"] | None = None
    width: int
    height: int
    """Of the picture as it is displayed: letters keep their shape where pixels are not square."""


class Fade(Facts):
    """From black, and to black at the end. `lasts_seconds`: of the output; None: there is no end to fade at."""

    kind: Literal["fade"] = "fade"
    in_seconds: float = 0.0
    out_seconds: float = 0.0
    lasts_seconds: float | None = None


class Retag(Facts):
    """Frames are called what they are; no pixel changes."""

    kind: Literal["retag"] = "retag"
    range: Range | None = None
    progressive: bool = False


class Resample(Facts):
    """To the encoder's rate, layout and format; gaps are filled and overlaps trimmed: sound stays in time."""

    kind: Literal["resample"] = "resample"
    sample_rate: int
    layout: str
    sample_format: str
    scaled: bool = True
    """A downmix is divided by the largest sum of its gains, so that it can't clip."""


class Tempo(Facts):
    """So many seconds of sound are played in one, at their own pitch."""

    kind: Literal["tempo"] = "tempo"
    pace: Ratio


class SoundFade(Facts):
    """From silence, and to silence at the end; the fields are Fade's."""

    kind: Literal["sound_fade"] = "sound_fade"
    in_seconds: float = 0.0
    out_seconds: float = 0.0
    lasts_seconds: float | None = None


class ChannelMap(Facts):
    """Which of the source's channels become those of the output, by their places from 0."""

    kind: Literal["channel_map"] = "channel_map"
    channels: tuple[int, ...]


class Limit(Facts):
    """Samples above the ceiling are turned down, with the few milliseconds around them; others are not touched."""

    kind: Literal["limit"] = "limit"
    ceiling_dbfs: float


class Loudness(Facts):
    """By EBU R 128. None: silence, or nothing above its absolute gate of -70 LUFS."""

    integrated_lufs: float | None
    range_lu: float
    true_peak_dbtp: float | None


class Normalise(Facts):
    """One gain for the whole programme. `measured` and what follows from it is known after the first pass."""

    kind: Literal["normalise"] = "normalise"
    target_lufs: float
    true_peak_dbtp: float
    over_peak: Literal["limit", "quieter"] = "limit"
    measured: Loudness | None = None
    gain_db: float = 0.0
    limits: bool = False
    """Whether the gain lifts peaks above the ceiling, so that they are limited."""


SoundFilter = Resample | ChannelMap | Limit | Normalise | Tempo | SoundFade

Filter = Annotated[
    Deinterlace
    | InverseTelecine
    | Flatten
    | Crop
    | Scale
    | ToneMap
    | Transpose
    | Denoise
    | Sharpen
    | Pad
    | BurnIn
    | Overlay
    | Fade
    | Retag
    | SoundFilter,
    Field(discriminator="kind"),
]
