"""Decisions for one video rendition: size, timing, pixel format, colours, encoder."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from pipelines import encoders
from pipelines.asked.filters import PadFilter, asked
from pipelines.containers import CONTAINERS
from pipelines.devices import Capability
from pipelines.errors import DeviceUnsuitable, UnsupportedSpec
from pipelines.filters import Filter
from pipelines.hardware.encoders import SURFACES, driver_mode, encoder_options
from pipelines.metadata import labels
from pipelines.planning.burn_in import plan_burn_in
from pipelines.planning.colour import plan_colour
from pipelines.planning.conform import Canvas, Picture, conform
from pipelines.planning.finish import plan_finish
from pipelines.planning.framing import framed, framing_of
from pipelines.planning.placement import Site, misfit
from pipelines.planning.size import plan_size
from pipelines.planning.timing import plan_fields, plan_rate, stays_interlaced
from pipelines.planning.touches import plan_touches
from pipelines.rendition import Placement, VideoRendition
from pipelines.source import VideoInfo
from pipelines.spec import VIDEO_CODECS, Rung

DEEP_CODECS = ("hevc", "av1")
"""Codecs whose usual players take 10 bits: a deep source stays deep."""

NATURAL = Fraction(1)

SHAPED_CODECS = ("h264", "hevc")
"""Codecs whose bitstream says the sample aspect ratio."""


def plan_video(rung: Rung, source: VideoInfo, container: str, site: Site, pace: Fraction = NATURAL) -> VideoRendition:
    """The rendition of `rung`, on the GPU where the site has one for it. `pace`: of its output.

    UnsupportedSpec when this build or the encoder can't do it; DeviceUnsuitable when the GPU can't and the CPU may not.
    """
    codec = rung.codec or VIDEO_CODECS[container][0]
    encoder = encoders.SOFTWARE_ENCODERS[codec]
    own = site.cpu.encoder(encoder)
    refusal = None
    if site.is_gpu:
        made = _on_gpu(rung, source, container, codec, site, own, pace)
        if isinstance(made, VideoRendition):
            return made
        refusal = made
        if not site.cpu_encodes:
            raise DeviceUnsuitable(
                f"{site.device.id} can't encode track {source.index} as {codec}, and the CPU may not: {refusal}",
                stage="plan",
                device=site.device.id,
                codec=codec,
                refusals=[each.model_dump(mode="json") for each in site.refusals],
            )
    if own is None:
        raise UnsupportedSpec(f"this FFmpeg has no {encoder}", stage="plan", encoder=encoder)
    reasons = [f"{codec} by {encoder} in software" + ("" if rung.codec else f" ({container}'s usual codec)")]
    if refusal is not None:
        reasons.append(refusal)
    pixel_format = _pixel_format(rung, codec, encoder, own.pixel_formats, source, reasons)
    draft = _Draft(codec, own, pixel_format, pixel_format, pace)
    return _rendition(rung, source, container, draft, site, reasons)


def _on_gpu(
    rung: Rung, source: VideoInfo, container: str, codec: str, site: Site, own: Capability | None, pace: Fraction
) -> VideoRendition | str:
    """The rendition by the first of the device's encoders that can do it, or why none can."""
    offered = site.formats(codec) if own is None else own.pixel_formats
    about: list[str] = []
    pixel_format = _pixel_format(rung, codec, encoders.SOFTWARE_ENCODERS[codec], offered, source, about)
    bit_depth = 10 if "10" in pixel_format else 8
    option = f"hardware encode of {codec} ({bit_depth} bit)"
    tone_mapped = source.colour.is_hdr and bit_depth == 8
    refusal = ""
    for capability in site.encoders(codec, bit_depth, pixel_format, tone_mapped=tone_mapped):
        reasons = [f"{codec} by {capability.encoder} on the GPU" + ("" if rung.codec else f" ({container}'s usual)")]
        draft = _Draft(codec, capability, pixel_format, SURFACES[codec][pixel_format], pace)
        try:
            return _rendition(rung, source, container, draft, site, [*reasons, *about])
        except UnsupportedSpec as unsupported:
            refusal = site.refuse("encode", f"{option} by {capability.encoder}", unsupported.message)
    return refusal or site.refuse("encode", option, site.encode_refusal(codec, bit_depth, pixel_format))


@dataclass(frozen=True)
class _Draft:
    """What is settled of a rendition when its encoder is: `pixel_format` as the rung has it, `coded` as the encoder."""

    codec: str
    capability: Capability
    pixel_format: str
    coded: str
    pace: Fraction

    @property
    def encoder(self) -> str:
        assert self.capability.encoder is not None
        return self.capability.encoder

    @property
    def is_gpu(self) -> bool:
        return self.capability.api is not None


def _rendition(
    rung: Rung, source: VideoInfo, container: str, draft: _Draft, site: Site, reasons: list[str]
) -> VideoRendition:
    """UnsupportedSpec when the draft's encoder does not take such pictures, or has no such rate control."""
    codec, encoder = draft.codec, draft.encoder
    fields = plan_fields(rung, source, reasons)
    framing = framing_of(rung.filters, source, reasons, interlaced=stays_interlaced(source, fields))
    seen = framed(framing, source)
    picture = picture_from(seen)
    keeps_rotation = _keeps_rotation(rung, seen, container, reasons)
    keeps_shape = CONTAINERS[container].pixel_shape or codec in SHAPED_CODECS
    size = plan_size(rung, seen, keeps_rotation=keeps_rotation, keeps_shape=keeps_shape, reasons=reasons)
    width, height = _taken(size.width, size.height, draft, reasons)
    pad = asked(rung.filters, PadFilter)
    canvas = Canvas(
        width=width,
        height=height,
        pixel_format=draft.coded,
        sample_aspect_ratio=size.aspect,
        colour=plan_colour(picture, draft.pixel_format, reasons),
        keeps_rotation=keeps_rotation,
        inner=size.inner,
        bars="#000000" if pad is None else pad.colour,
    )
    rate, constant = plan_rate(rung, source, fields, draft.pace, reasons)
    gop = max(1, ceil(rate * Fraction(rung.gop_seconds).limit_denominator(1000)))
    options = _options(rung, draft, gop, canvas, reasons)
    crops = () if framing is None else framing.steps(source.width, source.height)
    touches = plan_touches(rung, draft.pixel_format, reasons)
    filters = (
        *fields,
        *crops,
        *conform(picture, canvas, touches),
        *plan_burn_in(rung, canvas, site, reasons),
        *plan_finish(rung, canvas, reasons),
    )
    return VideoRendition(
        stream=source.index,
        codec=codec,
        encoder=encoder,
        options=options,
        codec_tag="hvc1" if codec == "hevc" and container in ("mp4", "mov", "fmp4") else None,
        filters=filters,
        filter_placement=_filter_placement(source, filters, draft, canvas, site, reasons),
        placement="hardware" if draft.is_gpu else "software",
        width=width,
        height=height,
        pixel_format=draft.coded,
        sample_aspect_ratio=size.aspect,
        frame_rate=rate,
        constant_rate=constant,
        pace=draft.pace,
        gop_frames=gop,
        gop_seconds=rung.gop_seconds,
        colour=canvas.colour,
        keeps_rotation=keeps_rotation,
        rotation=source.rotation if keeps_rotation else 0,
        mirrored=source.mirrored and keeps_rotation,
        framing=framing,
        inner=size.inner,
        bars=canvas.bars,
        **labels(source, default=True),
        reason="; ".join(reasons),
    )


def _filter_placement(
    source: VideoInfo, filters: tuple[Filter, ...], draft: _Draft, canvas: Canvas, site: Site, reasons: list[str]
) -> Placement:
    """Filters go with the encoder; in memory where the GPU can't do all of them."""
    if not draft.is_gpu:
        return "software"
    refusal = site.filter_refusal(source, filters, f"{draft.codec} {canvas.width}×{canvas.height}")
    if refusal is None:
        reasons.append("filtered there too")
        return "hardware"
    reasons.append(f"filtered in software: {refusal}")
    return "software"


def _options(rung: Rung, draft: _Draft, gop: int, canvas: Canvas, reasons: list[str]) -> dict[str, str]:
    rate_control = rung.rate_control or encoders.default_rate_control(draft.codec)
    if rung.rate_control is None:
        reasons.append(f"crf {encoders.DEFAULT_CRF[draft.codec]:g}, the usual for {draft.codec}")
    if draft.is_gpu:
        modes = draft.capability.rate_controls
        ahead = draft.capability.look_ahead
        options = encoder_options(draft.encoder, rate_control, rung.speed, gop, canvas.colour, modes, ahead)
        reasons.append(f"{rate_control.mode} as {driver_mode(draft.encoder, rate_control, modes)}")
        return options
    return encoders.merge(
        encoders.SPEED_OPTIONS[draft.encoder](rung.speed),
        encoders.rate_options(draft.encoder, rate_control),
        encoders.STREAM_OPTIONS[draft.encoder](gop, canvas.colour),
        encoders.size_options(draft.encoder, canvas.width),
    )


def picture_from(source: VideoInfo) -> Picture:
    return Picture(
        width=source.width,
        height=source.height,
        pixel_format=source.pixel_format or "yuv420p",
        bit_depth=source.bit_depth,
        sample_aspect_ratio=source.sample_aspect_ratio,
        rotation=source.rotation,
        mirrored=source.mirrored,
        colour=source.colour,
    )


def _pixel_format(
    rung: Rung, codec: str, encoder: str, offered: tuple[str, ...], source: VideoInfo, reasons: list[str]
) -> str:
    """By the rung's wish and the source's depth: the same wherever it is encoded."""
    if rung.pixel_format is not None:
        if rung.pixel_format not in offered:
            raise UnsupportedSpec(
                f"{encoder} does not take {rung.pixel_format}; it takes {', '.join(offered)}",
                stage="plan",
                encoder=encoder,
            )
        if rung.pixel_format != "yuv420p":
            reasons.append(f"{rung.pixel_format} as asked")
        return rung.pixel_format
    if source.bit_depth > 8 and codec in DEEP_CODECS and "yuv420p10le" in offered:
        reasons.append(f"{source.bit_depth}-bit source kept at 10 bits")
        return "yuv420p10le"
    if source.pixel_format not in (None, "yuv420p", "yuvj420p"):
        reasons.append(f"{source.pixel_format} to yuv420p, which every player takes")
    return "yuv420p"


def _keeps_rotation(rung: Rung, source: VideoInfo, container: str, reasons: list[str]) -> bool:
    if not (source.rotation or source.mirrored):
        return False
    turns = [each.type for each in rung.filters if each.type in ("rotate", "mirror", "pad", "burn_in", "overlay")]
    turn = f"{source.rotation}° clockwise" + (", mirrored" if source.mirrored else "")
    if rung.rotation == "keep" and turns:
        reasons.append(f"turned {turn}: {' and '.join(turns)} are for the picture as it is displayed")
        return False
    if rung.rotation == "keep":
        if CONTAINERS[container].display_matrix:
            reasons.append(f"left as coded, to be turned by players ({turn})")
            return True
        reasons.append(f"turned {turn}: {container} can't say how players turn a picture")
        return False
    reasons.append(f"turned {turn}")
    return False


def _taken(width: int, height: int, draft: _Draft, reasons: list[str]) -> tuple[int, int]:
    """The size within the limits: larger ones are refused, smaller ones padded (but left to the CPU by a GPU)."""
    capability = draft.capability
    if draft.is_gpu:
        if (refusal := misfit(capability, width, height)) is not None:
            raise UnsupportedSpec(refusal, stage="plan", encoder=capability.encoder)
        return width, height
    smallest, largest = capability.min_size or (2, 2), capability.max_size
    if largest is not None and (width > largest[0] or height > largest[1]):
        raise UnsupportedSpec(
            f"{capability.encoder} takes {largest[0]}×{largest[1]} at most, this is {width}×{height}",
            stage="plan",
            encoder=capability.encoder,
        )
    padded = max(width, smallest[0]), max(height, smallest[1])
    if padded != (width, height):
        reasons.append(f"put into {padded[0]}×{padded[1]}, the smallest that {capability.encoder} takes")
    return padded
