"""What a receipt says: how a job's result came about, measured. Frozen values, JSON for users."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipelines.quality.findings import Findings
from pipelines.quality.metrics import Score
from pipelines.rendition import Placement, Refusal
from pipelines.report import Versions
from pipelines.result import Warning
from pipelines.source import Facts, SourceInfo


class Command(Facts):
    """An equivalent command: `text` for a shell, `arguments` without one; `notes` say what it does not do."""

    text: str
    arguments: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class SourceReceipt(Facts):
    name: str
    size_bytes: int | None
    sha256: str | None = Field(None, description="of the input as it was read")
    facts: SourceInfo


class Step(Facts):
    """One stage of one track's way. `output` is null for decoding, which is done once for all."""

    stage: Literal["decode", "filter", "encode", "copy"]
    stream: int = Field(description="the source's stream")
    output: str | None = None
    track: int | None = Field(None, description="the place among the output's tracks")
    device: str
    placement: Placement
    by: str = Field(description="decoder, encoder, or the chain of filters")
    reason: str | None = None


class TrackReceipt(Facts):
    """One track as written. Seconds are on the output's clock, bitrates are of its packets alone."""

    kind: str
    codec: str
    encoder: str | None
    options: dict[str, str] = {}
    frames_in: int | None = Field(None, description="pictures that came from the decoder")
    frames_filtered: int | None = Field(None, description="pictures after the filters, before timing")
    frames_out: int
    frames_dropped: int = 0
    frames_duplicated: int = 0
    packets: int
    bytes: int
    bit_rate: int | None
    start_seconds: float | None
    end_seconds: float
    quality: tuple[Score, ...] | None = Field(
        None, description="of samples, against the source after its filters; null where it was not asked for"
    )


class Skew(Facts):
    """How much later the picture is against the sound than it is in the source, in seconds; 0 is in time."""

    start_seconds: float
    end_seconds: float


class FileReceipt(Facts):
    path: str
    size: int
    sha256: str | None


class OutputReceipt(Facts):
    name: str
    type: str
    path: str
    size: int
    duration_seconds: float | None
    bit_rate: int | None = Field(None, description="of all its files")
    files: tuple[FileReceipt, ...]
    tracks: tuple[TrackReceipt, ...]
    skew: Skew | None = Field(None, description="of the first encoded picture and sound track; null without both")


class EarlierAttempt(Facts):
    """A try that came to nothing, and so a step down or a repetition."""

    number: int
    device: str
    status: str
    reason: str
    code: str | None = None
    message: str | None = None


class DeviceReceipt(Facts):
    id: str
    kind: str
    name: str
    driver: str | None = None
    kernel_driver: str | None = None


class Costs(Facts):
    """What it took. Decoding, filters and encoders overlap within `run`."""

    wall_seconds: dict[str, float] = Field(description="by stage")
    cpu_seconds: float | None = Field(None, description="of all threads of the process that did the work")
    gpu_seconds: dict[str, float] | None = Field(
        None, description="by class of engines; null where no GPU had a part in it, or the kernel does not count"
    )


class Receipt(Facts):
    version: Literal[1] = 1
    job: str | None = None
    attempt: int | None = None
    service: str
    versions: Versions | None
    device: DeviceReceipt
    source: SourceReceipt | None
    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...] = Field((), description="ways that were considered and not taken")
    earlier_attempts: tuple[EarlierAttempt, ...] = ()
    outputs: tuple[OutputReceipt, ...]
    findings: Findings = Field(Findings(), description="what was measured before the run, and decided by it")
    warnings: tuple[Warning, ...] = ()
    costs: Costs
    command: Command | None = None
