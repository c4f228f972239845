"""Devices that can run a pipeline, and what they can do."""

from __future__ import annotations

from typing import Literal

import av

from pipelines.encoders import MAX_SIZES, MIN_SIDES, PIXEL_FORMATS, SOFTWARE_ENCODERS, software_rate_controls
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
    pixel_formats: tuple[str, ...] = ()
    """Formats that an encoder takes as this build of FFmpeg has it."""
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

    def encoder(self, name: str) -> Capability | None:
        """What the encoder called `name` can do here; None when there is none."""
        return next((c for c in self.capabilities if c.direction == "encode" and c.encoder == name), None)


def software_device(slots: int) -> Device:
    """The CPU with the encoders of the FFmpeg that PyAV was built with."""
    named = (*SOFTWARE_ENCODERS.items(), *((name, name) for name in SUBTITLE_ENCODERS))
    found = (_software_encoder(codec, name) for codec, name in named)
    capabilities = tuple(capability for capability in found if capability is not None)
    return Device(id="software", kind="software", name="CPU (software codecs)", capabilities=capabilities, slots=slots)


def _software_encoder(codec: str, name: str) -> Capability | None:
    try:
        encoder = av.Codec(name, "w")
    except av.codec.codec.UnknownCodecError:
        return None
    formats = {format.name for format in encoder.video_formats or ()}
    offered = tuple(format for format in PIXEL_FORMATS.get(name, ()) if format in formats)
    return Capability(
        direction="encode",
        codec=codec,
        encoder=name,
        bit_depth=10 if any("10" in format for format in offered) else 8,
        rate_controls=software_rate_controls(name),
        pixel_formats=offered,
        min_size=(MIN_SIDES[name], MIN_SIDES[name]) if name in MIN_SIDES else None,
        max_size=MAX_SIZES.get(name),
    )
