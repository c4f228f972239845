"""Decisions for one video rendition: size, timing, pixel format, colours, encoder."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Literal

from pipelines import encoders, ladder
from pipelines.colours import is_full_unsaid, is_rgb
from pipelines.conform import Canvas, Picture, conform, picture_matrix, picture_range
from pipelines.containers import CONTAINERS
from pipelines.devices import Capability, Device
from pipelines.errors import UnsupportedSpec
from pipelines.filters import Deinterlace, Filter, Retag
from pipelines.metadata import labels
from pipelines.rendition import VideoRendition
from pipelines.source import Colour, VideoInfo
from pipelines.spec import VIDEO_CODECS, Rung

ASSUMED_RATE = Fraction(25)
"""Rate that GOP lengths are counted with when a source does not tell its own."""

DEEP_CODECS = ("hevc", "av1")
"""Codecs whose usual players take 10 bits: a deep source stays deep."""

SHAPED_CODECS = ("h264", "hevc")
"""Codecs whose bitstream says the sample aspect ratio."""

SDR_COMPANIONS: dict[str, tuple[str, str]] = {
    "bt709": ("bt709", "bt709"),
    "bt470bg": ("bt470bg", "smpte170m"),
    "smpte170m": ("smpte170m", "smpte170m"),
}
"""Primaries and transfer that go with a matrix, where the source does not say."""


def plan_video(rung: Rung, source: VideoInfo, container: str, device: Device) -> VideoRendition:
    """The rendition of `rung`; UnsupportedSpec when this build or the encoder can't do it."""
    codec = rung.codec or VIDEO_CODECS[container][0]
    encoder = encoders.SOFTWARE_ENCODERS[codec]
    capability = device.encoder(encoder)
    if capability is None:
        raise UnsupportedSpec(f"this FFmpeg has no {encoder}", stage="plan", encoder=encoder)
    reasons = [f"{codec} by {encoder} in software" + ("" if rung.codec else f" ({container}'s usual codec)")]

    picture = _picture(source)
    pixel_format = _pixel_format(rung, codec, capability, source, reasons)
    keeps_rotation = _keeps_rotation(rung, source, container, reasons)
    keeps_shape = CONTAINERS[container].pixel_shape or codec in SHAPED_CODECS
    width, height, aspect = _size(rung, source, capability, keeps_rotation, keeps_shape, reasons)
    canvas = Canvas(
        width=width,
        height=height,
        pixel_format=pixel_format,
        sample_aspect_ratio=aspect,
        colour=_colour(picture, pixel_format, reasons),
        keeps_rotation=keeps_rotation,
    )
    fields = _fields(rung, source, reasons)
    rate = _rate(rung, source, fields, reasons)

    rate_control = rung.rate_control or encoders.default_rate_control(codec)
    if rung.rate_control is None:
        reasons.append(f"crf {encoders.DEFAULT_CRF[codec]:g}, the usual for {codec}")
    gop = max(1, ceil(rate * Fraction(rung.gop_seconds).limit_denominator(1000)))
    options = encoders.merge(
        encoders.SPEED_OPTIONS[encoder](rung.speed),
        encoders.rate_options(encoder, rate_control),
        encoders.STREAM_OPTIONS[encoder](gop, canvas.colour),
    )
    return VideoRendition(
        stream=source.index,
        codec=codec,
        encoder=encoder,
        options=options,
        codec_tag="hvc1" if codec == "hevc" and container in ("mp4", "mov") else None,
        filters=(*fields, *conform(picture, canvas)),
        placement="software",
        width=width,
        height=height,
        pixel_format=pixel_format,
        sample_aspect_ratio=aspect,
        frame_rate=rate,
        constant_rate=rung.frame_rate is not None,
        gop_frames=gop,
        gop_seconds=rung.gop_seconds,
        colour=canvas.colour,
        keeps_rotation=keeps_rotation,
        rotation=source.rotation if keeps_rotation else 0,
        mirrored=source.mirrored and keeps_rotation,
        **labels(source, default=True),
        reason="; ".join(reasons),
    )


def _picture(source: VideoInfo) -> Picture:
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


def _pixel_format(rung: Rung, codec: str, capability: Capability, source: VideoInfo, reasons: list[str]) -> str:
    encoder, offered = capability.encoder, capability.pixel_formats
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
    turn = f"{source.rotation}° clockwise" + (", mirrored" if source.mirrored else "")
    if rung.rotation == "keep":
        if CONTAINERS[container].display_matrix:
            reasons.append(f"left as coded, to be turned by players ({turn})")
            return True
        reasons.append(f"turned {turn}: {container} can't say how players turn a picture")
        return False
    reasons.append(f"turned {turn}")
    return False


def _size(
    rung: Rung,
    source: VideoInfo,
    capability: Capability,
    keeps_rotation: bool,
    keeps_shape: bool,
    reasons: list[str],
) -> tuple[int, int, Fraction]:
    """Coded width, height and sample aspect ratio of the rendition."""
    quarter = source.rotation in (90, 270)
    fitted = ladder.fit(source.display_size, (rung.width, rung.height), upscale=rung.upscale)
    asked = " × ".join(str(side or "any") for side in (rung.width, rung.height))
    if fitted is None:
        width, height, aspect = source.width, source.height, source.sample_aspect_ratio
        if quarter and not keeps_rotation:
            width, height, aspect = height, width, 1 / aspect
        if aspect != 1 and not keeps_shape:
            if aspect > 1:
                width = round(width * aspect)
            else:
                height = round(height / aspect)
            width, height, aspect = width + width % 2, height + height % 2, Fraction(1)
            reasons.append(f"pixels made square ({width}×{height}): this container would not say their shape")
        if width % 2 or height % 2:
            reasons.append(f"odd size {width}×{height} cut to even")
        width, height = (max(2, side - side % 2) for side in (width, height))
        if rung.width or rung.height:
            reasons.append(f"not scaled: the source is within {asked}")
    else:
        width, height = reversed(fitted) if quarter and keeps_rotation else fitted
        aspect = Fraction(1)
        reasons.append(f"scaled to {fitted[0]}×{fitted[1]} to fit {asked}")
    return *_taken(width, height, capability, reasons), aspect


def _taken(width: int, height: int, capability: Capability, reasons: list[str]) -> tuple[int, int]:
    """The size within the encoder's limits: smaller ones are padded, larger ones refused."""
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


def _colour(picture: Picture, pixel_format: str, reasons: list[str]) -> Colour:
    """The output's colour tags: the source's, said where it was silent, in limited range."""
    tags = picture.colour
    deep = "10" in pixel_format
    if tags.is_hdr and not deep:
        reasons.append(f"HDR ({tags.transfer}) tone-mapped to BT.709: 8 bits can't carry it")
        return Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv")
    mastering = tags.mastering_display if tags.is_hdr else None
    max_cll = tags.max_cll if tags.is_hdr else None
    if is_rgb(picture.pixel_format):
        matrix = "bt2020nc" if tags.primaries == "bt2020" else "bt709"
        reasons.append(f"RGB to {matrix}, limited range")
        transfer = tags.transfer if tags.transfer not in (None, "iec61966-2-1", "linear") else "bt709"
        return Colour(
            primaries=tags.primaries or "bt709",
            transfer=transfer,
            matrix=matrix,
            range="tv",
            mastering_display=mastering,
            max_cll=max_cll,
        )
    matrix = picture_matrix(picture)
    if tags.matrix is None:
        reasons.append(f"matrix not said: taken as {matrix} by its size")
    if picture_range(picture) == "pc":
        unsaid = tags.range is None and is_full_unsaid(picture.pixel_format)
        reasons.append("full range scaled to limited" + (f" ({picture.pixel_format} is full)" if unsaid else ""))
    usual: tuple[str | None, str | None] = SDR_COMPANIONS.get(matrix, (None, None))
    return Colour(
        primaries=tags.primaries or usual[0],
        transfer=tags.transfer or usual[1],
        matrix=matrix,
        range="tv",
        mastering_display=mastering,
        max_cll=max_cll,
    )


First = Literal["top", "bottom"]
FIRST_SAID: dict[str | None, First] = {"tt": "top", "bt": "top", "bb": "bottom", "tb": "bottom"}
"""By the file's word: its first letter is the field coded first, the second the one shown first."""
FIRST_FOUND: dict[str, First | None] = {"progressive": None, "top": "top", "bottom": "bottom"}


def _fields(rung: Rung, source: VideoInfo, reasons: list[str]) -> tuple[Filter, ...]:
    """Whether fields are made into frames. What was measured counts more than what the file says."""
    said = FIRST_SAID.get(source.field_order)
    first: First | None = said if source.interlacing is None else FIRST_FOUND[source.interlacing]
    unflagged: tuple[Filter, ...] = (Retag(progressive=True),) if said else ()
    if rung.deinterlace == "off":
        if first or said:
            reasons.append("interlaced source left as it is, as asked")
        return unflagged
    if rung.deinterlace == "on":
        order = first or said
        reasons.append(f"deinterlaced as asked ({order or 'unknown'} field first)")
        return (Deinterlace(field_first=order or "auto"),)
    if first is None:
        if said:
            reasons.append("called interlaced, but its pictures are whole: not deinterlaced")
        return unflagged
    bob = rung.deinterlace == "bob"
    how = "measured" if source.interlacing else "as the file says"
    reasons.append(f"interlaced, {first} field first ({how}): one frame per {'field' if bob else 'frame'}")
    return (Deinterlace(field_first=first, bob=bob),)


def _rate(rung: Rung, source: VideoInfo, fields: tuple[Filter, ...], reasons: list[str]) -> Fraction:
    if rung.frame_rate is not None:
        reasons.append(f"constant {float(rung.frame_rate):.6g} fps as asked")
        return rung.frame_rate
    if source.frame_rate is None:
        reasons.append("source rate unknown: source timing is kept, GOP counted at 25 fps")
    bob = any(isinstance(step, Deinterlace) and step.bob for step in fields)
    return (source.frame_rate or ASSUMED_RATE) * (2 if bob else 1)
