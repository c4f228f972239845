"""What a run reports: progress while it runs, warnings, the result."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


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
    facts: dict[str, Any] = {}


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
