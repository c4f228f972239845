"""Sizes of renditions: the largest even size with the source's displayed aspect that fits a rung's box."""

from __future__ import annotations

from fractions import Fraction


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
