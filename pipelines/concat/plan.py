"""The plan of a job whose inputs are joined: planned for the first, what differs is fitted into that. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pipelines.asked.rungs import AudioSpec, Rung
from pipelines.concat.values import Part
from pipelines.devices import Device, Verdict
from pipelines.errors import LimitExceeded, UnsupportedSpec
from pipelines.filters import Deinterlace, Filter
from pipelines.limits import Limits
from pipelines.plan import plan
from pipelines.planning.choice import default_of, main_video
from pipelines.planning.output import check_dolby_vision
from pipelines.planning.placement import ANY_CODEC
from pipelines.planning.timing import plan_fields
from pipelines.rendition import AudioRendition, CopyRendition, Plan, VideoRendition
from pipelines.result import Warning
from pipelines.source import AudioInfo, Chapter, SourceInfo, VideoInfo
from pipelines.spec import AudioOutput, CopyOutput, FileJob, Input, LadderOutput, Output

FORMAT = "joined"
"""In place of a demuxer's name: nothing that is true of one format is true of all inputs."""
IN_MEMORY = "inputs are joined: their pictures are decoded in memory"


def plan_joined(
    spec: FileJob,
    sources: Sequence[SourceInfo],
    names: Sequence[str],
    device: Device,
    verdicts: Sequence[Verdict] = (),
) -> Plan:
    """`sources` and `names` are those of the spec's inputs. UnsupportedSpec, and what `plan` raises."""
    whole = joined_source(spec, sources, names)
    spans, tracks = _spans(spec, sources), whole.audio
    lead = whole.video[0] if whole.video else None
    pictures = [main_video(source.video) for source in sources]
    kinds = {each.colour.transfer if each.colour.is_hdr else None for each in pictures if each}
    sdr = lead is not None and len(kinds) > 1
    for asked_of in spec.outputs or ():
        _check_fields(asked_of)
    outputs = tuple(_output(output, lead, sdr=sdr) for output in spec.outputs or ())
    asked = spec.model_copy(
        update={"outputs": outputs, "inputs": None, "input": spec.input.model_copy(update={"clip": None})}
    )
    in_memory = Verdict(device=device.id, stage="decode", codec=ANY_CODEC, reason=IN_MEMORY)
    made = plan(asked, whole, device, verdicts=(*verdicts, in_memory))
    shown = any(isinstance(each, VideoRendition) for output in made.outputs for each in output.renditions)
    heard = [each.stream for output in made.outputs for each in output.renditions if isinstance(each, AudioRendition)]
    _check_copies(made)
    parts = tuple(
        _part(number, source, span, pictures[number - 1] if shown else None, tracks, set(heard), shown=shown)
        for number, (source, span) in enumerate(zip(sources, spans, strict=True), 1)
    )
    return made.model_copy(update={"parts": parts, "warnings": (*made.warnings, *_left_out(sources))})


def joined_source(spec: FileJob, sources: Sequence[SourceInfo], names: Sequence[str]) -> SourceInfo:
    """The inputs as one: pictures as the first has them, sound as the first that has any."""
    spans = _spans(spec, sources)
    lead = main_video(sources[0].video)
    voice = next((source for source in sources if _decodable(source)), None)
    sounds = () if voice is None else _decodable(voice)
    return SourceInfo(
        format=FORMAT,
        size_bytes=sum(source.size_bytes or 0 for source in sources) or None,
        duration_seconds=round(sum(length for _, _, length in spans), 6),
        video=() if lead is None else (lead.model_copy(update={"index": 0, "position": 0, "start_seconds": 0.0}),),
        audio=tuple(track.model_copy(update={"index": 1 + n, "position": n}) for n, track in enumerate(sounds)),
        chapters=_chapters(spans, names) if spec.input_chapters else (),
        metadata=sources[0].metadata,
    )


def check_sum(plan: Plan, limits: Limits) -> None:
    """LimitExceeded when the inputs together last longer than one may."""
    seconds = sum(part.duration_seconds for part in plan.parts)
    if seconds > limits.max_duration_seconds:
        message = f"the inputs last {seconds:.0f} s together; {limits.max_duration_seconds:.0f} s are allowed"
        raise LimitExceeded("limit_duration", message, stage="plan", limit=limits.max_duration_seconds)


def _spans(spec: FileJob, sources: Sequence[SourceInfo]) -> list[tuple[float, float | None, float]]:
    inputs = zip(spec.all_inputs, sources, strict=True)
    return [_span(number, *each) for number, each in enumerate(inputs, 1)]


def _span(number: int, asked: Input, source: SourceInfo) -> tuple[float, float | None, float]:
    """Start, end and length. Without a promised length the end of a clip must say it."""
    clip, whole = asked.clip, source.duration_seconds
    start = 0.0 if clip is None else clip.start
    if whole is not None and start >= whole:
        raise UnsupportedSpec(f"the clip of input {number} starts at {start:g} s, it ends at {whole:g} s", stage="plan")
    ends = [end for end in (whole, None if clip is None else clip.end) if end is not None]
    if not ends:
        raise UnsupportedSpec(
            f"input {number} does not say how long it is: give its clip an end", stage="plan", input=number
        )
    end = None if clip is None or clip.end is None else source.start_seconds + clip.end
    return source.start_seconds + start, end, min(ends) - start


def _decodable(source: SourceInfo) -> tuple[AudioInfo, ...]:
    return tuple(track for track in source.audio if track.decodable and not track.empty)


def _chapters(spans: Sequence[tuple[float, float | None, float]], names: Sequence[str]) -> tuple[Chapter, ...]:
    chapters, at = [], 0.0
    for (_, _, length), name in zip(spans, names, strict=True):
        title = name.rpartition("/")[2].rpartition(".")[0] or name
        chapters.append(Chapter(start_seconds=at, end_seconds=at + length, title=title[:200]))
        at += length
    return tuple(chapters)


def _check_fields(output: Output) -> None:
    rungs = getattr(output, "video", None)
    for rung in rungs if isinstance(rungs, tuple) else (rungs,):
        if isinstance(rung, Rung) and rung.deinterlace == "ivtc":
            raise UnsupportedSpec("3:2 pulldown is not taken back where inputs are joined", stage="plan", filter="ivtc")


def _output(output: Output, lead: VideoInfo | None, *, sdr: bool) -> Output:
    """At the first's frame rate, without a loudness that nobody measured, and in SDR where not all inputs are HDR."""
    changes: dict[str, Any] = {}
    if isinstance(output, CopyOutput):
        raise UnsupportedSpec("joined inputs are encoded: none is copied", stage="plan", output=output.name)
    sounds = output.sounds if isinstance(output, LadderOutput) else (getattr(output, "audio", None),)
    if any(isinstance(sound, AudioSpec) and sound.loudness is not None for sound in sounds):
        raise UnsupportedSpec("loudness is measured of one input, not of several", stage="plan", output=output.name)
    if isinstance(output, AudioOutput):
        return output
    video = getattr(output, "video", None)
    if lead is not None and isinstance(video, Rung):
        changes["video"] = _rung(video, lead, sdr=sdr)
    elif lead is not None and isinstance(video, tuple):
        changes["video"] = tuple(_rung(each, lead, sdr=sdr) for each in video)
    elif sdr:
        raise UnsupportedSpec("give the rungs: HDR and SDR inputs have no automatic ladder", stage="plan")
    return output.model_copy(update=changes)


def _rung(rung: Rung, lead: VideoInfo, *, sdr: bool) -> Rung:
    changes: dict[str, Any] = {}
    if rung.frame_rate is None and lead.frame_rate is not None:
        changes["frame_rate"] = lead.frame_rate
    if sdr:
        if rung.pixel_format is not None and "10" in rung.pixel_format:
            raise UnsupportedSpec("HDR and SDR inputs are joined as SDR, in 8 bits", stage="plan")
        changes["pixel_format"] = rung.pixel_format or "yuv420p"
    return rung.model_copy(update=changes)


def _check_copies(made: Plan) -> None:
    for output in made.outputs:
        if any(isinstance(each, CopyRendition) for each in output.renditions):
            raise UnsupportedSpec("joined inputs are encoded: none is copied", stage="plan", output=output.name)
        if not all(isinstance(each, VideoRendition | AudioRendition) for each in output.renditions):
            raise UnsupportedSpec(f"{output.type} is made of one input", stage="plan", output=output.name)


def _part(
    number: int,
    source: SourceInfo,
    span: tuple[float, float | None, float],
    picture: VideoInfo | None,
    tracks: Sequence[AudioInfo],
    heard: set[int],
    *,
    shown: bool,
) -> Part:
    if shown and picture is None:
        raise UnsupportedSpec(f"input {number} has no picture that can be decoded", stage="plan", input=number)
    own = _decodable(source)
    pairs = tuple((track.index, _own(track, own)) for track in tracks if track.index in heard)
    reasons = [f"input {number}"]
    fields: tuple[Filter, ...] = ()
    if picture is not None:
        check_dolby_vision(picture)
        reasons.append(f"{picture.width}×{picture.height}")
        fields = plan_fields(Rung(), picture, reasons)
        fields = tuple(step for step in fields if not isinstance(step, Deinterlace) or not step.bob)
    if any(stream is None for _, stream in pairs):
        reasons.append("silence where it has no sound")
    start, end, length = span
    return Part(
        start_seconds=start,
        end_seconds=end,
        duration_seconds=length,
        video=None if picture is None else picture.index,
        audio=pairs,
        fields=fields,
        sample_aspect_ratio=Fraction(1) if picture is None else picture.sample_aspect_ratio,
        reason="; ".join(reasons),
    )


def _own(track: AudioInfo, own: Sequence[AudioInfo]) -> int | None:
    """The input's track for one of the plan: in its language, else at its place, else the default one."""
    if not own:
        return None
    same = [each for each in own if track.language is not None and each.language == track.language]
    if same:
        return same[0].index
    if track.position < len(own):
        return own[track.position].index
    default = default_of(own)
    return own[0].index if default is None else default.index


def _left_out(sources: Sequence[SourceInfo]) -> tuple[Warning, ...]:
    if not any(source.subtitles or source.pictures for source in sources):
        return ()
    return (Warning(code="track_dropped", message="inputs are joined: subtitles and covers are left out"),)
