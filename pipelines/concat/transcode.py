"""`transcode_joined`: a job with several inputs, from these to verified files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipelines.concat.assembly import JoiningAssembly
from pipelines.concat.plan import check_sum, joined_source, plan_joined
from pipelines.concat.values import Reel
from pipelines.devices import Device, Verdict
from pipelines.errors import PipelineError, UnsupportedSpec
from pipelines.estimates.estimate import estimated
from pipelines.estimates.work import Pace
from pipelines.facts.survey import wants_bars
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.packaging.sealing.blocks import Cipher
from pipelines.probe import probe
from pipelines.rendition import Plan
from pipelines.report import Stopwatch
from pipelines.result import Progress, Result
from pipelines.run import run
from pipelines.source import SourceInfo
from pipelines.spec import FileJob
from pipelines.verify import verify


def survey_joined(spec: FileJob, files: Sequence[LocalFile], limits: Limits) -> list[SourceInfo]:
    """What each input is. Errors say which one it was."""
    if wants_bars(spec):
        raise UnsupportedSpec("black bars are measured of one input, not of several", stage="plan")
    found = []
    for number, file in enumerate(files, 1):
        try:
            found.append(probe(file, limits))
        except PipelineError as error:
            error.message = f"input {number}: {error.message}"
            error.facts["input"] = number
            raise
    return found


def plan_files(
    spec: FileJob,
    files: Sequence[LocalFile],
    device: Device,
    limits: Limits,
    verdicts: Sequence[Verdict] = (),
    pace: Pace = Pace(),  # noqa: B008 - frozen
) -> Plan:
    """The plan of a job whose inputs are `files`."""
    return _planned(spec, files, survey_joined(spec, files, limits), device, limits, verdicts, pace)[0]


def _planned(
    spec: FileJob,
    files: Sequence[LocalFile],
    sources: Sequence[SourceInfo],
    device: Device,
    limits: Limits,
    verdicts: Sequence[Verdict],
    pace: Pace,
) -> tuple[Plan, SourceInfo]:
    """The plan, and the inputs as the one source that they are to it."""
    names = [file.name for file in files]
    made = plan_joined(spec, sources, names, device, verdicts)
    check_sum(made, limits)
    whole = joined_source(spec, sources, names)
    return estimated(made, whole, pace), whole


def transcode_joined(
    spec: FileJob,
    files: Sequence[LocalFile],
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
    """As `transcode`, of a job with `inputs`; `files` are these, in their order."""
    watch = Stopwatch()
    with watch.stage("probe"):
        sources = survey_joined(spec, files, limits)
    with watch.stage("plan"):
        planned, whole = _planned(spec, files, sources, device, limits, verdicts, pace)
    if on_plan is not None:
        on_plan(planned)
    reels = [Reel(*each) for each in zip(planned.parts, sources, files, strict=True)]

    def assemble(*collaborators: Any) -> JoiningAssembly:
        return JoiningAssembly(reels, *collaborators)

    with watch.stage("run"):
        result = run(
            planned, whole, files[0], folder,
            limits=limits, on_progress=on_progress, cancelled=cancelled, cipher=cipher, assemble=assemble,
        )  # fmt: skip
    with watch.stage("verify"):
        verify(planned, result, folder)
    return result.model_copy(update={"report": watch.report(whole)})
