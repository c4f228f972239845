"""Limits of the operator on what an input may ask of the machine: checked before work and while it runs."""

from __future__ import annotations

from pydantic import Field

from pipelines.source import Facts


class Limits(Facts):
    max_pixels: int = Field(8192 * 8192, description="coded pixels of one frame")
    max_streams: int = Field(64, description="tracks in a file")
    max_duration_seconds: float = Field(24 * 3600.0, description="duration of an input")
    max_frame_rate: float = Field(1000.0, description="claimed frames per second")
    max_work: float = Field(1e14, description="frames × pixels that one job decodes")
    max_output_bytes: int = Field(1 << 40, description="bytes that one job writes")
