"""Per-title ladders: what a film's rungs take is measured on samples; caps follow from it, and useless rungs go."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from pipelines.asked.ladders import LADDER_VIDEO, Ladder
from pipelines.asked.rungs import Rung
from pipelines.encoders import DEFAULT_CRF
from pipelines.ladder import EFFICIENCY, auto_rungs, paced
from pipelines.planning.choice import main_video
from pipelines.planning.size import seen_by
from pipelines.quality.findings import TitleRung
from pipelines.quality.sampling import Bench, make_samples
from pipelines.quality.spans import sample_spans
from pipelines.quality.target import MakePlan, rendition_at
from pipelines.rate_control import Crf
from pipelines.source import VideoInfo
from pipelines.spec import FileJob

HEADROOM = 1.5
"""Of a cap above the busiest sample at the codec's usual quality."""
MOST_OF_USUAL = 2.0
"""Noise may take twice what is usual for its size, and never more than the source itself."""
LEAST_CAP = 100_000
WORTH = 0.75
"""A rung that takes more than this share of the one above it saves too little."""
ENOUGH_BITS = 150_000
"""bit/s: below a rung that takes no more, a smaller one is of no use."""


def titled(spec: FileJob, bench: Bench, make_plan: MakePlan) -> tuple[FileJob, tuple[TitleRung, ...]]:
    """The job with measured rungs in place of `auto` in its per-title ladders, and what was found."""
    outputs, found = [], []
    for output in spec.outputs or ():
        track = main_video(bench.source.video)
        if not isinstance(output, Ladder) or not output.per_title or track is None:
            outputs.append(output)
            continue
        seen = paced(seen_by(output.common, track), output.pace)
        codec = LADDER_VIDEO[output.kind][0]
        rungs = auto_rungs(seen, codec)
        plain = [rung.model_copy(update={"rate_control": Crf(crf=DEFAULT_CRF[codec])}) for rung in rungs]
        alone = output.model_copy(update={"video": tuple(plain), "per_title": False, "copy_if_fits": False})
        rates = _measured(spec.model_copy(update={"outputs": (alone,)}), str(output.name), len(rungs), bench, make_plan)
        decided = decide_rungs(str(output.name), rungs, rates, seen)
        kept = tuple(
            rung.model_copy(update={"rate_control": _control(rung, title)})
            for rung, title in zip(rungs, decided, strict=True)
            if title.kept
        )
        outputs.append(output.model_copy(update={"video": kept, "per_title": False}))
        found += decided
    return spec.model_copy(update={"outputs": tuple(outputs)}), tuple(found)


def _measured(
    spec: FileJob, name: str, count: int, bench: Bench, make_plan: MakePlan
) -> list[tuple[float, float] | None]:
    """bit/s of each rung: over all samples, and in the busiest. None for what is not encoded."""
    plan = make_plan(spec)
    made = {n: each for n in range(count) if (each := rendition_at(plan, (name, n))) is not None}
    bits: dict[int, list[tuple[float, float]]] = {n: [] for n in made}
    for span in sample_spans(plan, list(made.values())):
        samples = make_samples(bench, plan, list(made.values()), span, "title")
        for number, sample in zip(made, samples, strict=True):
            if sample.seconds:
                bits[number].append((sample.bytes * 8, sample.seconds))
            sample.path.unlink(missing_ok=True)
    return [_rates(bits.get(number, [])) for number in range(count)]


def _rates(parts: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    if not parts:
        return None
    return sum(b for b, _ in parts) / sum(s for _, s in parts), max(b / s for b, s in parts)


def decide_rungs(
    output: str, rungs: Sequence[Rung], rates: Sequence[tuple[float, float] | None], source: VideoInfo
) -> list[TitleRung]:
    """Pure: caps and what goes, from the largest rung down. The first is always kept."""
    decided: list[TitleRung] = []
    above: float | None = None
    for rung, rate in zip(rungs, rates, strict=True):
        usual = rung.rate_control.maxrate if isinstance(rung.rate_control, Crf) else None
        mean, peak = rate or (None, None)
        cap = usual if peak is None or usual is None else _cap(peak, usual, source, str(rung.codec))
        dropped = None if above is None or mean is None else _useless(mean, above)
        words = "nothing could be measured" if mean is None else f"samples take {mean / 1000:.0f} kbit/s"
        reason = f"{words}: {dropped}" if dropped else f"{words}: capped at {(cap or 0) / 1000:.0f} kbit/s"
        if dropped is None and mean is not None:
            above = mean
        decided.append(
            TitleRung(
                output=output,
                height=rung.height,
                width=rung.width,
                bit_rate=None if mean is None else round(mean),
                usual_maxrate=usual,
                maxrate=None if dropped else cap,
                kept=dropped is None,
                reason=reason,
            )
        )
    return decided


def _useless(mean: float, above: float) -> str | None:
    if above <= ENOUGH_BITS:
        return f"left out, for the rung above takes {above / 1000:.0f} kbit/s alone"
    if mean > WORTH * above:
        return f"left out, for it saves less than a quarter of the {above / 1000:.0f} kbit/s of the rung above"
    return None


def _cap(peak: float, usual: int, source: VideoInfo, codec: str) -> int:
    most = usual * MOST_OF_USUAL
    own = EFFICIENCY.get(source.codec)
    if source.bit_rate and own is not None:
        most = min(most, source.bit_rate * EFFICIENCY[codec] / own)
    return max(LEAST_CAP, ceil(min(peak * HEADROOM, most) / 10_000) * 10_000)


def _control(rung: Rung, title: TitleRung) -> Crf | None:
    usual = rung.rate_control
    if not isinstance(usual, Crf) or title.maxrate is None:
        return usual if isinstance(usual, Crf) else None
    return Crf(crf=usual.crf, maxrate=title.maxrate, bufsize=2 * title.maxrate)
