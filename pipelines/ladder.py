"""Ladders: sizes of renditions, and the rungs that a source deserves. Pure."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from pipelines.asked.rungs import Rung, VideoCodec
from pipelines.encoders import DEFAULT_CRF
from pipelines.rate_control import Crf
from pipelines.source import VideoInfo

STEPS = (2160, 1440, 1080, 720, 480, 360, 240)
"""Short sides of the rungs of an automatic ladder."""
NEAR = Fraction(85, 100)
"""A step above this share of the rung before it is not worth a rung."""
LOWEST_RUNG = 240
MAX_AUTO_RUNGS = 6

REFERENCE_BITS = 5_500_000
"""bit/s that H.264 of 1920 × 1080 at 30 pictures a second may take at its peaks."""
REFERENCE_PIXELS = 1920 * 1080
REFERENCE_RATE = 30
EFFICIENCY: dict[str, float] = {
    "h264": 1.0, "hevc": 0.65, "vp9": 0.7, "av1": 0.5, "mpeg2video": 2.0, "mpeg4": 1.5, "vp8": 1.1, "vc1": 1.2,
}  # fmt: skip
"""Bits that a codec needs for what H.264 needs one for: rules of thumb."""


def fit(
    display: tuple[Fraction, Fraction], box: tuple[int | None, int | None], *, upscale: bool
) -> tuple[int, int] | None:
    """Width and height of the displayed picture (square pixels) scaled into `box`.

    None: the picture fits as it is (or would have to grow and may not).
    """
    ratios = [Fraction(limit) / side for limit, side in zip(box, display, strict=True) if limit is not None]
    if not ratios:
        return None
    scale = min(ratios)
    if scale == 1 or (scale > 1 and not upscale):
        return None
    width, height = (_even(side * scale, limit) for side, limit in zip(display, box, strict=True))
    return width, height


def _even(side: Fraction, limit: int | None) -> int:
    """The nearest even number of pixels, at least 2 and never above `limit`."""
    even = 2 * round(side / 2)
    if limit is not None and even > limit:
        even = limit - limit % 2
    return max(2, even)


def auto_rungs(source: VideoInfo, codec: VideoCodec) -> tuple[Rung, ...]:
    """From the source's own size down by steps of about half the pixels."""
    width, height = source.display_size
    short = int(min(width, height))
    sides = [short]
    for step in STEPS:
        if step < short and step <= sides[-1] * NEAR and step >= LOWEST_RUNG:
            sides.append(step)
    # a source between two steps, or one of 4K, has its steps thinned from below
    return tuple(_rung(side if side < short else None, source, codec) for side in sides[:MAX_AUTO_RUNGS])


def _rung(side: int | None, source: VideoInfo, codec: VideoCodec) -> Rung:
    """A rung whose short side is `side`; None: the source's own size."""
    width, height = source.display_size
    box = {} if side is None else {"width" if width < height else "height": side}
    return Rung.model_validate({"codec": codec, **box, "rate_control": capped(source, codec, side).model_dump()})


def with_rate(rung: Rung, source: VideoInfo) -> Rung:
    """The rung with the usual rate control of ladders where it asks for none."""
    assert rung.codec is not None
    if rung.rate_control is not None:
        return rung
    fitted = fit(source.display_size, (rung.width, rung.height), upscale=rung.upscale) or source.display_size
    side = int(min(fitted))
    return rung.model_copy(update={"rate_control": capped(source, rung.codec, side)})


def paced(source: VideoInfo, pace: Fraction) -> VideoInfo:
    """The source as an output of this pace has it to encode."""
    if pace == 1:
        return source
    rate = None if source.frame_rate is None else source.frame_rate * pace
    bits = None if source.bit_rate is None else round(source.bit_rate * pace)
    return source.model_copy(update={"frame_rate": rate, "bit_rate": bits})


def capped(source: VideoInfo, codec: VideoCodec, side: int | None) -> Crf:
    """The codec's usual quality, with peaks capped by size and rate, and by what the source itself has."""
    width, height = source.display_size
    scale = Fraction(1) if side is None else Fraction(side) / min(width, height)
    pixels = float(width * height * scale * scale)
    rate = float(source.frame_rate or 25)
    bits = REFERENCE_BITS * EFFICIENCY[codec]
    bits *= (pixels / REFERENCE_PIXELS) ** 0.8 * max(0.5, (rate / REFERENCE_RATE) ** 0.6)
    own = EFFICIENCY.get(source.codec)
    if source.bit_rate and own is not None:
        bits = min(bits, source.bit_rate * EFFICIENCY[codec] / own)
    maxrate = max(100_000, ceil(bits / 10_000) * 10_000)
    return Crf(crf=DEFAULT_CRF[codec], maxrate=maxrate, bufsize=2 * maxrate)
