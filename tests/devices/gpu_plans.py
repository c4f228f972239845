"""Plans for a GPU made from software plans by moving their stages, so that runs are tested whatever `plan` decides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines.devices import software_device
from pipelines.hardware.encoders import HARDWARE_ENCODERS, SURFACES, encoder_options
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.plan import plan
from pipelines.probe import probe
from pipelines.rate_control import Cqp, RateControl
from pipelines.rendition import OutputPlan, Placement, Plan, VideoRendition
from pipelines.result import Result
from pipelines.run import run
from pipelines.spec import FileJob
from pipelines.verify import verify

CPU = software_device(1)
FINE = Cqp(qp=20)


@dataclass(frozen=True)
class Places:
    """Where the stages of every video rendition are. `frames`: where decoded pictures lie."""

    decode: Placement = "hardware"
    frames: Placement = "hardware"
    filters: Placement = "hardware"
    encode: Placement = "hardware"
    rate_control: RateControl = FINE
    api: Literal["vaapi", "qsv"] = "vaapi"
    speed: str = "medium"


FULL = Places()
SOFTWARE = Places("software", "software", "software", "software")


def moved(planned: Plan, node: str, places: Places) -> Plan:
    """`planned` with its video stages at `places`."""
    if places == SOFTWARE:
        return planned
    decode = tuple(
        each.model_copy(update={"placement": places.decode, "frames": places.frames}) if each.kind == "video" else each
        for each in planned.decode
    )
    outputs = tuple(_output(output, places) for output in planned.outputs)
    changes = {"device": "gpu", "device_path": node, "decode": decode, "outputs": outputs}
    return planned.model_copy(update=changes)


def _output(output: OutputPlan, places: Places) -> OutputPlan:
    renditions = tuple(
        _rendition(each, places) if isinstance(each, VideoRendition) else each for each in output.renditions
    )
    return output.model_copy(update={"renditions": renditions})


def _rendition(rendition: VideoRendition, places: Places) -> VideoRendition:
    changes: dict[str, Any] = {"filter_placement": places.filters, "placement": places.encode}
    if places.encode == "hardware":
        encoder = HARDWARE_ENCODERS[rendition.codec, places.api]
        surface = SURFACES[rendition.codec][rendition.pixel_format]
        options = encoder_options(encoder, places.rate_control, places.speed, rendition.gop_frames, rendition.colour)
        filters = tuple(
            step.model_copy(update={"pixel_format": surface}) if hasattr(step, "pixel_format") else step
            for step in rendition.filters
        )
        changes |= {"encoder": encoder, "pixel_format": surface, "options": options, "filters": filters}
    return rendition.model_copy(update=changes)


def go(path: Path, folder: Path, node: str, places: Places, *outputs: dict[str, Any], **job: Any) -> Result:
    """Runs the job with its stages at `places`, and verifies what was written."""
    spec = FileJob.model_validate(
        {"input": {"path": path.name, **job.pop("input", {})}, "outputs": list(outputs), **job}
    )
    file = LocalFile(path, path.name)
    source = probe(file, Limits())
    planned = moved(plan(spec, source, CPU), node, places)
    folder.mkdir(exist_ok=True)
    result = run(planned, source, file, folder, limits=Limits())
    verify(planned, result, folder)
    return result


def made(path: Path, folder: Path, node: str, places: Places = FULL, kind: str = "mp4", **video: Any) -> Path:
    """One video output; its path."""
    result = go(path, folder, node, places, {"type": kind, "video": {"codec": "h264", **video}})
    return folder / result.outputs[0].path
