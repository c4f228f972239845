"""Measuring before the whole is planned: what a job leaves to it is found, and put in its place."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipelines.devices import software_device
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.quality.findings import Findings
from pipelines.quality.per_title import titled
from pipelines.quality.rates import goals_of, needs_measuring, with_reasons
from pipelines.quality.sampling import Bench
from pipelines.quality.target import MakePlan, seek_targets
from pipelines.rendition import Plan
from pipelines.result import Progress, Warning
from pipelines.source import SourceInfo
from pipelines.spec import DevicePolicy, FileJob

PlanOn = Callable[..., Plan]
"""`pipelines.plan.plan` with its source: a job and a device (None: the one at hand)."""


@dataclass(frozen=True)
class Decided:
    spec: FileJob
    findings: Findings

    @property
    def asked(self) -> bool:
        """Whether anything was measured."""
        return self.findings != Findings()


def decide(
    spec: FileJob,
    source: SourceInfo,
    file: LocalFile,
    folder: Path,
    plan_on: PlanOn,
    *,
    limits: Limits,
    on_progress: Callable[[Progress], None] | None,
    cancelled: threading.Event | None,
) -> Decided:
    """The job with nothing left to measure. Samples are in a folder within `folder` meanwhile.

    What `plan` and `run` raise; UnsupportedSpec where nothing can be measured.
    """
    if not needs_measuring(spec):
        return Decided(spec, Findings())
    with bench_in(folder, source, file, limits, cancelled, _beat(on_progress)) as bench:
        spec, titles = titled(spec, bench, _at_hand(plan_on))
        spec, targets = seek_targets(spec, goals_of(spec), bench, _at_hand(plan_on), on_cpu(plan_on))
    return Decided(spec, Findings(titles=titles, targets=targets))


@contextmanager
def bench_in(
    folder: Path,
    source: SourceInfo,
    file: LocalFile,
    limits: Limits,
    cancelled: threading.Event | None,
    beat: Callable[[int], None],
) -> Iterator[Bench]:
    """Samples are in a folder of their own within `folder`, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=".samples-", dir=folder) as scratch:
        yield Bench(source, file, Path(scratch), limits, cancelled, beat)


def on_cpu(plan_on: PlanOn) -> MakePlan:
    """Plans for the CPU, whatever device a job asks for."""
    cpu = software_device(1)
    return lambda job: plan_on(job.model_copy(update={"device": DevicePolicy()}), cpu)


def _at_hand(plan_on: PlanOn) -> MakePlan:
    return lambda job: plan_on(job, None)


def _beat(on_progress: Callable[[Progress], None] | None) -> Callable[[int], None]:
    """Progress that stays at its beginning while samples are measured: who watches sees that work goes on."""
    if on_progress is None:
        return lambda frames: None
    tell = on_progress
    return lambda frames: tell(Progress(frames=frames, fraction=0.0))


def explained(plan: Plan, findings: Findings) -> Plan:
    """The plan with the reasons that were found by measuring, and warnings of what is out of reach."""
    reasons = {(finding.output, finding.rung): finding.reason for finding in findings.targets}
    kept: dict[str, int] = {}
    for title in findings.titles:
        if title.kept:
            reasons[title.output, kept.setdefault(title.output, 0)] = title.reason
            kept[title.output] += 1
    warnings = (*plan.warnings, *(_missed(findings)))
    return plan.model_copy(update={"outputs": with_reasons(plan.outputs, reasons), "warnings": warnings})


def _missed(findings: Findings) -> list[Warning]:
    gone = [
        Warning(code="rung_dropped", message=f"{t.output}: a rung of {t.width or t.height}: {t.reason}")
        for t in findings.titles
        if not t.kept
    ]
    missed = [finding for finding in findings.targets if not finding.reached]
    if not missed:
        return gone
    first = missed[0]
    message = (
        f"{first.output}: {first.goal.metric} {first.goal.value:g} is out of reach within the bounds: "
        f"crf {first.crf:g} has {first.score.mean:.4f}"
    )
    facts = {"renditions": [{"output": f.output, "rung": f.rung, "crf": f.crf, "value": f.score.mean} for f in missed]}
    return [*gone, Warning(code="target_quality_missed", message=message, count=len(missed), facts=facts)]
