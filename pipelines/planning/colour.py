"""Decisions on a rendition's colours: what its tags say, and what becomes of HDR. Pure."""

from __future__ import annotations

from pipelines.planning.conform import Picture, picture_matrix, picture_range
from pipelines.source import Colour
from pipelines.video.colours import is_full_unsaid, is_rgb
from pipelines.video.tone_curve import source_peak

SDR_COMPANIONS: dict[str, tuple[str, str]] = {
    "bt709": ("bt709", "bt709"),
    "bt470bg": ("bt470bg", "smpte170m"),
    "smpte170m": ("smpte170m", "smpte170m"),
}
"""Primaries and transfer that go with a matrix, where the source does not say."""


def plan_colour(picture: Picture, pixel_format: str, reasons: list[str]) -> Colour:
    """The output's colour tags: the source's, said where it was silent, in limited range."""
    tags = picture.colour
    deep = "10" in pixel_format
    if tags.is_hdr and not deep:
        peak = source_peak(tags)
        reasons.append(
            f"HDR ({tags.transfer}) tone-mapped from {peak} cd/m² to BT.709 with white at 203: 8 bits can't carry it"
        )
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
