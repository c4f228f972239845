"""A receipt, written from what was planned, what was measured, and what the files' bytes are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipelines.devices import Device
from pipelines.quality.findings import Checked, Findings
from pipelines.quality.metrics import Score
from pipelines.receipt.command import equivalent
from pipelines.receipt.values import (
    Costs,
    DeviceReceipt,
    EarlierAttempt,
    FileReceipt,
    OutputReceipt,
    Receipt,
    Skew,
    SourceReceipt,
    Step,
    TrackReceipt,
)
from pipelines.rendition import CopyRendition, OutputPlan, Plan, SubtitleRendition, VideoRendition
from pipelines.result import OutputResult, RenditionResult, Result
from pipelines.source import SourceInfo


@dataclass(frozen=True)
class Written:
    """A file's size and SHA-256 (None: not known)."""

    size: int
    sha256: str | None


@dataclass(frozen=True)
class About:
    """What the engine does not know of its own work. `wall_seconds`: of stages around it, such as `fetch`."""

    service: str
    source_name: str
    source_sha256: str | None = None
    job: str | None = None
    attempt: int | None = None
    earlier_attempts: tuple[EarlierAttempt, ...] = ()
    wall_seconds: Mapping[str, float] | None = None


def write_receipt(plan: Plan, result: Result, files: Mapping[str, Written], device: Device, about: About) -> Receipt:
    """`files`: by the paths of the result. Works on a result without a report too: it then says less."""
    report = result.report
    checked = () if report is None else report.quality
    outputs = [
        _output(planned, written, files, checked) for planned, written in zip(plan.outputs, result.outputs, strict=True)
    ]
    return Receipt(
        job=about.job,
        attempt=about.attempt,
        service=about.service,
        versions=None if report is None else report.versions,
        device=DeviceReceipt(
            id=device.id,
            kind=device.kind,
            name=device.name,
            driver=device.driver,
            kernel_driver=device.kernel_driver,
        ),
        source=None if report is None else _source(report.source, about),
        steps=tuple(_steps(plan)),
        refusals=plan.refusals,
        earlier_attempts=about.earlier_attempts,
        outputs=tuple(outputs),
        findings=Findings() if report is None else report.findings,
        warnings=result.warnings,
        costs=Costs(
            wall_seconds={
                **({"run": result.wall_seconds} if report is None else report.stage_seconds),
                **(about.wall_seconds or {}),
            },
            cpu_seconds=None if report is None else report.cpu_seconds,
            gpu_seconds=result.gpu_seconds,
        ),
        command=None if report is None else equivalent(plan, report.source, about.source_name),
    )


def _source(source: SourceInfo, about: About) -> SourceReceipt:
    return SourceReceipt(name=about.source_name, size_bytes=source.size_bytes, sha256=about.source_sha256, facts=source)


def _steps(plan: Plan) -> Iterator[Step]:
    places = {"software": "software", "hardware": plan.device}
    for decode in plan.decode:
        yield Step(
            stage="decode",
            stream=decode.stream,
            device=places[decode.placement],
            placement=decode.placement,
            by=decode.decoder,
            reason=decode.reason,
        )
    for output in plan.outputs:
        for number, rendition in enumerate(output.renditions):
            at = {"stream": rendition.stream, "output": output.name, "track": number}
            if isinstance(rendition, CopyRendition):
                yield Step(
                    stage="copy", device="software", placement="software", by=rendition.codec,
                    reason=rendition.reason, **at,
                )  # fmt: skip
                continue
            placement = "software" if isinstance(rendition, SubtitleRendition) else rendition.placement
            if isinstance(rendition, VideoRendition) and rendition.filters:
                where = rendition.filter_placement
                yield Step(
                    stage="filter", device=places[where], placement=where,
                    by=", ".join(step.kind for step in rendition.filters), **at,
                )  # fmt: skip
            yield Step(
                stage="encode", device=places[placement], placement=placement, by=rendition.encoder,
                reason=rendition.reason, **at,
            )  # fmt: skip


def _output(
    planned: OutputPlan, written: OutputResult, files: Mapping[str, Written], checked: Sequence[Checked]
) -> OutputReceipt:
    found = [(path, files[path]) for path in written.all_files if path in files]
    seconds = written.duration_seconds
    scores = {each.track: each.scores for each in checked if each.output == written.name}
    tracks = [
        _track(result, {} if isinstance(plan, CopyRendition | SubtitleRendition) else plan.options, scores.get(number))
        for number, (plan, result) in enumerate(zip(planned.renditions, written.renditions, strict=True))
    ]
    return OutputReceipt(
        name=written.name,
        type=written.type,
        path=written.path,
        size=written.size,
        duration_seconds=seconds,
        bit_rate=round(written.size * 8 / seconds) if seconds else None,
        files=tuple(FileReceipt(path=path, size=each.size, sha256=each.sha256) for path, each in found),
        tracks=tuple(tracks),
        skew=skew(written.renditions),
    )


def _track(result: RenditionResult, options: Mapping[str, str], scores: tuple[Score, ...] | None) -> TrackReceipt:
    return TrackReceipt(
        kind=result.kind,
        codec=result.codec,
        encoder=result.encoder,
        options=dict(options),
        frames_in=result.received,
        frames_filtered=result.filtered,
        frames_out=result.frames,
        frames_dropped=result.dropped,
        frames_duplicated=result.repeated,
        packets=result.packets,
        bytes=result.bytes,
        bit_rate=result.bit_rate,
        start_seconds=result.start_seconds,
        end_seconds=result.duration_seconds,
        quality=scores,
    )


def skew(tracks: Sequence[RenditionResult]) -> Skew | None:
    """The picture's place against the sound's, in the output less in the source.

    At the end as exact as the source says how long its last frames last.
    """
    pair = [next((track for track in tracks if _is_timed(track, kind)), None) for kind in ("video", "audio")]
    video, audio = pair
    if video is None or audio is None:
        return None
    picture, sound = (
        [
            (track.start_seconds or 0.0) - (track.source_start_seconds or 0.0),
            track.duration_seconds - (track.source_end_seconds or 0.0),
        ]
        for track in (video, audio)
    )
    return Skew(start_seconds=round(picture[0] - sound[0], 4), end_seconds=round(picture[1] - sound[1], 4))


def _is_timed(track: RenditionResult, kind: str) -> bool:
    known = (track.start_seconds, track.source_start_seconds, track.source_end_seconds)
    return track.kind == kind and None not in known
