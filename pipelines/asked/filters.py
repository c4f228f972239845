"""What a user asks to be done to the pictures of a rendition: `filters`, a list of closed values.

Whatever the order in the list, filters are applied in that of ORDER: cropped first, faded last. Sizes and places are
displayed pixels: after rotation and sample aspect ratio, from the top left corner.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

MAX_FILTERS = 16
MAX_SIDE = 16_384

_COLOURS = {"black": "#000000", "white": "#ffffff", "grey": "#808080"}
_HEX = re.compile(r"#[0-9a-fA-F]{6}")
_ASPECT = re.compile(r"([1-9][0-9]{0,3}):([1-9][0-9]{0,3})")
WIDEST_SHAPE = 16
"""No picture is so many times as wide as high, or as high as wide."""

Side = Annotated[int, Field(ge=2, le=MAX_SIDE)]
Offset = Annotated[int, Field(ge=0, le=MAX_SIDE)]


class FilterModel(BaseModel):
    """Base of all: `type` names the filter."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _colour(value: str) -> str:
    value = _COLOURS.get(value, value)
    if not _HEX.fullmatch(value):
        raise ValueError(f"a colour is #rrggbb, {' or '.join(_COLOURS)}")
    return value.lower()


ColourName = Annotated[str, Field(max_length=16), AfterValidator(_colour)]


def parse_aspect(value: str) -> Fraction:
    """ValueError for what is no shape of a picture."""
    match = _ASPECT.fullmatch(value)
    shape = Fraction(int(match[1]), int(match[2])) if match else None
    if shape is None or not Fraction(1, WIDEST_SHAPE) <= shape <= WIDEST_SHAPE:
        raise ValueError(f"an aspect is width:height such as 16:9, at most {WIDEST_SHAPE}:1")
    return shape


def _aspect(value: str) -> str:
    parse_aspect(value)
    return value


class CropFilter(FilterModel):
    """A part of the picture: `auto` cuts black bars off where they are measured, else `width` × `height`."""

    type: Literal["crop"] = "crop"
    auto: bool = Field(False, description="cut black bars off, measured on samples of the whole source")
    width: Side | None = None
    height: Side | None = None
    x: Offset | None = Field(None, description="from the left; in the middle when not given")
    y: Offset | None = Field(None, description="from the top; in the middle when not given")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        sides = (self.width, self.height)
        if self.auto and any(value is not None for value in (*sides, self.x, self.y)):
            raise ValueError("auto finds its own area: give no width, height, x or y with it")
        if not self.auto and None in sides:
            raise ValueError("give width and height, or auto")
        return self


class RotateFilter(FilterModel):
    """Turns the picture clockwise, after what its file says of rotation."""

    type: Literal["rotate"] = "rotate"
    degrees: Literal[90, 180, 270]


class MirrorFilter(FilterModel):
    """Left to right (horizontal), or top to bottom."""

    type: Literal["mirror"] = "mirror"
    axis: Literal["horizontal", "vertical"] = "horizontal"


class PadFilter(FilterModel):
    """Bars around the picture, which is in the middle: up to `aspect`, or to `width` × `height`."""

    type: Literal["pad"] = "pad"
    aspect: Annotated[str, Field(max_length=9), AfterValidator(_aspect)] | None = Field(
        None, description="width:height, such as 16:9"
    )
    width: Annotated[int, Field(ge=16, le=MAX_SIDE, multiple_of=2)] | None = None
    height: Annotated[int, Field(ge=16, le=MAX_SIDE, multiple_of=2)] | None = None
    colour: ColourName = Field("#000000", description="#rrggbb, black, white or grey")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.width is None) != (self.height is None) or (self.aspect is None) == (self.width is None):
            raise ValueError("give aspect, or width and height")
        return self


Level = Literal["light", "medium", "strong"]


class DenoiseFilter(FilterModel):
    """Less noise and grain; detail goes with it the more the stronger. Strong is slow in software."""

    type: Literal["denoise"] = "denoise"
    level: Level = "medium"


class SharpenFilter(FilterModel):
    """Edges with more contrast."""

    type: Literal["sharpen"] = "sharpen"
    level: Level = "medium"


Anchor = Literal[
    "top_left", "top", "top_right", "left", "center", "right", "bottom_left", "bottom", "bottom_right"
]  # fmt: skip
_SHARE = re.compile(r"[0-9]{1,3}(\.[0-9]{1,2})?%")


def _length(value: int | str) -> int | str:
    if isinstance(value, str) and (not _SHARE.fullmatch(value) or float(value[:-1]) > 100):
        raise ValueError("a length is a number of pixels, or a share such as 5%")
    return value


Length = Annotated[
    Annotated[int, Field(ge=0, le=MAX_SIDE)] | Annotated[str, Field(max_length=7)], AfterValidator(_length)
]
Seconds = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class ImageSource(FilterModel):
    """A picture beside the input: exactly one of `upload` (an upload's id) and `path` (in one of the media roots)."""

    upload: str | None = Field(None, min_length=1, max_length=64)
    path: str | None = Field(None, min_length=1, max_length=4096)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.upload is None) == (self.path is None):
            raise ValueError("give exactly one of upload, path")
        return self

    @property
    def key(self) -> str:
        """What its file is known by."""
        return f"path:{self.path}" if self.upload is None else f"upload:{self.upload}"


class OverlayFilter(FilterModel):
    """A PNG, JPEG or WebP laid over the picture, through its own transparency. Times are the output's."""

    type: Literal["overlay"] = "overlay"
    image: ImageSource
    anchor: Anchor = Field("top_right", description="which corner, side or middle it is at")
    margin_x: Length = Field("3%", description="pixels, or a share of the picture's width")
    margin_y: Length = Field("3%", description="pixels, or a share of the picture's height")
    width: Length | None = Field(None, description="pixels, or a share of the picture's width; its own when not given")
    opacity: float = Field(1.0, gt=0, le=1)
    start_seconds: Seconds = 0.0
    end_seconds: Seconds | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.width in (0, "0%"):
            raise ValueError("an image has a width")
        if self.end_seconds is not None and self.end_seconds <= self.start_seconds:
            raise ValueError("it ends after it starts")
        return self


class FadeFilter(FilterModel):
    """From black at the start, to black at the end."""

    type: Literal["fade"] = "fade"
    in_seconds: float = Field(0.0, ge=0, le=60)
    out_seconds: float = Field(0.0, ge=0, le=60)
    sound: bool = Field(False, description="the output's sound with it")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.in_seconds and not self.out_seconds:
            raise ValueError("give in_seconds or out_seconds")
        return self


class BurnInFilter(FilterModel):
    """A text subtitle track drawn into the picture: the one at `track`, or the first in `language`.

    Sizes are shares of the picture's height, in percent. What is not given is as the track has it.
    """

    type: Literal["burn_in"] = "burn_in"
    track: Annotated[int, Field(ge=0, lt=64)] | None = Field(
        None,
        description="position among the subtitle tracks, those of `input.subtitles` last; the first when not given",
    )
    language: Annotated[str, Field(pattern=r"^[a-zA-Z-]{2,12}$")] | None = Field(None, description="ISO 639")
    size: Annotated[float, Field(ge=1, le=25)] | None = Field(None, description="of the letters")
    colour: ColourName | None = Field(None, description="of the letters: #rrggbb, black, white or grey")
    outline: Annotated[float, Field(ge=0, le=3)] | None = Field(None, description="how thick it is; 0: none")
    outline_colour: ColourName | None = None
    margin: Annotated[float, Field(ge=0, le=50)] | None = Field(None, description="from the edge that it stands at")
    position: Literal["bottom", "top", "middle"] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.track is not None and self.language is not None:
            raise ValueError("give track or language")
        return self


VideoFilter = Annotated[
    CropFilter
    | RotateFilter
    | MirrorFilter
    | PadFilter
    | DenoiseFilter
    | SharpenFilter
    | BurnInFilter
    | OverlayFilter
    | FadeFilter,
    Field(discriminator="type"),
]

ORDER = ("crop", "rotate", "mirror", "denoise", "sharpen", "pad", "burn_in", "overlay", "fade")
"""How filters follow each other. Scaling, colours and the file's own rotation lie between crop and rotate."""
REPEATABLE = ("overlay",)
"""What may be in a list more than once, and follows in the list's order."""
MOST_OVERLAYS = 4


K = TypeVar("K", bound=FilterModel)


def once_each(filters: tuple[K, ...]) -> tuple[K, ...]:
    """ValueError where a filter that is there once is there more than once, or an image too many."""
    names = [str(each.type) for each in filters]  # type: ignore[attr-defined]
    for name in dict.fromkeys(names):
        if name not in REPEATABLE and names.count(name) > 1:
            raise ValueError(f"{name} is in the list more than once")
    if names.count("overlay") > MOST_OVERLAYS:
        raise ValueError(f"at most {MOST_OVERLAYS} images are laid over a picture")
    return filters


Filters = Annotated[tuple[VideoFilter, ...], Field(max_length=MAX_FILTERS), AfterValidator(once_each)]


def with_common(common: tuple[VideoFilter, ...], own: tuple[VideoFilter, ...]) -> tuple[VideoFilter, ...]:
    """A rung's filters and those of its ladder; of a kind that is in both, the rung's."""
    named = {each.type for each in own if each.type not in REPEATABLE}
    return (*(each for each in common if each.type not in named), *own)


F = TypeVar("F", bound=FilterModel)


def asked(filters: Sequence[FilterModel], kind: type[F]) -> F | None:
    """The filter of this kind, which is there once at most."""
    return next((each for each in filters if isinstance(each, kind)), None)
