"""Decisions on what comes last to finished pictures: images over them, fades. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.asked.filters import FadeFilter, Length, OverlayFilter, asked
from pipelines.asked.rungs import Rung
from pipelines.errors import UnsupportedSpec
from pipelines.filters import Fade, Filter, Overlay, SoundFade
from pipelines.planning.conform import Canvas
from pipelines.rendition import AudioRendition, OutputPlan, VideoRendition

PLACES: dict[str, tuple[float, float]] = {
    "top_left": (0, 0), "top": (0.5, 0), "top_right": (1, 0),
    "left": (0, 0.5), "center": (0.5, 0.5), "right": (1, 0.5),
    "bottom_left": (0, 1), "bottom": (0.5, 1), "bottom_right": (1, 1),
}  # fmt: skip


def plan_finish(rung: Rung, canvas: Canvas, reasons: list[str]) -> tuple[Filter, ...]:
    """In order: images as they are listed, then the fade. UnsupportedSpec where a picture's colours do not allow it."""
    steps: list[Filter] = [_overlay(each, canvas, reasons) for each in rung.filters if isinstance(each, OverlayFilter)]
    if (fade := asked(rung.filters, FadeFilter)) is not None:
        steps.append(Fade(in_seconds=fade.in_seconds, out_seconds=fade.out_seconds))
        reasons.append("faded as asked")
    return tuple(steps)


def _overlay(wanted: OverlayFilter, canvas: Canvas, reasons: list[str]) -> Overlay:
    if canvas.colour.is_hdr:
        raise UnsupportedSpec(
            "images are laid over SDR pictures: `pixel_format` yuv420p makes them of HDR",
            stage="plan",
            filter="overlay",
        )
    across, down = PLACES[wanted.anchor]
    reasons.append(f"{wanted.image.key} laid over it ({wanted.anchor})")
    return Overlay(
        image=wanted.image.key,
        width=canvas.width,
        height=canvas.height,
        image_width=None if wanted.width is None else max(1, _pixels(wanted.width, canvas.width)),
        pixel_aspect=canvas.sample_aspect_ratio,
        across=across,
        down=down,
        margin_x=_pixels(wanted.margin_x, canvas.width),
        margin_y=_pixels(wanted.margin_y, canvas.height),
        opacity=wanted.opacity,
        start_seconds=wanted.start_seconds,
        end_seconds=wanted.end_seconds,
        pixel_format=canvas.pixel_format,
        matrix=canvas.colour.matrix,
    )


def _pixels(length: Length, side: int) -> int:
    return length if isinstance(length, int) else round(side * float(length[:-1]) / 100)


def with_ends(outputs: Sequence[OutputPlan], seconds: float | None) -> tuple[OutputPlan, ...]:
    """Outputs whose fades know when the end is. UnsupportedSpec where nobody knows."""
    return tuple(
        output.model_copy(
            update={
                "renditions": tuple(
                    rendition.model_copy(update={"filters": _ended(rendition, seconds)})
                    if isinstance(rendition, VideoRendition | AudioRendition)
                    else rendition
                    for rendition in output.renditions
                )
            }
        )
        for output in outputs
    )


def _ended(rendition: VideoRendition | AudioRendition, seconds: float | None) -> tuple[Filter, ...]:
    """`seconds`: of what is taken of the source."""
    lasts = None if seconds is None else seconds / float(rendition.pace)
    return tuple(_with_end(step, lasts) if isinstance(step, Fade | SoundFade) else step for step in rendition.filters)


def _with_end(fade: Fade | SoundFade, seconds: float | None) -> Fade | SoundFade:
    if fade.out_seconds and seconds is None:
        raise UnsupportedSpec(
            "the source does not say how long it is: there is no end to fade at", stage="plan", filter="fade"
        )
    return fade.model_copy(update={"lasts_seconds": seconds})
