"""The size guard: work that comes out larger than it is worth ends early, and never as a result.

While it runs, each output's size is projected from what is written of it. A projection is believed only when enough was
seen, and the less was seen, the further it has to be above the limit: beginnings may be unlike the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.errors import LargerThanSource
from pipelines.rendition import SizeLimit
from pipelines.result import OutputResult
from pipelines.source import SourceInfo

ENOUGH_SECONDS = 10.0
ENOUGH_SHARE = 0.05
ENOUGH_SHARE_OF_SHORT = 0.3
"""What counts as seen: so many seconds and that share of the whole, or this share alone."""
MARGIN = 0.5
"""A projection from nothing would have to be half as much again above the limit; one of the whole not at all."""


def size_limit(share: float | None, source: SourceInfo, duration_seconds: float | None) -> SizeLimit | None:
    """Of one output; a clip is compared with as much of the source as it is of its duration."""
    if share is None or not source.size_bytes:
        return None
    whole = source.duration_seconds
    part = 1.0 if not whole or duration_seconds is None else min(1.0, duration_seconds / whole)
    source_bytes = round(source.size_bytes * part)
    return SizeLimit(share=share, source_bytes=source_bytes, max_bytes=round(source_bytes * share))


def check_projection(
    limit: SizeLimit,
    output: str,
    written_bytes: int,
    tracks: Sequence[tuple[int, float]],
    duration_seconds: float | None,
) -> None:
    """LargerThanSource where an output is above the limit already, or will be as far as can be told.

    `tracks`: bytes and seconds of each so far; sound may be far ahead of the picture.
    """
    if written_bytes > limit.max_bytes:
        raise _larger(limit, output, written_bytes, f"has {written_bytes} bytes already")
    if not duration_seconds:
        return
    seconds = min((end for _, end in tracks), default=0.0)
    share = min(1.0, seconds / duration_seconds)
    if share < ENOUGH_SHARE_OF_SHORT and (seconds < ENOUGH_SECONDS or share < ENOUGH_SHARE):
        return
    projected = round(sum(size / min(1.0, end / duration_seconds) for size, end in tracks))
    if projected > limit.max_bytes * (1 + MARGIN * (1 - share)):
        raise _larger(limit, output, projected, f"would come to about {projected} bytes")


def check_sizes(limit: SizeLimit | None, outputs: Sequence[OutputResult]) -> None:
    """The same of finished outputs, exactly."""
    for output in outputs if limit is not None else ():
        assert limit is not None
        if output.size > limit.max_bytes:
            raise _larger(limit, output.name, output.size, f"has {output.size} bytes")


def _larger(limit: SizeLimit, output: str, size: int, words: str) -> LargerThanSource:
    return LargerThanSource(
        f"{output} {words}, more than {limit.share:g} of the source's {limit.source_bytes}",
        stage="mux",
        output=output,
        bytes=size,
        max_bytes=limit.max_bytes,
        source_bytes=limit.source_bytes,
    )
