"""The operations of the engine that a child runs: payloads in, results out, both in JSON's types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy  # noqa: F401 - probing looks at pictures as arrays: imported once, before children are forked
from pydantic import BaseModel, ConfigDict

from pipelines.asked.streams import StreamJob
from pipelines.asked.subtitle_files import SubtitleFile
from pipelines.captions.beside import with_texts
from pipelines.concat.transcode import plan_files, transcode_joined
from pipelines.devices import Device, Verdict
from pipelines.estimates.estimate import estimated
from pipelines.estimates.work import Pace
from pipelines.facts.survey import examine
from pipelines.limits import Limits
from pipelines.live.link import Bridge
from pipelines.live.session import Stopping, run_stream
from pipelines.opening.input import LocalFile
from pipelines.pictures.glimpse import glimpse
from pipelines.plan import plan
from pipelines.probe import probe
from pipelines.spec import FileJob
from pipelines.stitch.joining import Piece
from pipelines.stitch.piece import PieceSpec
from pipelines.stitch.tasks import CutRules, cut, encode_piece, stitch
from pipelines.transcode import transcode
from pipelines.trials.canary import Canary, fly
from pipelines.trials.checks import Check, run_check
from transcoder.aes import encrypt_cbc
from transcoder.children import loopback
from transcoder.children.child import Emit, Op
from transcoder.children.process import LINK_FD, limit_file_size
from transcoder.streams.childlink import ServiceLink


class Payload(BaseModel):
    """What all operations take: a local file under the name its owner gave it, and the operator's limits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    name: str
    beside: dict[str, Path] = {}
    limits: Limits

    @property
    def file(self) -> LocalFile:
        return LocalFile(path=self.path, name=self.name, beside=self.beside)


class ProbePayload(Payload):
    subtitles: tuple[SubtitleFile, ...] = ()


class NamedFile(BaseModel):
    """One more input."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    name: str


class PlanPayload(Payload):
    spec: FileJob
    more: tuple[NamedFile, ...] = ()
    """The other inputs of a job that joins several."""
    device: Device
    verdicts: tuple[Verdict, ...] = ()
    """What is not to be tried on the device."""
    pace: Pace = Pace()

    @property
    def files(self) -> tuple[LocalFile, ...]:
        return (self.file, *(LocalFile(path=each.path, name=each.name) for each in self.more))


class RunPayload(PlanPayload):
    folder: Path


class CutPayload(RunPayload):
    rules: CutRules


class PiecePayload(RunPayload):
    piece: PieceSpec


class StitchPayload(RunPayload):
    pieces: tuple[Piece, ...]


class GlimpsePayload(Payload):
    folder: Path
    width: int
    height: int


class CheckPayload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    check: Check
    node: str | None
    """What a GPU is opened by; None for the CPU."""


class CanaryPayload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    canary: Canary
    device: Device
    folder: Path
    limits: Limits


class StreamPayload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: StreamJob
    folder: Path
    device: Device
    verdicts: tuple[Verdict, ...] = ()
    gpu_stall_seconds: float
    limits: Limits


def _probe(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    task = ProbePayload.model_validate(payload)
    return with_texts(probe(task.file, task.limits), task.subtitles, task.file).model_dump(mode="json")


def _plan(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    task = PlanPayload.model_validate(payload)
    if task.spec.inputs is not None:
        joined = plan_files(task.spec, task.files, task.device, task.limits, task.verdicts, task.pace)
        return joined.model_dump(mode="json")
    source = examine(task.spec, task.file, task.limits)
    made = plan(task.spec, source, task.device, verdicts=task.verdicts)
    return estimated(made, source, task.pace).model_dump(mode="json")


def _run(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    return _transcoded(RunPayload.model_validate(payload), emit)


def _transcoded(task: RunPayload, emit: Emit) -> dict[str, Any]:
    limit_file_size(task.limits.max_output_bytes)
    joined = task.spec.inputs is not None
    result = (transcode_joined if joined else transcode)(
        task.spec,
        task.files if joined else task.file,  # type: ignore[arg-type]
        task.folder,
        device=task.device,
        verdicts=task.verdicts,
        limits=task.limits,
        cipher=encrypt_cbc,
        pace=task.pace,
        **_telling(emit),
    )
    return result.model_dump(mode="json")


def _telling(emit: Emit) -> dict[str, Any]:
    return {
        "on_plan": lambda made: emit("plan", made.model_dump(mode="json")),
        "on_progress": lambda progress: emit("progress", progress.model_dump(mode="json")),
    }


def _cut(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """What stays in one is done here and now: another child would open the input again."""
    task = CutPayload.model_validate(payload)
    cutting = cut(task.spec, task.file, task.device, task.limits, task.rules)
    result = None if cutting.pieces else _transcoded(task, emit)
    return {"cutting": cutting.model_dump(mode="json"), "result": result}


def _piece(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    task = PiecePayload.model_validate(payload)
    limit_file_size(task.limits.max_output_bytes)
    made = encode_piece(task.spec, task.piece, task.file, task.folder, task.device, task.limits, **_telling(emit))
    return made.model_dump(mode="json")


def _stitch(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    task = StitchPayload.model_validate(payload)
    limit_file_size(task.limits.max_output_bytes)
    made = stitch(task.spec, task.pieces, task.file, task.folder, task.device, task.limits, **_telling(emit))
    return made.model_dump(mode="json")


def _check(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    task = CheckPayload.model_validate(payload)
    return run_check(task.check, task.node).model_dump(mode="json")


def _canary(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    task = CanaryPayload.model_validate(payload)
    return fly(task.canary, task.device, task.folder, task.limits).model_dump(mode="json")


def _stream(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    task = StreamPayload.model_validate(payload)
    limit_file_size(task.limits.max_output_bytes)
    stopping = Stopping()
    listener = loopback.listener()
    result = run_stream(
        task.spec,
        task.folder,
        task.device,
        ServiceLink(LINK_FD, stopping),
        limits=task.limits,
        bridge=lambda: Bridge(listener),
        stopping=stopping,
        verdicts=task.verdicts,
        gpu_stall_seconds=task.gpu_stall_seconds,
        on_plan=lambda made, speed: emit("plan", made.to_json(speed)),
        on_stats=lambda stats: emit("progress", stats.model_dump(mode="json")),
    )
    return result.model_dump(mode="json")


def _glimpse(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    task = GlimpsePayload.model_validate(payload)
    limit_file_size(task.limits.max_output_bytes)
    picture = glimpse(task.file, task.limits, width=task.width, height=task.height)
    (task.folder / "thumbnail.jpg").write_bytes(picture)
    return {"size": len(picture)}


OPS: Mapping[str, Op] = {
    "probe": _probe,
    "plan": _plan,
    "run": _run,
    "cut": _cut,
    "piece": _piece,
    "stitch": _stitch,
    "check": _check,
    "stream": _stream,
    "canary": _canary,
    "glimpse": _glimpse,
}
