"""Devices that can run a pipeline, and what they can do."""

from __future__ import annotations

from typing import Literal

import av
from av.filter import filters_available

from pipelines.encoders import MAX_SIZES, MIN_SIDES, PIXEL_FORMATS, SOFTWARE_ENCODERS, software_rate_controls
from pipelines.estimates.speeds import Speed as CoderSpeed
from pipelines.pictures.layout import PICTURE_ENCODERS
from pipelines.source import Facts

SUBTITLE_ENCODERS = ("mov_text", "subrip", "webvtt", "ass")

RARE_FILTERS = ("subtitles",)
"""Filters in memory that plans use and that builds of FFmpeg may lack."""

Direction = Literal["decode", "encode"]
Stage = Literal["decode", "filter", "encode"]
HardwareApi = Literal["vaapi", "qsv"]


class Capability(Facts):
    """One thing a device does. Sizes are coded pixels; None means no limit known."""

    direction: Direction
    codec: str
    encoder: str | None = None
    """FFmpeg's encoder that does it."""
    api: HardwareApi | None = None
    """None: the CPU."""
    bit_depth: int = 8
    rate_controls: tuple[str, ...] = ()
    look_ahead: tuple[str, ...] = ()
    """The rate controls in which a QSV encoder was seen to look ahead."""
    pixel_formats: tuple[str, ...] = ()
    """Formats in memory that an encoder takes as this build of FFmpeg has it, or that a decoder's streams may have."""
    min_size: tuple[int, int] | None = None
    max_size: tuple[int, int] | None = None


class Device(Facts):
    """`kind` software: the CPU. `slots`: tasks that may run on it at once.

    A GPU is one device whatever the ways to use it: its capabilities say through which API each was measured.
    """

    id: str
    """`software`, or what stays the same between starts: `pci-0000:03:00.0`, `display-:7`."""
    kind: Literal["software", "vaapi", "qsv"]
    path: str | None = None
    """What VAAPI opens: a render node, or an X display such as `:7`."""
    name: str
    capabilities: tuple[Capability, ...] = ()
    filters: tuple[str, ...] = ()
    """FFmpeg's filters that were seen to work on the GPU's own frames, such as `scale_vaapi`; of the CPU those that
    only some builds have."""
    slots: int = 1
    pci_address: str | None = None
    kernel_driver: str | None = None
    driver: str | None = None
    """The VA driver's own words: name and version."""
    generation: str | None = None
    engines: dict[str, int] = {}
    """How many of each kind the kernel lists, such as `{"video": 2, "video-enhance": 2}`."""
    problem: str | None = None
    """Why it can't be used, and what to do about it."""
    notes: tuple[str, ...] = ()
    """What is less than it could be."""
    speeds: tuple[CoderSpeed, ...] = ()
    """How fast it is, by a trial and by the attempts that it has run."""

    def encoder(self, name: str) -> Capability | None:
        """What the encoder called `name` can do here; None when there is none."""
        return next((c for c in self.capabilities if c.direction == "encode" and c.encoder == name), None)

    def decoder(self, codec: str, pixel_format: str) -> Capability | None:
        """What the device can do with streams of this kind; None when it can't decode them."""
        return next(
            (
                c
                for c in self.capabilities
                if c.direction == "decode" and c.codec == codec and pixel_format in c.pixel_formats
            ),
            None,
        )


class Verdict(Facts):
    """What a device failed at: it is not planned there again for as long as the verdict stands."""

    device: str
    stage: Stage
    codec: str
    """The stage's codec: the source's for decode, the output's for encode, the source's for filter."""
    profile: str | None = None
    bit_depth: int = 8
    api: HardwareApi | None = None
    """Of an encoder; None: through whatever API."""
    reason: str


def software_device(slots: int) -> Device:
    """The CPU with the encoders of the FFmpeg that PyAV was built with."""
    named = (*SOFTWARE_ENCODERS.items(), *((name, name) for name in (*SUBTITLE_ENCODERS, *PICTURE_ENCODERS)))
    found = (_software_encoder(codec, name) for codec, name in named)
    capabilities = tuple(capability for capability in found if capability is not None)
    return Device(
        id="software",
        kind="software",
        name="CPU (software codecs)",
        capabilities=capabilities,
        filters=tuple(name for name in RARE_FILTERS if name in filters_available),
        slots=slots,
    )


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
