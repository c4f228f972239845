"""`transcode`: a whole file job, from the input to verified files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from pipelines.devices import Device, Verdict
from pipelines.estimates.estimate import estimated
from pipelines.estimates.work import Pace
from pipelines.facts.survey import examine
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.packaging.sealing.blocks import Cipher
from pipelines.plan import plan
from pipelines.quality.check import check_quality
from pipelines.quality.decide import PlanOn, bench_in, decide, explained, on_cpu
from pipelines.quality.rates import needs_measuring
from pipelines.rendition import Plan
from pipelines.report import Stopwatch
from pipelines.result import Progress, Result
from pipelines.run import run
from pipelines.source import SourceInfo
from pipelines.spec import FileJob
from pipelines.verify import verify


def transcode(
    spec: FileJob,
    file: LocalFile,
    folder: Path,
    *,
    device: Device,
    limits: Limits,
    verdicts: Sequence[Verdict] = (),
    on_plan: Callable[[Plan], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    cancelled: threading.Event | None = None,
    cipher: Cipher | None = None,
    pace: Pace = Pace(),  # noqa: B008 - frozen
) -> Result:
    """Probes, plans, runs and verifies. Files are written into `folder` under the plan's paths.

    `pace` is what the plan's estimate goes by.

    `cipher` encrypts the ladders that ask for it.
    Any PipelineError of those steps; what `folder` then holds is worthless.
    """
    watch = Stopwatch()
    with watch.stage("probe"):
        source = examine(spec, file, limits)
    plan_on = _planner(source, device, verdicts)
    with watch.stage("plan"):
        planned = estimated(plan_on(spec), source, pace)
    if needs_measuring(spec):
        if on_plan is not None:
            on_plan(planned)
        with watch.stage("measure"):
            decided = decide(
                spec, source, file, folder, plan_on, limits=limits, on_progress=on_progress, cancelled=cancelled
            )
            planned = estimated(explained(plan_on(decided.spec), decided.findings), source, pace)
            spec, watch.findings = decided.spec, decided.findings
    if on_plan is not None:
        on_plan(planned)
    with watch.stage("run"):
        result = run(
            planned, source, file, folder, limits=limits, on_progress=on_progress, cancelled=cancelled, cipher=cipher
        )
    with watch.stage("verify"):
        verify(planned, result, folder)
    if spec.receipt.quality:
        beat = _beat_after(result, on_progress)
        with watch.stage("quality"), bench_in(folder, source, file, limits, cancelled, beat) as bench:
            watch.quality = check_quality(planned, on_cpu(plan_on)(spec), result, folder, bench)
    return result.model_copy(update={"report": watch.report(source)})


def _planner(source: SourceInfo, device: Device, verdicts: Sequence[Verdict]) -> PlanOn:
    def plan_on(job: FileJob, other: Device | None = None) -> Plan:
        if other is None:
            return plan(job, source, device, verdicts=verdicts)
        return plan(job, source, other)

    return plan_on


def _beat_after(result: Result, on_progress: Callable[[Progress], None] | None) -> Callable[[int], None]:
    """Progress that stays at its end while samples are measured."""
    if on_progress is None:
        return lambda frames: None
    tell, written = on_progress, sum(output.size for output in result.outputs)
    return lambda frames: tell(Progress(frames=frames, bytes=written, fraction=1.0))
