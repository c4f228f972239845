"""Cues that began before a clip and are still on screen when it starts: reading starts too late to see them."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import av
from av.container import InputContainer
from av.packet import Packet

from pipelines.demux import COARSE_FORMATS, PREROLL_SECONDS
from pipelines.source import SourceInfo
from pipelines.tracks import Span

LONGEST_CUE_SECONDS = Fraction(30)
"""Longer cues exist, but no speech lasts that long."""


def earlier_cues(
    container: InputContainer, streams: Iterable[int], subtitles: Iterable[int], span: Span, source: SourceInfo
) -> list[tuple[Packet[Any], Fraction]]:
    """Packets of the `subtitles` among the `streams`, from before where reading for the clip starts.

    The container is left somewhere before the clip; the next thing to do with it is to seek.
    """
    start = span.start - PREROLL_SECONDS
    coarse = any(name in COARSE_FORMATS for name in source.format.split(","))
    wanted = set(subtitles)
    if not span.clipped or not wanted or coarse or start <= Fraction(source.start_seconds):
        return []
    found: list[tuple[Packet[Any], Fraction]] = []
    try:
        container.seek(max(0, int((start - LONGEST_CUE_SECONDS) * 1_000_000)), backward=True)
        for packet in container.demux([container.streams[index] for index in streams]):
            time_base = container.streams[packet.stream_index].time_base
            if packet.dts is None or time_base is None:
                continue
            if packet.dts * time_base >= start:
                break
            lasts_to = ((packet.pts or 0) + (packet.duration or 0)) * time_base
            if packet.stream_index in wanted and lasts_to > span.start:
                found.append((packet, time_base))
    except av.error.FFmpegError as error:
        if isinstance(error, MemoryError):
            raise
    return found
