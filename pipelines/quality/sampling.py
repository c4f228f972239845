"""Samples of a source, run through renditions: each a file of pictures, at the times of the whole output's clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.assembly import Assembly
from pipelines.containers import CONTAINERS
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.quality.spans import SampleSpan
from pipelines.rendition import OutputPlan, Plan, VideoRendition
from pipelines.result import Progress
from pipelines.run import run
from pipelines.source import SourceInfo
from pipelines.timestamps import microseconds
from pipelines.tracks import Holes, Span

LOSSLESS = {"preset": "ultrafast", "qp": "0"}
"""x264 without loss: what a rendition's filters make, kept as it is."""


@dataclass(frozen=True)
class Bench:
    """What samples are made with. `beat` is told of pictures made, lest the work seems to stand still."""

    source: SourceInfo
    file: LocalFile
    folder: Path
    limits: Limits
    cancelled: threading.Event | None = None
    beat: Callable[[int], None] = lambda frames: None


@dataclass(frozen=True)
class Sample:
    path: Path
    bytes: int
    frames: int
    seconds: float


def make_samples(
    bench: Bench, plan: Plan, renditions: Sequence[VideoRendition], span: SampleSpan, name: str
) -> list[Sample]:
    """One file for each of `renditions`, which are of `plan`, decoded once. A sample may have no pictures at all."""
    outputs = tuple(_sample_output(rendition, f"{name}-{n}.mkv") for n, rendition in enumerate(renditions))
    needed = {rendition.stream for rendition in renditions}
    short = plan.model_copy(
        update={
            "outputs": outputs,
            "decode": tuple(decode for decode in plan.decode if decode.stream in needed),
            "duration_seconds": None,
            "size_limit": None,
            "warnings": (),
        }
    )

    def assemble(*collaborators: Any) -> SampleAssembly:
        return SampleAssembly(span, *collaborators)

    def told(progress: Progress) -> None:
        bench.beat(progress.frames)

    result = run(
        short, bench.source, bench.file, bench.folder,
        limits=bench.limits, on_progress=told, cancelled=bench.cancelled, assemble=assemble,
    )  # fmt: skip
    return [
        Sample(
            bench.folder / output.path, track.bytes, track.frames, _seconds(track.duration_seconds, track.start_seconds)
        )
        for output in result.outputs
        for track in output.renditions
    ]


def _seconds(end: float, start: float | None) -> float:
    return 0.0 if start is None else max(0.0, end - start)


def lossless(rendition: VideoRendition) -> VideoRendition:
    """The rendition's pictures as its encoder gets them. It has to be one of a plan for the CPU."""
    return rendition.model_copy(update={"encoder": "libx264", "codec": "h264", "options": LOSSLESS, "codec_tag": None})


def _sample_output(rendition: VideoRendition, path: str) -> OutputPlan:
    container = CONTAINERS["mkv"]
    return OutputPlan(
        name=path,
        type="mkv",
        path=path,
        container="mkv",
        muxer=container.muxer,
        muxer_options={},
        # what players turn is for the whole file to say
        renditions=(rendition.model_copy(update={"rotation": 0, "mirrored": False}),),
        chapters=None,
    )


class SampleAssembly(Assembly):
    """Pictures are taken by their own times alone, and timed as in the whole."""

    def __init__(self, span: SampleSpan, *collaborators: Any) -> None:
        self._sample = span
        super().__init__(*collaborators)

    def _taken(self) -> Span:
        origin = microseconds(self.plan.start_seconds)
        clipped = self._sample.start > microseconds(self.source.start_seconds)
        return Span(self._sample.start, self._sample.end, clipped, origin=origin, exact=True)

    def judge(self, holes: Holes) -> None:
        """A sample makes no promise: damage is judged in the whole."""
