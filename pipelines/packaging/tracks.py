"""A ladder's tracks as they were written: what manifests are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pipelines.packaging import bandwidth
from pipelines.packaging.layout import TrackLayout
from pipelines.packaging.m3u8 import target_seconds
from pipelines.packaging.segments import SINGLE_STEM, Segment


@dataclass(frozen=True)
class Track:
    """`init_path` and the segments' paths are relative to the track's folder."""

    layout: TrackLayout
    codec: str
    segments: tuple[Segment, ...]
    timescale: int = 1
    """Ticks a second in which the segments' times are exact."""
    init_path: str | None = None
    init_size: int = 0
    index_size: int = 0
    """Bytes of the index behind the init section, in the one file."""
    whole_path: str | None = None
    """Subtitles as one file."""

    @property
    def begin(self) -> Fraction:
        return self.segments[0].begin

    @property
    def end(self) -> Fraction:
        return self.segments[-1].end

    @property
    def single(self) -> bool:
        """Whether its segments lie in one file, with the init section where there is one."""
        return self.layout.kind != "subtitle" and self.segments[0].path.startswith(SINGLE_STEM)

    @property
    def average(self) -> int:
        return bandwidth.average([(segment.seconds, segment.size) for segment in self.segments])

    def peak(self, target: int) -> int:
        return bandwidth.peak([(segment.seconds, segment.size) for segment in self.segments], target)

    def path(self, name: str) -> str:
        """Relative to the ladder's folder."""
        return f"{self.layout.folder}/{name}"


def of_kind(tracks: Sequence[Track], kind: str) -> list[Track]:
    return [track for track in tracks if track.layout.kind == kind]


def common_target(tracks: Sequence[Track]) -> int:
    """One target duration for all playlists of a ladder, as HLS wants it."""
    return max(target_seconds([segment.seconds for segment in track.segments]) for track in tracks)
