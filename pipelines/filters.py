"""Filters as data. A chain of these is part of a plan; `graph` turns it into an FFmpeg graph at the last moment."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.source import Facts, Ratio


class Scale(Facts):
    """Resize (and convert the pixel format on the way)."""

    kind: Literal["scale"] = "scale"
    width: int
    height: int
    in_matrix: str | None = None
    out_matrix: str | None = None
    in_range: Literal["tv", "pc"] | None = None
    out_range: Literal["tv", "pc"] | None = None


class FrameRateFilter(Facts):
    """Constant frame rate by dropping and repeating."""

    kind: Literal["fps"] = "fps"
    rate: Ratio


class Format(Facts):
    kind: Literal["format"] = "format"
    pixel_format: str


class SetSar(Facts):
    kind: Literal["setsar"] = "setsar"
    ratio: Ratio


class Resample(Facts):
    """To the encoder's sample rate, layout and format; gaps are filled and overlaps trimmed: sound stays in time."""

    kind: Literal["resample"] = "resample"
    sample_rate: int
    layout: str
    sample_format: str


Filter = Annotated[Scale | FrameRateFilter | Format | SetSar | Resample, Field(discriminator="kind")]
