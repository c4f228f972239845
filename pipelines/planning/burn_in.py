"""Decisions on subtitles that are drawn into pictures. Pure."""

from __future__ import annotations

from pipelines.asked.filters import BurnInFilter, asked
from pipelines.asked.rungs import Rung
from pipelines.errors import FilterMissing, UnsupportedSpec
from pipelines.filters import BurnIn
from pipelines.planning.choice import select
from pipelines.planning.conform import Canvas
from pipelines.planning.placement import Site
from pipelines.source import SubtitleInfo

FILTER = "subtitles"
"""FFmpeg's, of libass."""


def plan_burn_in(rung: Rung, canvas: Canvas, site: Site, reasons: list[str]) -> tuple[BurnIn, ...]:
    """FilterMissing where this build can't draw text; UnsupportedSpec for tracks that can't be drawn, and on HDR."""
    wanted = asked(rung.filters, BurnInFilter)
    if wanted is None:
        return ()
    if FILTER not in site.cpu.filters:
        raise FilterMissing(
            f"this build of FFmpeg can't draw text (its filter `{FILTER}`, of libass, is not there): the container "
            "image has it, and a PyAV that docker/build-pyav builds; PyAV's own wheel has not",
            stage="plan",
            filter=FILTER,
        )
    track = _track(wanted, site)
    if canvas.colour.is_hdr:
        raise UnsupportedSpec(
            "text is drawn on SDR pictures: `pixel_format` yuv420p makes them of HDR", stage="plan", filter="burn_in"
        )
    what = f"subtitle track {track.position}" if track.beside is None else track.beside.name
    language = f" ({track.language})" if track.language else ""
    reasons.append(f"{what}{language} drawn into it, in memory")
    return (
        BurnIn(
            stream=track.index,
            size=wanted.size,
            colour=wanted.colour,
            outline=wanted.outline,
            outline_colour=wanted.outline_colour,
            margin=wanted.margin,
            position=wanted.position,
            width=max(2, round(canvas.width * canvas.sample_aspect_ratio)),
            height=canvas.height,
        ),
    )


def _track(wanted: BurnInFilter, site: Site) -> SubtitleInfo:
    tracks = "all" if wanted.track is None else (wanted.track,)
    chosen = select(site.subtitles, tracks, None if wanted.language is None else (wanted.language,))
    texts = [track for track in chosen if track.kind == "text" and track.decodable]
    if texts:
        return texts[0]
    why = "no subtitle track is as asked" if not chosen else f"{chosen[0].codec} is not text: it can't be drawn here"
    raise UnsupportedSpec(why, stage="plan", filter="burn_in", tracks=len(site.subtitles))
