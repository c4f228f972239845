"""What decoded frames tell of a picture: colour tags, how it is turned, mastering display, field order."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

from pipelines.facts.side_data import side_data
from pipelines.planning.conform import Picture
from pipelines.source import Colour, MasteringDisplay
from pipelines.video.colours import MATRICES_BY_NUMBER, PRIMARIES_BY_NUMBER, RANGES_BY_NUMBER, TRANSFERS_BY_NUMBER

FieldOrder = Literal["progressive", "tt", "bb", "tb", "bt"]
FIELD_ORDERS: dict[int, FieldOrder] = {1: "progressive", 2: "tt", 3: "bb", 4: "tb", 5: "bt"}
"""AVFieldOrder: the first letter is the field coded first, the second the field shown first."""

FIRST_FIELD: dict[str, FieldOrder] = {"dvvideo": "bb"}
"""For interlaced pictures whose header does not say; top first elsewhere."""

_MASTERING = struct.Struct("=20i2i")
"""AVMasteringDisplayMetadata: rationals of red, green, blue, white (x, y), lowest and highest luminance; two flags."""
_LIGHT_LEVEL = struct.Struct("=2I")
_MATRIX = struct.Struct("=9i")


WIDEST_ASPECT = 16


def plausible_aspect(*told: Fraction | None) -> Fraction:
    """The first sample aspect ratio that makes sense; 1 where none does."""
    sensible = (ratio for ratio in told if ratio and Fraction(1, WIDEST_ASPECT) <= ratio <= WIDEST_ASPECT)
    return next(sensible, Fraction(1))


class AspectWatch:
    """Frames after a change of a track's sample aspect ratio carry the new one as their `opaque`: PyAV's don't tell."""

    def __init__(self) -> None:
        self._first: Fraction | None = None
        self._started = self._changed = False

    def tell(self, frames: Sequence[Any], aspect: Fraction | None) -> None:
        """`aspect` is the decoder's after it gave `frames`."""
        if not self._started:
            self._started, self._first = True, aspect
        self._changed = self._changed or aspect != self._first
        if self._changed:
            for frame in frames:
                frame.opaque = plausible_aspect(aspect)


def colour_of(frame: Any, context: Any) -> Colour:
    """Colour tags of a frame, those of the track where there is no frame, None where neither says."""
    tagged = frame if frame is not None else context
    format_name = frame.format.name if frame is not None else context.pix_fmt or ""
    data = side_data(frame) if frame is not None else {}
    full_range = "pc" if format_name.startswith("yuvj") else None
    return Colour.model_validate(
        {
            "primaries": PRIMARIES_BY_NUMBER.get(int(tagged.color_primaries)),
            "transfer": TRANSFERS_BY_NUMBER.get(int(tagged.color_trc)),
            "matrix": MATRICES_BY_NUMBER.get(int(tagged.colorspace)),
            "range": RANGES_BY_NUMBER.get(int(tagged.color_range), full_range),
            "mastering_display": mastering_display(data.get("MASTERING_DISPLAY_METADATA")),
            "max_cll": light_level(data.get("CONTENT_LIGHT_LEVEL")),
        }
    )


def mastering_display(data: bytes | None) -> MasteringDisplay | None:
    """From FFmpeg's structure; None unless it has both primaries and luminance."""
    if data is None or len(data) < _MASTERING.size:
        return None
    *numbers, has_primaries, has_luminance = _MASTERING.unpack_from(data)
    if not (has_primaries and has_luminance) or 0 in numbers[1::2]:
        return None
    values = [numerator / denominator for numerator, denominator in zip(numbers[::2], numbers[1::2], strict=True)]
    red, green, blue, white = (
        (round(x * 50_000), round(y * 50_000)) for x, y in zip(values[0:8:2], values[1:8:2], strict=True)
    )
    return MasteringDisplay(
        red=red,
        green=green,
        blue=blue,
        white=white,
        min_luminance=round(values[8] * 10_000),
        max_luminance=round(values[9] * 10_000),
    )


def light_level(data: bytes | None) -> tuple[int, int] | None:
    """MaxCLL and MaxFALL; None when both are unset."""
    if data is None or len(data) < _LIGHT_LEVEL.size:
        return None
    highest, average = _LIGHT_LEVEL.unpack_from(data)
    return (highest, average) if highest or average else None


def orientation(frame: Any) -> tuple[int, bool]:
    """Degrees clockwise that the picture is turned by, and whether it is flipped horizontally before that."""
    matrix = side_data(frame).get("DISPLAYMATRIX")
    if matrix is None or len(matrix) < _MATRIX.size:
        return 0, False
    a, b, _, c, d, *_ = _MATRIX.unpack_from(matrix)
    if c == d == 0:
        return 0, False
    # x' = ax + cy, y' = bx + dy: the second row is (-sin, cos) of the angle whether mirrored or not
    return round(math.degrees(math.atan2(-c, d)) / 90) * 90 % 360, a * d - b * c < 0


def picture_of(frame: Any, sample_aspect_ratio: Fraction) -> Picture:
    """A decoded frame as conversions see it; of one on a GPU, what its surface holds."""
    rotation, mirrored = orientation(frame)
    held = frame.sw_format or frame.format
    return Picture(
        width=frame.width,
        height=frame.height,
        pixel_format=held.name,
        bit_depth=held.components[0].bits,
        sample_aspect_ratio=sample_aspect_ratio,
        rotation=rotation,
        mirrored=mirrored,
        colour=colour_of(frame, None),
    )


def field_order(frames: Sequence[Any], context: Any) -> FieldOrder | None:
    """Frames decide whether it is interlaced, the header which field is first."""
    declared = FIELD_ORDERS.get(int(context.field_order))
    if not frames:
        return declared
    if not any(frame.interlaced_frame for frame in frames):
        return "progressive"
    if declared not in (None, "progressive"):
        return declared
    return FIRST_FIELD.get(context.codec.canonical_name, "tt")
