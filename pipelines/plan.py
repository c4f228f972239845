"""`plan`: from what is asked, what the source is and what the device can do, to what will be done and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from pipelines.asked.ladders import CmafLadder, DashLadder, HlsLadder
from pipelines.devices import Device, Verdict, software_device
from pipelines.errors import BadInput, UnsupportedSpec
from pipelines.pictures.plan import PictureAssembly
from pipelines.planning.decode import check_use, plan_decoders
from pipelines.planning.finish import with_ends
from pipelines.planning.ladder import LadderAssembly
from pipelines.planning.output import FileAssembly, Notes
from pipelines.planning.placement import Site
from pipelines.quality.rates import drafted, to_be_measured, with_reasons
from pipelines.rendition import OutputPlan, Plan
from pipelines.size_guard import size_limit
from pipelines.source import SourceInfo
from pipelines.spec import FileJob, FileOutput, LadderOutput, PictureOutput


def plan(
    spec: FileJob,
    source: SourceInfo,
    device: Device,
    *,
    verdicts: Sequence[Verdict] = (),
    cpu: Device | None = None,
) -> Plan:
    """The plan of a job whose preset is resolved. What `verdicts` speak of is not tried.

    `cpu` works beside a GPU: for sound and subtitles, and for the pictures that the GPU can't encode; when not given,
    it is this build's software. UnsupportedSpec: something asked for can't be done on this source or device.
    DeviceUnsuitable: nothing is left for the GPU to encode, or what is left may not be encoded elsewhere; another
    device may do. BadInput: nothing to transcode.
    """
    if spec.outputs is None:
        raise UnsupportedSpec("the preset is not resolved", stage="plan", preset=spec.preset)
    if spec.device.policy == "hardware" and device.kind == "software":
        raise UnsupportedSpec("hardware was asked for and this device is the CPU", stage="plan")
    if spec.device.policy == "software" and device.kind != "software":
        raise UnsupportedSpec(f"software was asked for and {device.id} is a GPU", stage="plan")
    if not source.video and not source.audio:
        raise BadInput("the input has neither video nor audio", stage="plan")
    open_ends, spec = to_be_measured(spec), drafted(spec)
    start, end, duration = _span(spec, source)
    notes = Notes()
    for track in (*source.video, *source.audio):
        if track.empty:
            notes.add("track_dropped", f"track {track.index} ({track.codec}) is left out: nothing of it is in the file")
    source = source.without_empty_tracks()
    for other in source.other:
        notes.add("track_dropped", f"{other.kind} track {other.index} ({other.codec or 'unknown'}) is left out")
    for track in source.subtitles:
        if track.beside is not None and track.beside.guessed:
            message = f"{track.beside.name} is read as {track.beside.charset}: give its `charset` if that is wrong"
            notes.add("subtitle_charset", message)
    cpu = device if device.kind == "software" else cpu or software_device(1)
    cpu_encodes = spec.device.policy == "auto" and spec.device.fallback
    site = Site(device, cpu, verdicts, cpu_encodes=cpu_encodes, subtitles=source.subtitles)
    clipped = start > source.start_seconds
    outputs = with_reasons(
        (
            _plan_output(output, source, site, notes, clipped=clipped, duration=duration)
            for output in spec.outputs or ()
        ),
        open_ends,
    )
    outputs = with_ends(outputs, duration)
    _check_places(outputs)
    check_use(site, outputs)
    return Plan(
        device=device.id,
        device_path=device.path,
        decode=plan_decoders(outputs, source, site),
        outputs=outputs,
        start_seconds=start,
        end_seconds=end,
        duration_seconds=duration,
        max_missing=spec.max_missing,
        size_limit=size_limit(spec.abort_if_larger, source, duration),
        refusals=site.refusals,
        warnings=notes.warnings(),
    )


def _plan_output(
    output: FileOutput | LadderOutput | PictureOutput,
    source: SourceInfo,
    site: Site,
    notes: Notes,
    *,
    clipped: bool,
    duration: float | None,
) -> OutputPlan:
    if isinstance(output, PictureOutput):
        return PictureAssembly(output, source, site, notes, duration).plan()
    if isinstance(output, HlsLadder | DashLadder | CmafLadder):
        return LadderAssembly(output, source, site, notes, clipped=clipped).plan()
    return FileAssembly(output, source, site, notes).plan(clipped=clipped)


def _check_places(outputs: Sequence[OutputPlan]) -> None:
    """A ladder called `film.mp4` would be a folder where the file of an output called `film` is."""
    taken: set[str] = set()
    for output in outputs:
        place = PurePosixPath(output.path).parts[0].casefold()
        if place in taken:
            raise UnsupportedSpec(f"two outputs would be at {place}", stage="plan", output=output.name)
        taken.add(place)


def _span(spec: FileJob, source: SourceInfo) -> tuple[float, float | None, float | None]:
    """Start and end on the input's clock, and the expected duration of the outputs."""
    clip = spec.input.clip
    whole = source.duration_seconds
    if clip is None:
        return source.start_seconds, None, whole
    if whole is not None and clip.start >= whole:
        raise UnsupportedSpec(
            f"the clip starts at {clip.start:g} s, the input ends at {whole:g} s", stage="plan", duration_seconds=whole
        )
    ends = [end for end in (clip.end, whole) if end is not None]
    duration = min(ends) - clip.start if ends else None
    end = None if clip.end is None else source.start_seconds + clip.end
    return source.start_seconds + clip.start, end, duration
