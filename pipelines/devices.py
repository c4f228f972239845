"""Devices that can run a pipeline, and what they can do."""

from __future__ import annotations

from typing import Literal

import av

from pipelines.encoders import SOFTWARE_ENCODERS, software_rate_controls
from pipelines.source import Facts

SUBTITLE_ENCODERS = ("mov_text", "subrip", "webvtt", "ass")

Direction = Literal["decode", "encode"]


class Capability(Facts):
    """One thing a device does. Sizes are coded pixels; None means no limit known."""

    direction: Direction
    codec: str
    encoder: str | None = None
    """FFmpeg's encoder that does it."""
    bit_depth: int = 8
    rate_controls: tuple[str, ...] = ()
    min_size: tuple[int, int] | None = None
    max_size: tuple[int, int] | None = None


class Device(Facts):
    """`kind` software: the CPU. `slots`: tasks that may run on it at once."""

    id: str
    kind: Literal["software", "vaapi", "qsv"]
    path: str | None = None
    name: str
    capabilities: tuple[Capability, ...] = ()
    slots: int = 1


def software_device(slots: int) -> Device:
    """The CPU with the encoders of the FFmpeg that PyAV was built with."""
    capabilities = tuple(
        Capability(direction="encode", codec=codec, encoder=name, rate_controls=software_rate_controls(name))
        for codec, name in (*SOFTWARE_ENCODERS.items(), *((name, name) for name in SUBTITLE_ENCODERS))
        if _has_encoder(name)
    )
    return Device(id="software", kind="software", name="CPU (software codecs)", capabilities=capabilities, slots=slots)


def _has_encoder(name: str) -> bool:
    try:
        return av.Codec(name, "w").is_encoder
    except av.codec.codec.UnknownCodecError:
        return False
