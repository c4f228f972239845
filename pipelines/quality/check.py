"""The quality of what was written, sampled: pictures of the finished files against the source after its filters."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.video.frame import VideoFrame

from pipelines.demux import COARSE_PREROLL_SECONDS
from pipelines.packaging.layout import Packaging
from pipelines.packaging.ts import OFFSET_SECONDS
from pipelines.quality.findings import Checked
from pipelines.quality.metrics import Metric, Tallied, measure, paired, timed_frames
from pipelines.quality.sampling import Bench, lossless, make_samples
from pipelines.quality.spans import SampleSpan, sample_spans
from pipelines.quality.target import rendition_at
from pipelines.rendition import OutputPlan, Plan, VideoRendition
from pipelines.result import OutputResult, Result
from pipelines.timestamps import microseconds

METRICS: tuple[Metric, ...] = ("ssim", "psnr")
NEAR = Fraction(1, 250)
"""Of two times that are the same: files count milliseconds, or 90,000ths."""
AROUND = 1
"""Segments before and after those of a sample's time: pictures of its edges may be in them."""


def check_quality(plan: Plan, cpu_plan: Plan, result: Result, folder: Path, bench: Bench) -> tuple[Checked, ...]:
    """For each encoded picture track of `plan`, whose files are in `folder`. `cpu_plan`: the same job on the CPU."""
    found = []
    for output, written in zip(plan.outputs, result.outputs, strict=True):
        for number, rendition in enumerate(output.renditions):
            if not isinstance(rendition, VideoRendition) or _is_sealed(output):
                continue
            reference = rendition_at(cpu_plan, (output.name, rendition.rung))
            if reference is None:
                continue
            spans = sample_spans(plan, [reference])
            tallied = [Tallied(metric, []) for metric in METRICS]
            for span in spans:
                (sample,) = make_samples(bench, cpu_plan, [lossless(reference)], span, "whole-0")
                if sample.frames:
                    starts = written.renditions[number].start_seconds or 0.0
                    shown = _pictures(output, written, number, folder, _on_output(span, plan, rendition.pace), starts)
                    for kept, more in zip(
                        tallied, measure(paired(timed_frames(sample.path), shown, NEAR), METRICS), strict=True
                    ):
                        kept.values += more.values
                sample.path.unlink(missing_ok=True)
            scores = tuple(score for kept in tallied if (score := kept.score()) is not None)
            found.append(Checked(output=output.name, track=number, samples=len(spans), scores=scores))
    return tuple(found)


def _is_sealed(output: OutputPlan) -> bool:
    return output.packaging is not None and output.packaging.encryption is not None


def _on_output(span: SampleSpan, plan: Plan, pace: Fraction) -> tuple[Fraction, Fraction | None]:
    zero = microseconds(plan.start_seconds)
    return (span.start - zero) / pace, None if span.end is None else (span.end - zero) / pace


def _pictures(
    output: OutputPlan,
    written: OutputResult,
    number: int,
    folder: Path,
    span: tuple[Fraction, Fraction | None],
    starts: float,
) -> Iterator[tuple[Fraction, VideoFrame]]:
    """Pictures of a written track in a span of the output's clock."""
    packaging = output.packaging
    if packaging is None:
        form = output.muxer if output.muxer == "mpegts" else None
        with av.open(str((folder / output.path).absolute()), format=form, metadata_errors="replace") as container:
            stream: Any = container.streams.video[0]
            # transport streams begin where they like
            offset = (stream.start_time or 0) * stream.time_base - microseconds(starts)
            begin = span[0] - (COARSE_PREROLL_SECONDS if form == "mpegts" else 0)
            if begin > 0:
                container.seek(int((begin + offset) / stream.time_base), stream=stream)
            yield from _within(container, stream, offset, span)
        return
    paths = _segments(packaging, written, number, span)
    form = "mpegts" if packaging.segment_format == "ts" else "mp4"
    offset = Fraction(OFFSET_SECONDS) if packaging.segment_format == "ts" else Fraction(0)
    data = io.BytesIO(b"".join((folder / path).read_bytes() for path in paths))
    with av.open(data, format=form, metadata_errors="replace") as container:
        yield from _within(container, container.streams.video[0], offset, span)


def _within(
    container: Any, stream: Any, offset: Fraction, span: tuple[Fraction, Fraction | None]
) -> Iterator[tuple[Fraction, VideoFrame]]:
    stream.thread_type = "AUTO"
    begin, end = span
    for frame in container.decode(stream):
        if frame.pts is None:
            continue
        time = frame.pts * (frame.time_base or stream.time_base) - offset
        if end is not None and time >= end:
            return
        if time >= begin - NEAR:
            yield time, frame


def _segments(
    packaging: Packaging, written: OutputResult, number: int, span: tuple[Fraction, Fraction | None]
) -> Sequence[str]:
    """The files that a span of a rung is in, what decoders need first; of a single file all of it."""
    place = f"/{packaging.tracks[number].folder}/"
    media = [path for path in written.all_files if place in path and not path.endswith((".m3u8", ".vtt"))]
    if packaging.single_file:
        return media
    head = [path for path in media if path.endswith(".mp4")]
    cells = sorted(path for path in media if not path.endswith(".mp4"))
    first = max(0, int(span[0] / packaging.grid) - AROUND)
    last = len(cells) if span[1] is None else int(span[1] / packaging.grid) + 1 + AROUND
    return [*head, *cells[first:last]]
