"""Rate controls that depend on measuring: where a job asks for them, and the job with what was found in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipelines.asked.ladders import LADDER_VIDEO, Ladder
from pipelines.asked.rungs import VIDEO_CODECS, Rung
from pipelines.encoders import DEFAULT_CRF
from pipelines.ladder import MAX_AUTO_RUNGS
from pipelines.rate_control import Crf, RateControl, TargetQuality
from pipelines.rendition import OutputPlan, VideoRendition
from pipelines.spec import FileJob

Place = tuple[str, int]
"""An output's name, and the rung's place in it."""


def rungs_of(spec: FileJob) -> Iterator[tuple[Place, Rung]]:
    for output in spec.outputs or ():
        video: Any = getattr(output, "video", None)
        found = video if isinstance(video, tuple) else (video,)
        for number, rung in enumerate(found):
            if isinstance(rung, Rung):
                yield (str(output.name), number), rung


def goals_of(spec: FileJob) -> dict[Place, TargetQuality]:
    return {place: rung.rate_control for place, rung in rungs_of(spec) if isinstance(rung.rate_control, TargetQuality)}


def needs_measuring(spec: FileJob) -> bool:
    """Whether the job leaves anything to measuring."""
    return bool(goals_of(spec)) or any(isinstance(output, Ladder) and output.per_title for output in spec.outputs or ())


def drafted(spec: FileJob) -> FileJob:
    """The job with each codec's usual CRF where one is to be found, as far as the goal's bounds allow."""
    rates: dict[Place, RateControl] = {}
    codecs = {
        str(output.name): LADDER_VIDEO[output.kind][0]
        if isinstance(output, Ladder)
        else _usual(getattr(output, "container", ""))
        for output in spec.outputs or ()
    }
    for place, rung in rungs_of(spec):
        if isinstance(rung.rate_control, TargetQuality):
            usual = DEFAULT_CRF[rung.codec or codecs[place[0]]]
            rates[place] = crf_for(rung.rate_control, usual)
    return with_rates(spec, rates)


def _usual(container: str) -> str:
    return VIDEO_CODECS[container][0] if container in VIDEO_CODECS else "h264"


def crf_for(goal: TargetQuality, crf: float) -> Crf:
    """`crf` within the goal's bounds, with its cap."""
    crf = crf if goal.min_crf is None else max(crf, goal.min_crf)
    crf = crf if goal.max_crf is None else min(crf, goal.max_crf)
    return Crf(crf=crf, maxrate=goal.max_bitrate)


def with_rates(spec: FileJob, rates: Mapping[Place, RateControl]) -> FileJob:
    """The job with these rate controls in place of what its rungs ask for."""
    outputs = []
    for output in spec.outputs or ():
        name, video = str(output.name), getattr(output, "video", None)
        if isinstance(video, tuple):
            video = tuple(_with_rate(rung, rates.get((name, number))) for number, rung in enumerate(video))
        elif isinstance(video, Rung):
            video = _with_rate(video, rates.get((name, 0)))
        else:
            outputs.append(output)
            continue
        outputs.append(output.model_copy(update={"video": video}))
    return spec.model_copy(update={"outputs": tuple(outputs)})


def _with_rate(rung: Rung, rate: RateControl | None) -> Rung:
    return rung if rate is None else rung.model_copy(update={"rate_control": rate})


def to_be_measured(spec: FileJob) -> dict[Place, str]:
    """Why a plan made before measuring is not the last word on a rung."""
    titled = {
        (str(output.name), number): "per title: measuring samples decides its cap, and whether it is made, when it runs"
        for output in spec.outputs or ()
        if isinstance(output, Ladder) and output.per_title
        for number in range(MAX_AUTO_RUNGS)
    }
    return titled | {
        place: f"{goal.metric} {goal.value:g} is asked for: its CRF is found by measuring samples when it runs"
        for place, goal in goals_of(spec).items()
    }


def with_reasons(outputs: Iterable[OutputPlan], reasons: Mapping[Place, str]) -> tuple[OutputPlan, ...]:
    """With these added to what the rungs' renditions give as their reasons."""
    return tuple(_told(output, reasons) for output in outputs)


def _told(output: OutputPlan, reasons: Mapping[Place, str]) -> OutputPlan:
    renditions = tuple(
        each.model_copy(update={"reason": f"{each.reason}; {reasons[output.name, each.rung]}"})
        if isinstance(each, VideoRendition) and (output.name, each.rung) in reasons
        else each
        for each in output.renditions
    )
    return output.model_copy(update={"renditions": renditions})
