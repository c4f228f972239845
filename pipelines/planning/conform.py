"""From a picture as it is decoded to the picture that a rendition encodes: which filters, in which order. Pure.

The plan asks with what the probe saw, the run asks again when a picture changes on the way: one rule for both.
"""

from __future__ import annotations

from fractions import Fraction

from pipelines.filters import Crop, Filter, Flatten, Pad, Range, Retag, Scale, ToneMap, Transpose
from pipelines.source import Colour, Facts, Ratio
from pipelines.video.colours import guess_matrix, has_alpha, is_full_unsaid, is_gray, is_rgb
from pipelines.video.tone_curve import source_peak

ROUNDING_PIXELS = 1
"""A picture that misses the canvas by this much misses it by rounding: it is stretched, not given a bar."""


class Picture(Facts):
    """A decoded picture: coded size, turned as a player would by `rotation` (clockwise) after `mirrored`."""

    width: int
    height: int
    pixel_format: str
    bit_depth: int = 8
    sample_aspect_ratio: Ratio = Fraction(1)
    rotation: int = 0
    mirrored: bool = False
    colour: Colour = Colour()


class Canvas(Facts):
    """What a rendition encodes: all its frames have this size and format."""

    width: int
    height: int
    pixel_format: str
    sample_aspect_ratio: Ratio = Fraction(1)
    colour: Colour = Colour()
    keeps_rotation: bool = False
    """The picture is encoded unturned, and the file says how it is to be turned."""
    inner: tuple[int, int] | None = None
    """What the picture itself fills of it, in the middle; None: all of it."""
    bars: str = "#000000"
    """The colour of what stays free."""


def picture_matrix(picture: Picture) -> str:
    """The matrix of a YUV picture: as it says, else as players guess it."""
    matrix = picture.colour.matrix
    return guess_matrix(picture.width, picture.height) if matrix in (None, "gbr") else str(matrix)


def picture_range(picture: Picture) -> Range:
    """Its range: RGB is full, grey and JPEG's formats are where nothing is said, other YUV is limited."""
    if is_rgb(picture.pixel_format):
        return "pc"
    return picture.colour.range or ("pc" if is_full_unsaid(picture.pixel_format) else "tv")


def conform(picture: Picture, canvas: Canvas, touches: tuple[Filter, ...] = ()) -> tuple[Filter, ...]:
    """Filters that make `picture` fill `canvas`, its shape kept. `touches` are applied before bars are added."""
    turned = 0 if canvas.keeps_rotation else picture.rotation
    quarter = turned in (90, 270)
    width, height = canvas.inner or (canvas.width, canvas.height)
    whole = (height, width) if quarter else (width, height)
    aspect = 1 / canvas.sample_aspect_ratio if quarter else canvas.sample_aspect_ratio
    filters: list[Filter] = []
    matrix: str | None = None if is_rgb(picture.pixel_format) else picture_matrix(picture)
    range_ = picture_range(picture)
    if has_alpha(picture.pixel_format):
        filters.append(Flatten(bit_depth=picture.bit_depth, in_matrix=matrix, in_range=range_))
        matrix, range_ = None, "pc"
    if _is_one_pixel_larger(picture, whole, aspect):
        if (picture.width, picture.height) != whole:
            filters.append(Crop(width=whole[0], height=whole[1]))
        inner = whole
    else:
        inner = _inside(picture, whole, aspect)
    filters += _converted(picture, canvas, inner, matrix, range_)
    if turned or (picture.mirrored and not canvas.keeps_rotation):
        filters.append(Transpose(degrees=turned, mirror=picture.mirrored))
    filters += touches
    if inner != whole or (width, height) != (canvas.width, canvas.height):
        filters.append(Pad(width=canvas.width, height=canvas.height, colour=canvas.bars))
    return tuple(filters)


def _is_one_pixel_larger(picture: Picture, whole: tuple[int, int], aspect: Fraction) -> bool:
    """Whether the picture fills the canvas as it is, but for the odd row or column that encoders don't take."""
    spare = (picture.width - whole[0], picture.height - whole[1])
    return picture.sample_aspect_ratio == aspect and all(pixels in (0, 1) for pixels in spare)


def _inside(picture: Picture, whole: tuple[int, int], aspect: Fraction) -> tuple[int, int]:
    """The largest even size in the canvas with the picture's displayed shape."""
    shape = (picture.width * picture.sample_aspect_ratio / aspect, Fraction(picture.height))
    scales = [limit / side for limit, side in zip(whole, shape, strict=True)]
    covering, fitting = ([side * scale for side in shape] for scale in (max(scales), min(scales)))
    misses = [abs(side - limit) for sides in (covering, fitting) for side, limit in zip(sides, whole, strict=True)]
    if any(0 < miss <= ROUNDING_PIXELS for miss in misses) or not any(misses):
        return whole
    width, height = (
        max(2, min(2 * round(side / 2), limit - limit % 2)) for side, limit in zip(fitting, whole, strict=True)
    )
    return width, height


def _converted(
    picture: Picture, canvas: Canvas, size: tuple[int, int], matrix: str | None, range_: Range
) -> list[Filter]:
    """One step to size, pixel format and colours; `matrix` None: RGB."""
    if picture.colour.is_hdr and not canvas.colour.is_hdr:
        return [
            ToneMap(
                width=size[0],
                height=size[1],
                pixel_format=canvas.pixel_format,
                transfer=picture.colour.transfer,
                primaries=picture.colour.primaries or "bt2020",
                peak=source_peak(picture.colour),
                in_matrix=matrix,
                in_range=range_,
            )
        ]
    # swscale takes grey for full range whatever it is told: told the same on both sides it leaves the levels alone
    limited_gray = is_gray(picture.pixel_format) and range_ == "tv"
    to_rgb = is_rgb(canvas.pixel_format)
    step = Scale(
        width=size[0],
        height=size[1],
        pixel_format="yuv444p" if limited_gray and to_rgb else canvas.pixel_format,
        in_matrix=matrix,
        out_matrix=canvas.colour.matrix,
        in_range="pc" if limited_gray else range_,
        out_range="pc" if limited_gray or to_rgb else "tv",
    )
    if not limited_gray:
        return [step]
    retagged: list[Filter] = [step, Retag(range="tv")]
    if to_rgb:
        expand = {"pixel_format": canvas.pixel_format, "in_matrix": "bt709", "out_matrix": None, "in_range": "tv"}
        retagged.append(step.model_copy(update=expand))
    return retagged
