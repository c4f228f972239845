"""What a run reports: progress while it runs, warnings, the result."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from pipelines.filters import Loudness
from pipelines.report import Report


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Progress(_Value):
    """How far a run is. `out_time` is seconds of output written, `speed` output seconds per wall second."""

    frames: int = 0
    out_time: float = 0.0
    fps: float = 0.0
    speed: float = 0.0
    bytes: int = 0
    fraction: float | None = None
    """0-1; None when the duration is unknown."""
    eta_seconds: float | None = None


class Warning(_Value):
    """Something that was handled by a rule. Equal codes are counted, not repeated."""

    code: str
    message: str
    count: int = 1
    first_seconds: float | None = None
    """Where in the input it was first seen; None when it concerns the whole."""
    facts: dict[str, Any] = {}


class LoudnessResult(_Value):
    """What was done about loudness. `before` is the sound as it would have been, `after` as its encoder got it."""

    target_lufs: float
    before: Loudness
    after: Loudness
    gain_db: float
    limited: bool


class RenditionResult(_Value):
    """One track as it was written (measured, not promised)."""

    kind: str
    codec: str
    encoder: str | None
    """None for a copied track."""
    frames: int
    packets: int
    bytes: int
    duration_seconds: float
    start_seconds: float | None = None
    """When the source's first picture or sample is, on the output's clock; None for a copied track."""
    received: int | None = None
    """Pictures that came from the decoder; None where none were decoded for it."""
    filtered: int | None = None
    """Pictures that its filters made of them: `filtered - dropped + repeated` are `frames`."""
    dropped: int = 0
    repeated: int = 0
    source_start_seconds: float | None = None
    source_end_seconds: float | None = None
    """Between which times of the output's clock the source has something, as decoded."""
    loudness: LoudnessResult | None = None
    """Where it was asked for."""
    facts: dict[str, Any] = {}

    @property
    def bit_rate(self) -> int | None:
        """bit/s, of the packets alone."""
        starts = self.start_seconds if self.kind == "video" else None
        seconds = self.duration_seconds - (starts or 0.0)
        return round(self.bytes * 8 / seconds) if seconds > 0 else None


class OutputResult(_Value):
    """One published file, or a ladder: `path` is what players open, `files` all of it, `size` that of all."""

    name: str
    type: str
    path: str
    files: tuple[str, ...] = ()
    """Empty: `path` alone."""
    size: int
    duration_seconds: float | None
    renditions: tuple[RenditionResult, ...]

    @property
    def all_files(self) -> tuple[str, ...]:
        """Paths relative to the job's output folder, that of what players open first."""
        return self.files or (self.path,)


class Result(_Value):
    outputs: tuple[OutputResult, ...]
    warnings: tuple[Warning, ...] = ()
    frames_decoded: int = 0
    source_seconds: float | None = None
    wall_seconds: float = 0.0
    gpu_seconds: dict[str, float] | None = None
    """By class of engines; None where no GPU had a part in it or the kernel does not count."""
    report: Report | None = None
    """How it was done, for a receipt."""
