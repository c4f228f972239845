"""Planned filters as FFmpeg's filters on the GPU (VAAPI), and the steps that move pictures there and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pipelines.filters import (
    Crop,
    Deinterlace,
    Denoise,
    Filter,
    Pad,
    Range,
    Retag,
    Scale,
    Sharpen,
    ToneMap,
    Transpose,
)
from pipelines.hardware.encoders import SURFACES

Step = tuple[str, dict[str, str]]
"""A filter of FFmpeg and its options."""

SURFACE_OF: dict[str, str] = {
    **{planar: surface for table in SURFACES.values() for planar, surface in table.items()},
    **{surface: surface for table in SURFACES.values() for surface in table.values()},
}
"""The surface that holds a format of memory without loss."""


def surface_for(pixel_format: str, bit_depth: int) -> str:
    """The surface that a decoded picture is uploaded as: 4:2:0 of its depth where none holds it without loss."""
    return SURFACE_OF.get(pixel_format, "nv12" if bit_depth <= 8 else "p010le")


def hardware_names(step: Filter) -> tuple[str, ...] | None:
    """FFmpeg's filters that do `step` on the GPU; None where the GPU has none."""
    row = HARDWARE_STEPS.get(type(step))
    return None if row is None or not _is_possible(step) else tuple(name for name, _ in row(step) if "_vaapi" in name)


def _is_possible(step: Filter) -> bool:
    if isinstance(step, Scale):
        # without a matrix it is RGB, which is converted in software
        return step.in_matrix is not None and step.pixel_format in SURFACE_OF
    if isinstance(step, ToneMap):
        # Intel's tone mapping knows PQ alone
        return step.transfer == "smpte2084" and step.pixel_format in SURFACE_OF
    return True


def needs_mastering_display(step: Filter) -> bool:
    """Whether the filter fails on pictures that don't say what they were mastered on."""
    return isinstance(step, ToneMap)


def _deinterlace(step: Deinterlace) -> list[Step]:
    order = {"top": "tff", "bottom": "bff", "auto": "auto"}[step.field_first]
    # the best method that the driver has; a graph gives it the neighbours that it needs at both ends
    return [
        ("setparams", {"field_mode": order}),
        ("deinterlace_vaapi", {"rate": "field" if step.bob else "frame", "auto": "0"}),
    ]


def said(matrix: str | None, range_: Range | None, **more: str | None) -> list[Step]:
    """What the picture is, said to the driver: it would guess by the size where nothing is said."""
    options = {"colorspace": matrix, "range": range_, **more}
    known = {key: value for key, value in options.items() if value is not None}
    return [("setparams", known)] if known else []


def _crop(step: Crop) -> list[Step]:
    # on the GPU a crop only marks what to take; a filter that follows takes it
    place = {"w": str(step.width), "h": str(step.height), "x": str(step.x), "y": str(step.y), "exact": "1"}
    return [("crop", place), ("scale_vaapi", {"w": str(step.width), "h": str(step.height)})]


def _scale(step: Scale) -> list[Step]:
    options = {"w": str(step.width), "h": str(step.height), "format": SURFACE_OF[step.pixel_format]}
    if step.out_matrix is not None and step.out_matrix != step.in_matrix:
        options["out_color_matrix"] = step.out_matrix
    if step.out_range is not None and step.out_range != step.in_range:
        options["out_range"] = step.out_range
    return [*said(step.in_matrix, step.in_range), ("scale_vaapi", options)]


def _tone_map(step: ToneMap) -> list[Step]:
    surface = SURFACE_OF[step.pixel_format]
    return [
        *said(step.in_matrix, step.in_range, color_primaries=step.primaries, color_trc=step.transfer),
        ("tonemap_vaapi", {"format": surface, "p": "bt709", "t": "bt709", "m": "bt709"}),
        ("scale_vaapi", {"w": str(step.width), "h": str(step.height), "format": surface}),
    ]


_TURNS: dict[tuple[bool, int], str] = {
    (False, 90): "clock", (False, 180): "reversal", (False, 270): "cclock",
    (True, 0): "hflip", (True, 90): "clock_flip", (True, 180): "vflip", (True, 270): "cclock_flip",
}  # fmt: skip
"""By mirror and degrees: first flipped horizontally, then turned clockwise."""


def _transpose(step: Transpose) -> list[Step]:
    turn = _TURNS.get((step.mirror, step.degrees))
    return [] if turn is None else [("transpose_vaapi", {"dir": turn})]


def _pad(step: Pad) -> list[Step]:
    # chroma has half the samples: an odd offset would be another picture than in software
    middle = {"x": "2*trunc((ow-iw)/4)", "y": "2*trunc((oh-ih)/4)"}
    return [("pad_vaapi", {"w": str(step.width), "h": str(step.height), **middle, "color": step.colour})]


def _retag(step: Retag) -> list[Step]:
    options = {"range": step.range, "field_mode": "prog" if step.progressive else None}
    return [("setparams", {key: value for key, value in options.items() if value is not None})]


DENOISE = {"light": "12", "medium": "28", "strong": "50"}
"""Of 64."""
SHARPNESS = {"light": "40", "medium": "50", "strong": "60"}
"""Of 64; FFmpeg's own is 44."""


HARDWARE_STEPS: dict[type[Any], Callable[[Any], list[Step]]] = {
    Deinterlace: _deinterlace,
    Crop: _crop,
    Scale: _scale,
    ToneMap: _tone_map,
    Transpose: _transpose,
    Denoise: lambda step: [("denoise_vaapi", {"denoise": DENOISE[step.level]})],
    Sharpen: lambda step: [("sharpness_vaapi", {"sharpness": SHARPNESS[step.level]})],
    Pad: _pad,
    Retag: _retag,
}


def hardware_steps(filters: Sequence[Filter]) -> list[Step]:
    """Steps for pictures that are on the GPU; `hardware_names` has said of each filter that there are some."""
    return [step for planned in filters for step in HARDWARE_STEPS[type(planned)](planned)]


def upload(surface: str, range_: Range | None) -> list[Step]:
    """From memory to a surface, the levels left as they are."""
    levels = {} if range_ is None else {"in_range": range_, "out_range": range_}
    return [("scale", {"flags": "bicubic", **levels}), ("format", {"pix_fmts": surface}), ("hwupload", {})]


def download(surface: str) -> list[Step]:
    """From a surface to memory, in the surface's own format."""
    return [("hwdownload", {}), ("format", {"pix_fmts": surface})]


TO_QSV: tuple[Step, ...] = (("hwmap", {"derive_device": "qsv"}), ("format", {"pix_fmts": "qsv"}))
"""A VAAPI surface as one of QSV's, without a copy."""
