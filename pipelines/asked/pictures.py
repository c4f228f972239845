"""What a user asks for as pictures: stills, sheets for scrubbing, a poster, a contact sheet, short animations."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipelines.asked.outputs import OutputBase
from pipelines.asked.rungs import Model

StillFormat = Literal["jpg", "webp"]
Side = Annotated[int, Field(ge=16, le=8192)]
Decoding = Literal["auto", "exact", "keyframes"]

MAX_PICTURES = 10_000
MAX_SHEET_PIXELS = 32 << 20
MAX_ANIMATION_FRAMES = 3000


class Interval(Model):
    """A picture every so many seconds, of what is on screen then."""

    mode: Literal["interval"] = "interval"
    seconds: float = Field(10.0, ge=0.04, le=86_400)


class Count(Model):
    """So many pictures, from the middles of equal parts."""

    mode: Literal["count"] = "count"
    count: int = Field(10, ge=1, le=MAX_PICTURES)


class Scenes(Model):
    """The first picture, and the first one of each scene."""

    mode: Literal["scenes"] = "scenes"
    threshold: float = Field(0.12, ge=0.01, le=1, description="how much of the picture has to change at once")
    min_seconds: float = Field(1.0, ge=0.1, le=3600, description="the shortest scene")


class Best(Model):
    """The best picture of each of so many equal parts: sharp, well lit, calm."""

    mode: Literal["best"] = "best"
    count: int = Field(10, ge=1, le=500)


Pick = Annotated[Interval | Count | Scenes | Best, Field(discriminator="mode")]


class _Stills(OutputBase):
    format: StillFormat = "jpg"
    quality: int = Field(80, ge=1, le=100)


class Sprites(Model):
    """Sheets of small pictures; players that show them while scrubbing find each by its place in a sheet."""

    columns: int = Field(10, ge=1, le=50)
    rows: int = Field(10, ge=1, le=50)
    width: int = Field(160, ge=16, le=640, description="of one picture; its height follows")


class ThumbnailsOutput(_Stills):
    """Stills in a folder, sheets of them, or both; with a WebVTT file that says which is of when."""

    type: Literal["thumbnails"] = "thumbnails"
    pick: Pick = Interval()
    stills: bool = Field(True, description="a file for each picture")
    width: Side | None = Field(320, description="the widest displayed width of a still")
    height: Side | None = Field(None, description="its highest displayed height")
    sprites: Sprites | None = None
    max_pictures: int = Field(2000, ge=1, le=MAX_PICTURES, description="more are refused (limit_pictures)")
    decode: Decoding = Field(
        "auto",
        description="keyframes: decode only those and take the nearest; exact: every picture; auto: keyframes alone "
        "where nothing else is made of the video and one lies within half an interval of each moment",
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.stills and self.sprites is None:
            raise ValueError("thumbnails are stills, sprites, or both")
        if isinstance(self.pick, Count | Best) and self.pick.count > self.max_pictures:
            raise ValueError("count is above max_pictures")
        if self.decode == "keyframes" and isinstance(self.pick, Scenes):
            raise ValueError("scenes are found by looking at every picture, not at keyframes")
        return self


class PosterOutput(_Stills):
    """One picture that shows what it is about: neither black nor blurred nor in the middle of a fade."""

    type: Literal["poster"] = "poster"
    quality: int = Field(88, ge=1, le=100)
    width: Side | None = Field(1280, description="the widest displayed width")
    height: Side | None = Field(None, description="the highest displayed height")
    at_seconds: float | None = Field(
        None, ge=0, le=1_000_000, allow_inf_nan=False, description="the picture on screen then, in place of the best"
    )


class ContactSheetOutput(_Stills):
    """One picture of many, evenly spread, each with its time."""

    type: Literal["contact_sheet"] = "contact_sheet"
    quality: int = Field(85, ge=1, le=100)
    columns: int = Field(4, ge=1, le=20)
    rows: int = Field(5, ge=1, le=50)
    width: int = Field(320, ge=64, le=1280, description="of one picture; its height follows")
    gap: int = Field(8, ge=0, le=64, description="pixels between pictures and around them")
    background: str = Field("#181818", pattern=r"^#[0-9a-fA-F]{6}$")
    timestamps: bool = True


class Cuts(Model):
    """Short pieces of the film, evenly spread, one after the other."""

    count: int = Field(4, ge=1, le=20)
    seconds: float = Field(1.5, ge=0.2, le=30)


class _Animation(OutputBase):
    width: int | None = Field(480, ge=16, le=1920, description="the widest displayed width")
    height: int | None = Field(None, ge=16, le=1920, description="the highest displayed height")
    fps: float = Field(10.0, ge=1, le=50)
    loop: bool = Field(True, description="for ever; else it is shown once")
    cuts: Cuts | None = Field(Cuts(), description="null: all of the input, up to the limit on frames")
    max_frames: int = Field(600, ge=1, le=MAX_ANIMATION_FRAMES, description="more are refused (limit_pictures)")


class GifOutput(_Animation):
    """An animated GIF, with the best palette for what it shows."""

    type: Literal["gif"] = "gif"
    colors: int = Field(256, ge=4, le=256)
    dither: Literal["sierra2_4a", "floyd_steinberg", "bayer", "none"] = "sierra2_4a"


class WebpOutput(_Animation):
    """An animated WebP: much smaller than a GIF, in all colours."""

    type: Literal["webp"] = "webp"
    quality: int = Field(70, ge=1, le=100)


StillOutput = ThumbnailsOutput | PosterOutput | ContactSheetOutput
AnimationOutput = GifOutput | WebpOutput
PictureOutput = StillOutput | AnimationOutput
