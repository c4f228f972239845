"""Jobs, tasks and attempts as users see them (the API's JSON) and as the store keeps them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipelines.asked.streams import StreamJob
from pipelines.live.stats import LiveStats, StreamState
from pipelines.result import Progress, Warning
from pipelines.spec import FileJob
from transcoder.masks import ShownWithoutKeys


class JobStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED)


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ErrorInfo(_Record):
    """Why a job or an attempt failed."""

    code: str
    message: str
    stage: str | None = None
    device: str | None = None
    retryable: bool = False
    facts: dict[str, Any] = {}


class OutputFile(_Record):
    """`path` is what follows /v1/jobs/{id}/outputs/."""

    path: str
    size: int
    content_type: str
    sha256: str | None = Field(None, description="null for what a stream publishes")


class JobOutput(_Record):
    name: str
    type: str
    files: tuple[OutputFile, ...]


class Attempt(_Record):
    """One try of a task on a device. Counted when it starts."""

    number: int
    task: int = Field(0, description="0: the job itself; 1 and up: one of the pieces that it was cut into")
    device: str
    status: Literal["running", "completed", "failed", "cancelled", "lost"]
    reason: str = Field("", description="why this device and this path")
    started_at: datetime
    finished_at: datetime | None = None
    error: ErrorInfo | None = None


class Job(_Record):
    id: str
    kind: Literal["file", "stream"]
    status: JobStatus
    queue: str
    priority: int
    preset: str | None = None
    progress: float | None = Field(None, description="0-1; null when it can't be told")
    eta_seconds: float | None = None
    stats: Progress | LiveStats | None = Field(
        None, description="frames, fps, speed of the running attempt; of a stream what comes in and goes out"
    )
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_requested: bool = False
    attempts: tuple[Attempt, ...] = ()
    outputs: tuple[JobOutput, ...] = ()
    warnings: tuple[Warning, ...] = ()
    error: ErrorInfo | None = None
    plan: dict[str, Any] | None = Field(None, description="the plan of the latest attempt")
    reused_from: str | None = Field(None, description="the job whose result this one took, having the same to do")
    metadata: dict[str, Any] = {}
    spec: Annotated[FileJob | StreamJob, Field(discriminator="kind"), ShownWithoutKeys()]
    state: StreamState | None = Field(None, description="of a stream that runs")

    @property
    def published_attempt(self) -> int:
        """The attempt whose outputs count; 0 when none has completed."""
        completed = (each.number for each in self.attempts if each.task == 0 and each.status == "completed")
        return max(completed, default=0)

    @property
    def latest_attempt(self) -> Attempt | None:
        """The one that began or ended last, of whatever task."""
        return max(self.attempts, key=lambda each: (each.finished_at or each.started_at, each.number), default=None)


class Upload(_Record):
    """A stored upload. `name` is what the client called it; the file's name on disk is the id."""

    id: str
    name: str
    size: int
    sha256: str
    created_at: datetime
