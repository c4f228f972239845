"""Decisions on what is done to pictures once they have their size and colours: denoise, sharpen. Pure."""

from __future__ import annotations

from pipelines.asked.filters import DenoiseFilter, SharpenFilter, asked
from pipelines.asked.rungs import Rung
from pipelines.filters import Denoise, Filter, Sharpen


def plan_touches(rung: Rung, pixel_format: str, reasons: list[str]) -> tuple[Filter, ...]:
    """In order. They work on scaled pictures: the smaller, the faster, and in a format that is known."""
    steps: list[Filter] = []
    if (denoise := asked(rung.filters, DenoiseFilter)) is not None:
        steps.append(Denoise(level=denoise.level, deep="10" in pixel_format))
        reasons.append(f"denoised ({denoise.level})")
    if (sharpen := asked(rung.filters, SharpenFilter)) is not None:
        steps.append(Sharpen(level=sharpen.level, deep="10" in pixel_format))
        reasons.append(f"sharpened ({sharpen.level})")
    return tuple(steps)
