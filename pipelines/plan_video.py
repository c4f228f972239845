"""Decisions for one video rendition: size, timing, pixel format, colours, encoder."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from pipelines import encoders, ladder
from pipelines.devices import Capability, Device
from pipelines.errors import UnsupportedSpec
from pipelines.filters import (
    Crop,
    Deinterlace,
    Filter,
    Flatten,
    Scale,
    ToneMap,
    Transpose,
)
from pipelines.rendition import VideoRendition
from pipelines.source import Colour, VideoInfo
from pipelines.spec import VIDEO_CODECS, Rung

ASSUMED_RATE = Fraction(25)
"""Rate that GOP lengths are counted with when a source does not tell its own."""

DEEP_CODECS = ("hevc", "av1")
"""Codecs whose usual players take 10 bits: a deep source stays deep."""


def plan_video(rung: Rung, source: VideoInfo, container: str, device: Device) -> VideoRendition:
    """The rendition of `rung`; UnsupportedSpec when this build or the encoder can't do it."""
    codec = rung.codec or VIDEO_CODECS[container][0]
    encoder = encoders.SOFTWARE_ENCODERS[codec]
    capability = device.encoder(encoder)
    if capability is None:
        raise UnsupportedSpec(f"this FFmpeg has no {encoder}", stage="plan", encoder=encoder)
    reasons = [f"{codec} by {encoder} in software" + ("" if rung.codec else f" ({container}'s usual codec)")]

    pixel_format = _pixel_format(rung, codec, capability, source, reasons)
    colour, tone_map = _colour(source, pixel_format, reasons)
    size, turned = _size(rung, source, reasons)
    rate = rung.frame_rate or source.frame_rate or ASSUMED_RATE
    if source.frame_rate is None and rung.frame_rate is None:
        reasons.append("source rate unknown: source timing is kept, GOP counted at 25 fps")

    filters: list[Filter] = []
    if source.field_order not in (None, "progressive"):
        first: dict[str | None, str] = {"tt": "top", "bt": "top", "bb": "bottom", "tb": "bottom"}
        filters.append(Deinterlace(field_first=first.get(source.field_order, "auto")))
        reasons.append(f"interlaced source ({source.field_order}): deinterlaced, one frame per frame")
    if rung.frame_rate is not None:
        reasons.append(f"constant {float(rate):.6g} fps as asked")
    filters += _picture_filters(source, size, pixel_format, colour, tone_map)

    turn = source.rotation in (90, 270)
    width, height = (size.height, size.width) if turn else (size.width, size.height)
    sar = size.sample_aspect_ratio
    if turn and sar != 1:
        sar = 1 / sar
    if turned or source.rotation or source.mirrored:
        reasons.append(f"turned {source.rotation}° clockwise" + (" and mirrored" if source.mirrored else ""))

    rate_control = rung.rate_control or encoders.default_rate_control(codec)
    if rung.rate_control is None:
        reasons.append(f"crf {encoders.DEFAULT_CRF[codec]:g}, the usual for {codec}")
    gop = max(1, ceil(rate * Fraction(rung.gop_seconds).limit_denominator(1000)))
    options = encoders.merge(
        encoders.SPEED_OPTIONS[encoder](rung.speed),
        encoders.rate_options(encoder, rate_control),
        encoders.STREAM_OPTIONS[encoder](gop, colour),
    )
    return VideoRendition(
        stream=source.index,
        codec=codec,
        encoder=encoder,
        options=options,
        codec_tag="hvc1" if codec == "hevc" and container in ("mp4", "mov") else None,
        filters=tuple(filters),
        placement="software",
        width=width,
        height=height,
        pixel_format=pixel_format,
        sample_aspect_ratio=sar,
        frame_rate=rate,
        constant_rate=rung.frame_rate is not None,
        gop_frames=gop,
        gop_seconds=rung.gop_seconds,
        colour=colour,
        language=source.language,
        title=source.title,
        default=True,
        reason="; ".join(reasons),
    )


def _pixel_format(rung: Rung, codec: str, capability: Capability, source: VideoInfo, reasons: list[str]) -> str:
    encoder, offered = capability.encoder, capability.pixel_formats
    if rung.pixel_format is not None:
        if rung.pixel_format not in offered:
            raise UnsupportedSpec(
                f"{encoder} does not take {rung.pixel_format}; it takes {', '.join(offered)}",
                stage="plan",
                encoder=encoder,
            )
        return rung.pixel_format
    if source.bit_depth > 8 and codec in DEEP_CODECS and "yuv420p10le" in offered:
        reasons.append(f"{source.bit_depth}-bit source kept at 10 bits")
        return "yuv420p10le"
    if source.pixel_format not in (None, "yuv420p", "yuvj420p"):
        reasons.append(f"{source.pixel_format} to yuv420p, which every player takes")
    return "yuv420p"


def guess_matrix(width: int, height: int) -> str:
    """The matrix players assume where nothing is said: BT.709 for HD, BT.601 below (625 lines: its PAL twin)."""
    if width >= 1280 or height > 576:
        return "bt709"
    return "bt470bg" if height in (576, 288) else "smpte170m"


def is_rgb(pixel_format: str | None) -> bool:
    return (pixel_format or "").startswith(("rgb", "bgr", "gbr", "argb", "abgr", "0rgb", "0bgr", "pal8", "xyz"))


def has_alpha(pixel_format: str | None) -> bool:
    name = pixel_format or ""
    return name.startswith(("yuva", "rgba", "bgra", "argb", "abgr", "gbrap", "ya8", "ya16", "pal8", "vuya", "ayuv"))


def _colour(source: VideoInfo, pixel_format: str, reasons: list[str]) -> tuple[Colour, bool]:
    """The output's colour tags, and whether the picture must be tone-mapped to get there."""
    tags = source.colour
    deep = "10" in pixel_format
    if tags.is_hdr and not deep:
        reasons.append(f"HDR ({tags.transfer}) tone-mapped to BT.709: 8 bits can't carry it")
        return Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv"), True
    if is_rgb(source.pixel_format):
        reasons.append("RGB to BT.709, limited range")
        transfer = tags.transfer if tags.transfer not in (None, "iec61966-2-1") else "bt709"
        return Colour(primaries=tags.primaries or "bt709", transfer=transfer, matrix="bt709", range="tv"), False
    matrix = tags.matrix
    if matrix is None or matrix == "gbr":
        matrix = guess_matrix(source.width, source.height)
        reasons.append(f"matrix not said: taken as {matrix} by its size")
    if tags.range == "pc":
        reasons.append("full range scaled to limited")
    standard: dict[str, tuple[str | None, str | None]] = {
        "bt709": ("bt709", "bt709"),
        "bt470bg": ("bt470bg", "bt709"),
        "smpte170m": ("smpte170m", "bt709"),
    }
    usual = standard.get(matrix, (None, None))
    return (
        Colour(
            primaries=tags.primaries or usual[0],
            transfer=tags.transfer or usual[1],
            matrix=matrix,
            range="tv",
            mastering_display=tags.mastering_display if deep and tags.is_hdr else None,
            max_cll=tags.max_cll if deep and tags.is_hdr else None,
        ),
        False,
    )


class _Size:
    """A size before turning, with its sample aspect ratio."""

    def __init__(self, width: int, height: int, sample_aspect_ratio: Fraction, crop: bool = False) -> None:
        self.width, self.height, self.sample_aspect_ratio, self.crop = width, height, sample_aspect_ratio, crop


def _size(rung: Rung, source: VideoInfo, reasons: list[str]) -> tuple[_Size, bool]:
    """The coded size before turning; whether it is turned a quarter."""
    turned = source.rotation in (90, 270)
    display = source.display_size
    fitted = ladder.fit(display, (rung.width, rung.height), upscale=rung.upscale)
    asked = " × ".join(str(side or "any") for side in (rung.width, rung.height))
    if fitted is None:
        width, height = source.width - source.width % 2, source.height - source.height % 2
        crop = (width, height) != (source.width, source.height)
        if crop:
            reasons.append(f"odd size {source.width}×{source.height} cropped to {width}×{height}")
        if rung.width or rung.height:
            reasons.append(f"not scaled: the source is within {asked}")
        return _Size(max(2, width), max(2, height), source.sample_aspect_ratio, crop), turned
    reasons.append(f"scaled to {fitted[0]}×{fitted[1]} to fit {asked}")
    width, height = (fitted[1], fitted[0]) if turned else fitted
    return _Size(width, height, Fraction(1)), turned


def _picture_filters(source: VideoInfo, size: _Size, pixel_format: str, colour: Colour, tone_map: bool) -> list[Filter]:
    filters: list[Filter] = []
    if has_alpha(source.pixel_format):
        filters.append(Flatten(bit_depth=source.bit_depth))
    if size.crop:
        filters.append(Crop(width=size.width, height=size.height))
    if tone_map:
        transfer = source.colour.transfer
        filters.append(ToneMap(width=size.width, height=size.height, pixel_format=pixel_format, transfer=transfer))
    else:
        rgb = is_rgb(source.pixel_format)
        filters.append(
            Scale(
                width=size.width,
                height=size.height,
                pixel_format=pixel_format,
                in_matrix=None if rgb else colour.matrix,
                out_matrix=colour.matrix,
                in_range="pc" if rgb else source.colour.range or "tv",
                out_range="tv",
            )
        )
    if source.rotation or source.mirrored:
        filters.append(Transpose(degrees=source.rotation, mirror=source.mirrored))
    return filters
