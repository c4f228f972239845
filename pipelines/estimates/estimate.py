"""How long a plan will take, and how much it will write. Pure.

Parts that run at one place, the CPU or the GPU, share it, so their times add up; the two places work at once, so the
slower one decides. Sound, text, filters and reading are not counted: speeds that are learned from attempts hold what
goes on beside the coders.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pipelines.estimates.size import estimated_size
from pipelines.estimates.speeds import Speeds, effort_of
from pipelines.estimates.work import Estimate, Pace, Work
from pipelines.rendition import DecodePlan, Plan, VideoRendition
from pipelines.source import SourceInfo, VideoInfo

USUAL_RATE = 25.0
"""Of a source that does not say how many pictures a second it has."""

_KNOWN_BY = {"learned": "learned from attempts", "measured": "by a short trial", "derived": "derived from others"}


def estimated(plan: Plan, source: SourceInfo, pace: Pace) -> Plan:
    """The plan with its estimate."""
    return plan.model_copy(update={"estimate": estimate(plan, source, pace)})


def estimate(plan: Plan, source: SourceInfo, pace: Pace) -> Estimate:
    work = tuple(_work(plan, source, pace))
    speed, reasons = _speed(work)
    size, size_reasons = estimated_size(plan, source)
    duration = plan.duration_seconds
    if duration is None:
        reasons.append("the source does not say how long it is")
    return Estimate(
        speed=None if speed is None else _rounded(speed),
        seconds=None if speed is None or duration is None else _rounded(duration / speed),
        size_bytes=size,
        work=work,
        because=(*(_described(part) for part in work), *reasons, *size_reasons),
    )


def expected_cost(work: tuple[Work, ...]) -> tuple[float, str] | None:
    """Seconds of work for each second of the source at the place that has most; None where a speed is not known."""
    costs: dict[str, float] = defaultdict(float)
    for part in work:
        if part.cost is None:
            return None
        costs[part.place] += part.cost
    return max(((cost, place) for place, cost in costs.items()), default=None)


def _work(plan: Plan, source: SourceInfo, pace: Pace) -> Iterator[Work]:
    places = {"software": Speeds.of(pace.cpu), "hardware": Speeds.of(pace.gpu)}
    tracks = {track.index: track for track in source.video}
    for decode in plan.decode:
        track = tracks.get(decode.stream)
        if decode.kind == "video" and track is not None:
            yield _known(_decoding(decode, track), places)
    for output in plan.outputs:
        for rendition in output.renditions:
            if isinstance(rendition, VideoRendition):
                yield _known(_encoding(rendition), places)


def _decoding(decode: DecodePlan, track: VideoInfo) -> Work:
    rate = float(track.frame_rate or USUAL_RATE)
    pixels = track.width * track.height * rate
    return Work(place=decode.placement, stage="decode", coder=track.codec, pixels=pixels)


def _encoding(rendition: VideoRendition) -> Work:
    return Work(
        place=rendition.placement,
        stage="encode",
        coder=rendition.encoder,
        effort=effort_of(rendition.encoder, rendition.options),
        pixels=rendition.width * rendition.height * float(rendition.frame_rate / rendition.pace),
    )


def _known(work: Work, places: dict[str, Speeds]) -> Work:
    found = places[work.place].find(work.stage, work.coder, work.effort)
    if found is None:
        return work
    return work.model_copy(update={"pixels_per_second": found.pixels_per_second, "basis": found.basis})


def _speed(work: tuple[Work, ...]) -> tuple[float | None, list[str]]:
    if not work:
        return None, ["no pictures are decoded or encoded: how fast that goes is not predicted"]
    cost = expected_cost(work)
    if cost is None:
        return None, ["how long it takes can't be said while a speed is not known"]
    reasons = []
    if len({part.place for part in work}) > 1:
        reasons.append(f"CPU and GPU work at once; the {'CPU' if cost[1] == 'software' else 'GPU'} has more to do")
    elif len(work) > 1:
        reasons.append("these share the device, so their times add up")
    return 1 / cost[0], reasons


def _described(part: Work) -> str:
    effort = f", {part.effort}" if part.effort else ""
    what = f"{part.stage} {part.coder} ({part.place}{effort})"
    if part.pixels_per_second is None or part.basis is None:
        return f"{what}: its speed is not known on this device"
    own = part.pixels_per_second / part.pixels
    return f"{what}: {part.pixels_per_second / 1e6:.3g} Mpixel/s {_KNOWN_BY[part.basis]}, {own:.3g} × real time alone"


def _rounded(value: float) -> float:
    """To three digits: it is an estimate."""
    return float(f"{value:.3g}")
