"""Target quality: the CRF of each rung that asks for one is found by measuring samples, before the whole is planned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from pipelines.encoders import DEFAULT_CRF
from pipelines.errors import UnsupportedSpec
from pipelines.quality.findings import Probe, RungFinding
from pipelines.quality.metrics import Metric, Score, Tallied, has_metric, measure, paired, timed_frames
from pipelines.quality.rates import Place, crf_for, drafted, with_rates
from pipelines.quality.sampling import Bench, Sample, lossless, make_samples
from pipelines.quality.search import Search, search_for
from pipelines.quality.spans import SampleSpan, sample_spans
from pipelines.rate_control import TargetQuality
from pipelines.rendition import Plan, VideoRendition
from pipelines.spec import FileJob

SAME_TIME = Fraction(1, 500)
"""Samples' files count milliseconds."""

MakePlan = Callable[[FileJob], Plan]


@dataclass
class _Rung:
    """One rung being searched: values by CRF, with what they took."""

    search: Search
    values: dict[float, float] = field(default_factory=dict)
    probes: list[Probe] = field(default_factory=list)


def rendition_at(plan: Plan, place: Place) -> VideoRendition | None:
    """What a rung became in a plan; None where it is not encoded."""
    name, rung = place
    return next(
        (
            each
            for output in plan.outputs
            if output.name == name
            for each in output.renditions
            if isinstance(each, VideoRendition) and each.rung == rung
        ),
        None,
    )


def seek_targets(
    spec: FileJob, goals: Mapping[Place, TargetQuality], bench: Bench, make_plan: MakePlan, make_cpu_plan: MakePlan
) -> tuple[FileJob, tuple[RungFinding, ...]]:
    """The job with a CRF for each goal, and what was found. `make_cpu_plan` plans for the CPU alone.

    UnsupportedSpec where this FFmpeg lacks a metric; what `run` raises.
    """
    for goal in goals.values():
        if not has_metric(goal.metric):
            raise UnsupportedSpec(f"this FFmpeg has no filter {goal.metric}", stage="plan", metric=goal.metric)
    draft = make_plan(drafted(spec))
    rungs = {
        place: _Rung(search_for(goal, made.codec, DEFAULT_CRF[made.codec], hardware=made.placement == "hardware"))
        for place, goal in goals.items()
        if (made := rendition_at(draft, place)) is not None
    }
    if rungs:
        _seek(spec, rungs, bench, make_plan, make_cpu_plan)
    found = {place: _finding(place, rung) for place, rung in rungs.items()}
    rates = {place: crf_for(goals[place], finding.crf) for place, finding in found.items()}
    # what is not encoded after all needs no CRF
    return drafted(with_rates(spec, rates)), tuple(found.values())


def _seek(
    spec: FileJob, rungs: Mapping[Place, _Rung], bench: Bench, make_plan: MakePlan, make_cpu_plan: MakePlan
) -> None:
    cpu_plan = make_cpu_plan(drafted(spec))
    pictures = {place: made for place in rungs if (made := rendition_at(cpu_plan, place)) is not None}
    spans = sample_spans(cpu_plan, list(pictures.values()))
    references = {
        number: dict(
            zip(
                pictures,
                make_samples(bench, cpu_plan, [lossless(each) for each in pictures.values()], span, f"whole-{number}"),
                strict=True,
            )
        )
        for number, span in enumerate(spans)
    }
    while True:
        asked = {
            place: crf for place, rung in rungs.items() if (crf := rung.search.next_probe(rung.values)) is not None
        }
        if not asked:
            break
        tried = {place: crf_for(rungs[place].search.goal, crf) for place, crf in asked.items()}
        plan = make_plan(drafted(with_rates(spec, tried)))
        _probe(plan, asked, rungs, bench, spans, references)
    for samples in references.values():
        _remove(samples.values())


def _probe(
    plan: Plan,
    asked: Mapping[Place, float],
    rungs: Mapping[Place, _Rung],
    bench: Bench,
    spans: tuple[SampleSpan, ...],
    references: Mapping[int, Mapping[Place, Sample]],
) -> None:
    """Measures one CRF of each rung over all samples."""
    renditions = {place: made for place in asked if (made := rendition_at(plan, place)) is not None}
    values: dict[Place, Tallied] = {place: Tallied(rungs[place].search.goal.metric, []) for place in renditions}
    bits: dict[Place, list[tuple[int, float]]] = {place: [] for place in renditions}
    for number, span in enumerate(spans):
        samples = make_samples(bench, plan, list(renditions.values()), span, f"probe-{number}")
        for place, sample in zip(renditions, samples, strict=True):
            reference = references[number][place]
            if sample.frames and reference.frames:
                values[place].values += compared(reference, sample, values[place].metric).values
                bits[place].append((sample.bytes, sample.seconds))
        _remove(samples)
    for place, crf in asked.items():
        rung, score = rungs[place], values[place].score() if place in values else None
        if score is None:
            raise UnsupportedSpec("no pictures could be measured for target_quality", stage="plan", output=place[0])
        rung.values[crf] = score.mean
        rung.probes.append(Probe(crf=crf, score=score, bit_rate=_bit_rate(bits[place])))


def compared(reference: Sample, sample: Sample, metric: Metric) -> Tallied:
    return measure(paired(timed_frames(reference.path), timed_frames(sample.path), SAME_TIME), [metric])[0]


def _bit_rate(parts: list[tuple[int, float]]) -> int | None:
    seconds = sum(length for _, length in parts)
    return round(sum(size for size, _ in parts) * 8 / seconds) if seconds else None


def _remove(samples: Iterable[Sample]) -> None:
    for sample in samples:
        sample.path.unlink(missing_ok=True)


def _finding(place: Place, rung: _Rung) -> RungFinding:
    crf = rung.search.chosen(rung.values)
    score: Score = next(probe.score for probe in rung.probes if probe.crf == crf)
    return RungFinding(
        output=place[0],
        rung=place[1],
        goal=rung.search.goal,
        crf=crf,
        score=score,
        reached=rung.search.reached(rung.values),
        probes=tuple(rung.probes),
    )
