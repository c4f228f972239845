"""What pictures are to be made of a track, decided: plan values."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from pipelines.source import Facts, Ratio

Form = Literal["thumbnails", "poster", "contact_sheet", "gif", "webp"]

PICTURE_CODECS: dict[str, tuple[str, str]] = {
    "jpg": ("mjpeg", "mjpeg"),
    "webp": ("webp", "libwebp"),
    "gif": ("gif", "gif"),
    "animated webp": ("webp", "libwebp_anim"),
}
"""FFmpeg's codec and encoder for each kind of file."""
PICTURE_ENCODERS = tuple(dict.fromkeys(encoder for _, encoder in PICTURE_CODECS.values()))

BEST_SCALE, WORST_SCALE = 2, 31
"""FFmpeg's quantiser scale for JPEG."""


def _jpeg(quality: int) -> dict[str, str]:
    scale = str(round(WORST_SCALE - (WORST_SCALE - BEST_SCALE) * (quality / 100) ** 0.5))
    return {"qmin": scale, "qmax": scale}


def _webp(quality: int) -> dict[str, str]:
    return {"quality": str(quality), "compression_level": "4"}


PICTURE_OPTIONS: dict[str, Callable[[int], dict[str, str]]] = {
    "mjpeg": _jpeg,
    "libwebp": _webp,
    "libwebp_anim": _webp,
    "gif": lambda quality: {},
}
"""An encoder's options for a quality of 1 to 100."""

INDEX_NAME = "thumbnails.vtt"
SPRITES_NAME = "sprites.vtt"


class Every(Facts):
    """What is on screen at each multiple of `seconds`."""

    kind: Literal["every"] = "every"
    seconds: Ratio


class Middles(Facts):
    """What is on screen in the middle of each of `count` equal parts."""

    kind: Literal["middles"] = "middles"
    count: int


class At(Facts):
    """What is on screen at one moment."""

    kind: Literal["at"] = "at"
    seconds: Ratio


class SceneStarts(Facts):
    kind: Literal["scenes"] = "scenes"
    threshold: float
    min_seconds: Ratio


class BestOf(Facts):
    """The best of `candidates` pictures in each of `count` equal parts."""

    kind: Literal["best"] = "best"
    count: int
    candidates: int


class Slots(Facts):
    """What is on screen at the rate `fps`, in `cuts` pieces of `seconds` evenly spread; 0: all of it."""

    kind: Literal["slots"] = "slots"
    fps: Ratio
    cuts: int = 0
    seconds: Ratio = Fraction(0)


Picks = Annotated[Every | Middles | At | SceneStarts | BestOf | Slots, Field(discriminator="kind")]


class SheetLayout(Facts):
    """Pictures side by side; sides are pixels, `background` is RGB."""

    columns: int
    rows: int
    tile_width: int
    tile_height: int
    gap: int = 0
    background: tuple[int, int, int] = (0, 0, 0)
    timestamps: bool = False

    @property
    def capacity(self) -> int:
        return self.columns * self.rows

    def size(self, rows: int) -> tuple[int, int]:
        """Width and height of a sheet with so many rows."""
        width = self.columns * (self.tile_width + self.gap) + self.gap
        return width, rows * (self.tile_height + self.gap) + self.gap

    def place(self, number: int) -> tuple[int, int]:
        """Left and top of a picture by its number on its sheet."""
        row, column = divmod(number, self.columns)
        return self.gap + column * (self.tile_width + self.gap), self.gap + row * (self.tile_height + self.gap)


class AnimationLayout(Facts):
    """How an animation plays; `colors` and `dither` are of GIF's palette."""

    fps: Ratio
    loop: bool
    colors: int = 256
    dither: str = "sierra2_4a"
