"""Decisions on a rendition's size: what limits, shapes and bars make of the picture. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pipelines import ladder
from pipelines.asked.filters import PadFilter, VideoFilter, asked, parse_aspect
from pipelines.asked.rungs import Rung
from pipelines.planning.framing import framed, framing_of
from pipelines.source import VideoInfo

Pair = tuple[int, int]


@dataclass(frozen=True)
class Size:
    """Coded pixels. `inner`: what the picture fills of them, where there are bars."""

    width: int
    height: int
    aspect: Fraction = Fraction(1)
    inner: Pair | None = None


def plan_size(rung: Rung, source: VideoInfo, *, keeps_rotation: bool, keeps_shape: bool, reasons: list[str]) -> Size:
    """Of `source` as it is framed. `keeps_shape`: the file can say that pixels are not square."""
    pad = asked(rung.filters, PadFilter)
    if pad is not None:
        return _padded(rung, pad, source.display_size, reasons)
    return _plain(rung, source, keeps_rotation, keeps_shape, reasons)


def _plain(rung: Rung, source: VideoInfo, keeps_rotation: bool, keeps_shape: bool, reasons: list[str]) -> Size:
    quarter = source.rotation in (90, 270)
    fitted = ladder.fit(source.display_size, (rung.width, rung.height), upscale=rung.upscale)
    wanted = " × ".join(str(side or "any") for side in (rung.width, rung.height))
    if fitted is not None:
        width, height = reversed(fitted) if quarter and keeps_rotation else fitted
        reasons.append(f"scaled to {fitted[0]}×{fitted[1]} to fit {wanted}")
        return Size(width, height)
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
        reasons.append(f"not scaled: the source is within {wanted}")
    return Size(width, height, aspect)


def _padded(rung: Rung, pad: PadFilter, shown: tuple[Fraction, Fraction], reasons: list[str]) -> Size:
    """Square pixels. The rung's limits hold for the whole; a size to pad to holds for the whole as it is."""
    box = (rung.width, rung.height)
    if pad.width is not None and pad.height is not None:
        whole = (pad.width, pad.height)
        limits = [min(side, limit or side) for side, limit in zip(whole, box, strict=True)]
        inner = ladder.fit(shown, (limits[0], limits[1]), upscale=rung.upscale) or _even(shown, whole)
    else:
        assert pad.aspect is not None
        shape = parse_aspect(pad.aspect)
        outer = (max(shown[0], shown[1] * shape), max(shown[1], shown[0] / shape))
        fitted = ladder.fit(outer, box, upscale=rung.upscale)
        whole = fitted or _even_up(outer)
        scale = Fraction(1) if fitted is None else Fraction(fitted[0]) / outer[0]
        inner = _even((shown[0] * scale, shown[1] * scale), whole)
    bars = "no bars needed" if inner == whole else f"{inner[0]}×{inner[1]} of picture in bars of {pad.colour}"
    reasons.append(f"padded to {whole[0]}×{whole[1]}: {bars}")
    return Size(*whole, inner=inner)


def seen_by(filters: tuple[VideoFilter, ...], source: VideoInfo) -> VideoInfo:
    """The source as rungs with these filters have it to fit: cropped, turned, with its bars."""
    seen = framed(framing_of(filters, source), source)
    pad = asked(filters, PadFilter)
    if pad is None:
        return seen
    size = _padded(Rung(filters=filters), pad, seen.display_size, [])
    turned = (size.height, size.width) if seen.rotation in (90, 270) else (size.width, size.height)
    return seen.model_copy(update={"width": turned[0], "height": turned[1], "sample_aspect_ratio": Fraction(1)})


def _even(sides: tuple[Fraction, Fraction], whole: Pair) -> Pair:
    """Cut to even; where a side is within a pixel of the whole, it fills it."""
    width, height = (
        limit if abs(side - limit) <= 1 else min(max(2, 2 * int(side // 2)), limit)
        for side, limit in zip(sides, whole, strict=True)
    )
    return width, height


def _even_up(sides: tuple[Fraction, Fraction]) -> Pair:
    width, height = (2 * round(side / 2) for side in sides)
    return max(2, width), max(2, height)
