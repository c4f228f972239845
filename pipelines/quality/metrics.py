"""Metrics between two files of the same pictures, by FFmpeg's filters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import av
from av.filter import Graph
from av.video.frame import VideoFrame

from pipelines.source import Facts

Metric = Literal["ssim", "psnr", "xpsnr"]

PERFECT_DB = 100.0
"""What equal pictures have where a metric in dB would be infinite."""


@dataclass(frozen=True)
class _Kind:
    """`read`: a frame's value from the filter's words; `mean`: of all frames' values."""

    read: Callable[[dict[str, str]], float]
    mean: Callable[[Sequence[float]], float]


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _finite(text: str) -> float:
    value = float(text)
    return min(value, PERFECT_DB) if value == value else PERFECT_DB


def _psnr(values: Sequence[float]) -> float:
    """Of the mean error, as the filter's own summary: one equal picture is not worth infinitely many."""
    error = _average([10 ** (-value / 10) for value in values])
    return min(PERFECT_DB, -10 * math.log10(error)) if error > 0 else PERFECT_DB


def _xpsnr(words: dict[str, str]) -> float:
    luma, *chroma = (_finite(words[f"lavfi.xpsnr.xpsnr.{plane}"]) for plane in "yuv")
    return (4 * luma + sum(chroma)) / 6


KINDS: dict[Metric, _Kind] = {
    "ssim": _Kind(lambda words: float(words["lavfi.ssim.All"]), _average),
    "psnr": _Kind(lambda words: _finite(words["lavfi.psnr.psnr_avg"]), _psnr),
    "xpsnr": _Kind(_xpsnr, _average),
}


def has_metric(metric: Metric) -> bool:
    return metric in av.filter.filters_available


class Score(Facts):
    """Values of one metric: their mean as the metric has it, and the worst picture's."""

    metric: Metric
    mean: float
    worst: float
    frames: int


@dataclass
class Tallied:
    """Values frame by frame, of one metric."""

    metric: Metric
    values: list[float]

    def score(self) -> Score | None:
        """None where nothing was compared."""
        if not self.values:
            return None
        mean = KINDS[self.metric].mean(self.values)
        return Score(metric=self.metric, mean=round(mean, 5), worst=round(min(self.values), 5), frames=len(self.values))


Pairs = Iterator[tuple[VideoFrame, VideoFrame]]


def measure(pairs: Pairs, metrics: Sequence[Metric]) -> list[Tallied]:
    """All metrics over pairs of reference and other, of the same size."""
    tallied = [Tallied(metric, []) for metric in metrics]
    meters: list[_Meter] = []
    for number, (reference, other) in enumerate(pairs):
        meters = meters or [_Meter(metric, reference, other) for metric in metrics]
        for meter, kept in zip(meters, tallied, strict=True):
            kept.values += meter.push(reference, other, number)
    for meter, kept in zip(meters, tallied, strict=bool(meters)):
        kept.values += meter.flush()
    return tallied


class _Meter:
    """One metric's filter with two sources; each pair gets a time of its own."""

    def __init__(self, metric: Metric, reference: VideoFrame, other: VideoFrame) -> None:
        self._kind = KINDS[metric]
        self._graph: Any = Graph()
        # the order is the filters' own: first what is judged, then what it is compared with
        self._sources = [self._source(other), self._source(reference)]
        judged = self._graph.add(metric)
        self._sink: Any = self._graph.add("buffersink")
        for place, (_, end) in enumerate(self._sources):
            end.link_to(judged, 0, place)
        judged.link_to(self._sink)
        self._graph.configure()

    def _source(self, frame: VideoFrame) -> tuple[Any, Any]:
        """A source for frames like this one, and the last filter after it: both come as the same format."""
        source = self._graph.add(
            "buffer",
            video_size=f"{frame.width}x{frame.height}",
            pix_fmt=frame.format.name,
            time_base="1/25",
            pixel_aspect="1/1",
        )
        if not frame.format.name.startswith("yuvj"):
            return source, source
        # JPEG's names for full range: the numbers stay, the name goes
        scale = self._graph.add("scale", in_range="pc", out_range="pc")
        plain = self._graph.add("format", pix_fmts=frame.format.name.replace("yuvj", "yuv"))
        source.link_to(scale)
        scale.link_to(plain)
        return source, plain

    def push(self, reference: VideoFrame, other: VideoFrame, number: int) -> list[float]:
        for (source, _), frame in zip(self._sources, (other, reference), strict=True):
            frame.pts, frame.time_base = number, Fraction(1, 25)
            source.push(frame)
        return self._pull()

    def flush(self) -> list[float]:
        for source, _ in self._sources:
            source.push(None)
        return self._pull()

    def _pull(self) -> list[float]:
        found = []
        while True:
            try:
                found.append(self._kind.read(dict(self._sink.pull().metadata)))
            except (BlockingIOError, av.error.EOFError):
                return found


def timed_frames(path: Path) -> Iterator[tuple[Fraction, VideoFrame]]:
    """The pictures of a file's first video track, with their times in seconds."""
    with av.open(str(path.absolute()), metadata_errors="replace") as container:
        stream: Any = container.streams.video[0]
        stream.thread_type = "AUTO"
        for frame in container.decode(stream):
            if frame.pts is not None:
                yield frame.pts * (frame.time_base or stream.time_base), frame


def paired(
    reference: Iterator[tuple[Fraction, VideoFrame]],
    other: Iterator[tuple[Fraction, VideoFrame]],
    tolerance: Fraction,
) -> Pairs:
    """Pictures of both that are shown at the same time; those that only one of them has are passed over."""
    left, right = next(reference, None), next(other, None)
    while left is not None and right is not None:
        apart = right[0] - left[0]
        if abs(apart) <= tolerance:
            yield left[1], right[1]
            left, right = next(reference, None), next(other, None)
        elif apart > 0:
            left = next(reference, None)
        else:
            right = next(other, None)
