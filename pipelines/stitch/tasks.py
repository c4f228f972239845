"""The three kinds of tasks of a job that is cut: where to cut, one piece, the whole. Each probes and plans anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipelines.devices import Device
from pipelines.facts.survey import examine
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.plan import plan
from pipelines.rendition import Plan
from pipelines.report import Stopwatch
from pipelines.result import Result
from pipelines.run import OnProgress
from pipelines.source import Facts, SourceInfo
from pipelines.spec import FileJob
from pipelines.stitch.cuts import MAX_PIECES, find_cuts, plan_refusal
from pipelines.stitch.joining import Piece, join
from pipelines.stitch.piece import PieceResult, PieceSpec, pieces_of, run_piece
from pipelines.timestamps import microseconds
from pipelines.verify import verify

OnPlan = Callable[[Plan], None]


class Cutting(Facts):
    """The pieces of a job, in order; none: it is to be done in one, for this reason."""

    pieces: tuple[PieceSpec, ...] = Field((), max_length=MAX_PIECES)
    seconds: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] = Field((), max_length=MAX_PIECES)
    """How long each of them is."""
    reason: str = ""


class CutRules(Facts):
    """Inputs of less than `least_seconds` stay whole; pieces are about `piece_seconds` long."""

    least_seconds: float
    piece_seconds: float


def cut(spec: FileJob, file: LocalFile, device: Device, limits: Limits, rules: CutRules) -> Cutting:
    """Where a job is to be cut whose spec allows it (see `cuts.spec_refusal`)."""
    source, planned = _planned(spec, file, device, limits)
    refusal = plan_refusal(planned, source)
    if refusal is not None:
        return Cutting(reason=refusal)
    assert source.duration_seconds is not None
    if source.duration_seconds < rules.least_seconds:
        return Cutting(reason=f"it is shorter than {rules.least_seconds:g} s")
    if round(source.duration_seconds / rules.piece_seconds) < 2:
        return Cutting(reason=f"it is too short for two pieces of {rules.piece_seconds:g} s")
    cuts = find_cuts(file, source, planned, rules.piece_seconds, limits)
    if not cuts:
        return Cutting(reason="there is no keyframe where it could be cut")
    start = microseconds(source.start_seconds)
    ends = (start, *cuts, start + microseconds(source.duration_seconds))
    return Cutting(pieces=pieces_of(cuts), seconds=tuple(float(end - begin) for begin, end in pairwise(ends)))


def encode_piece(
    spec: FileJob,
    piece: PieceSpec,
    file: LocalFile,
    folder: Path,
    device: Device,
    limits: Limits,
    on_plan: OnPlan,
    on_progress: OnProgress,
) -> PieceResult:
    source, planned = _planned(spec, file, device, limits)
    on_plan(planned)
    return run_piece(planned, piece, source, file, folder, limits=limits, on_progress=on_progress)


def stitch(
    spec: FileJob,
    pieces: Sequence[Piece],
    file: LocalFile,
    folder: Path,
    device: Device,
    limits: Limits,
    on_plan: OnPlan,
    on_progress: OnProgress,
) -> Result:
    """PiecesDiffer: they do not go together, and the job is to be done in one."""
    watch = Stopwatch()
    with watch.stage("probe"):
        source = examine(spec, file, limits)
    with watch.stage("plan"):
        planned = plan(spec, source, device)
    on_plan(planned)
    with watch.stage("run"):
        result = join(planned, pieces, source, file, folder, limits=limits, on_progress=on_progress)
    with watch.stage("verify"):
        verify(planned, result, folder)
    return result.model_copy(update={"report": watch.report(source)})


def _planned(spec: FileJob, file: LocalFile, device: Device, limits: Limits) -> tuple[SourceInfo, Plan]:
    source = examine(spec, file, limits)
    return source, plan(spec, source, device)
