"""Which part of a source's picture is taken, and how it is turned: crop, rotate and mirror as one thing. Pure.

The picture that comes of it is planned like any other: what a file says of its rotation and what a user asks for are
turned in one step, and the area that is left is scaled in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pipelines.asked.filters import CropFilter, MirrorFilter, RotateFilter, VideoFilter, asked
from pipelines.errors import UnsupportedSpec
from pipelines.filters import Crop
from pipelines.planning.conform import Picture, picture_matrix
from pipelines.source import Facts, VideoInfo
from pipelines.video.colours import is_rgb

Rect = tuple[Fraction, Fraction, Fraction, Fraction]
"""Left, top, width, height."""
SMALLEST_SIDE = 16


class Framing(Facts):
    """`crop` of coded pictures of the size `of`; then the turn, with the source's own in it."""

    crop: Crop | None = None
    of: tuple[int, int]
    rotation: int = 0
    mirrored: bool = False

    def steps(self, width: int, height: int) -> tuple[Crop, ...]:
        """The crop of a picture of this size: of one that is larger or smaller, the same part."""
        if self.crop is None:
            return ()
        if (width, height) == self.of:
            return (self.crop,)
        across, down = Fraction(width, self.of[0]), Fraction(height, self.of[1])
        crop = self.crop
        area = (crop.x * across, crop.y * down, crop.width * across, crop.height * down)
        return (_coded(area, (width, height), 2),)

    def of_picture(self, picture: Picture) -> Picture:
        """What is left of a picture."""
        crops = self.steps(picture.width, picture.height)
        matrix = None if is_rgb(picture.pixel_format) else picture_matrix(picture)
        update: dict[str, object] = {"rotation": self.rotation, "mirrored": self.mirrored}
        for crop in crops:
            update |= {"width": crop.width, "height": crop.height}
            # where nothing is said of the matrix it is guessed by the whole picture's size
            update["colour"] = picture.colour.model_copy(update={"matrix": matrix or picture.colour.matrix})
        return picture.model_copy(update=update)


def framing_of(
    filters: Sequence[VideoFilter], source: VideoInfo, reasons: list[str] | None = None, *, interlaced: bool = False
) -> Framing | None:
    """None: the whole picture as it is. UnsupportedSpec when the area is not in the picture.

    `interlaced`: fields stay fields, and none may become the other.
    """
    said = [] if reasons is None else reasons
    turn = _turn(filters, source, said)
    crop = _crop(filters, source, said, lines=4 if interlaced else 2)
    if crop is None and turn == (source.rotation, source.mirrored):
        return None
    return Framing(crop=crop, of=(source.width, source.height), rotation=turn[0], mirrored=turn[1])


def framed(framing: Framing | None, source: VideoInfo) -> VideoInfo:
    """The source as if it had been like this from the start; its index and its coding are the source's own."""
    if framing is None:
        return source
    picture = framing.of_picture(
        Picture(
            width=source.width,
            height=source.height,
            pixel_format=source.pixel_format or "yuv420p",
            colour=source.colour,
        )
    )
    return source.model_copy(
        update={
            "width": picture.width,
            "height": picture.height,
            "rotation": picture.rotation,
            "mirrored": picture.mirrored,
            "colour": picture.colour,
        }
    )


def _turn(filters: Sequence[VideoFilter], source: VideoInfo, reasons: list[str]) -> tuple[int, bool]:
    """Degrees clockwise after mirroring: what the file says, then rotate, then mirror."""
    rotation, mirrored = source.rotation, source.mirrored
    if (rotate := asked(filters, RotateFilter)) is not None:
        rotation += rotate.degrees
        reasons.append(f"turned by {rotate.degrees}° as asked")
    if (mirror := asked(filters, MirrorFilter)) is not None:
        # a flip after a turn is the flip first, and the turn the other way round
        rotation = -rotation + (180 if mirror.axis == "vertical" else 0)
        mirrored = not mirrored
        reasons.append(f"mirrored {mirror.axis}ly as asked")
    return rotation % 360, mirrored


def _crop(filters: Sequence[VideoFilter], source: VideoInfo, reasons: list[str], *, lines: int) -> Crop | None:
    wanted = asked(filters, CropFilter)
    if wanted is None:
        return None
    whole = (source.width, source.height)
    if wanted.auto:
        if source.active is None:
            reasons.append("not cropped: no black bars were found")
            return None
        found = source.active
        area = (Fraction(found.x), Fraction(found.y), Fraction(found.width), Fraction(found.height))
        crop = _coded(area, whole, lines)
        reasons.append(f"black bars cut off, as measured: {crop.width}×{crop.height} at {crop.x},{crop.y}")
        return crop
    crop = _coded(_unturned(_displayed(wanted, source), source), whole, lines)
    if min(crop.width, crop.height) < SMALLEST_SIDE:
        raise UnsupportedSpec(
            f"a crop to {crop.width}×{crop.height} leaves less than {SMALLEST_SIDE} pixels",
            stage="plan",
            filter="crop",
        )
    reasons.append(f"cropped to {crop.width}×{crop.height} at {crop.x},{crop.y} of the coded picture")
    return crop


def _displayed(wanted: CropFilter, source: VideoInfo) -> Rect:
    """The area in displayed pixels."""
    assert wanted.width is not None
    assert wanted.height is not None
    sides = source.display_size
    area = []
    for start, length, whole in zip((wanted.x, wanted.y), (wanted.width, wanted.height), sides, strict=True):
        begin = (whole - length) / 2 if start is None else Fraction(start)
        # displayed sides are not always whole numbers
        if begin < 0 or begin + length > whole + 1:
            shown = "×".join(str(round(side)) for side in sides)
            raise UnsupportedSpec(
                f"the crop does not lie in the picture, which is {shown} as displayed",
                stage="plan",
                filter="crop",
                displayed=[round(side) for side in sides],
            )
        area.append((begin, Fraction(length)))
    (left, width), (top, height) = area
    return left, top, width, height


def _unturned(area: Rect, source: VideoInfo) -> Rect:
    """The area in coded pixels, as the picture lies in its file."""
    left, top, width, height = area
    whole_width, whole_height = source.display_size
    # back by as much as a player turns it forward
    for _ in range(source.rotation // 90):
        left, top, width, height = top, whole_width - left - width, height, width
        whole_width, whole_height = whole_height, whole_width
    if source.mirrored:
        left = whole_width - left - width
    aspect = source.sample_aspect_ratio
    return left / aspect, top, width / aspect, height


def _coded(area: Rect, whole: tuple[int, int], lines: int) -> Crop:
    """The nearest even area within the picture, no larger; `lines` that its top is a multiple of."""
    left, top, width, height = area
    sides = [min(max(2, 2 * int(side // 2)), limit) for side, limit in zip((width, height), whole, strict=True)]
    places = [
        min(max(0, unit * round(start / unit)), (limit - side) // unit * unit)
        for start, side, limit, unit in zip((left, top), sides, whole, (2, lines), strict=True)
    ]
    return Crop(width=sides[0], height=sides[1], x=places[0], y=places[1])
