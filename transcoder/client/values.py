"""Requests as values, and what their answers become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel

from pipelines.presets import Preset
from pipelines.rendition import Plan
from pipelines.source import SourceInfo
from pipelines.spec import FileJob
from transcoder.jobs import Job, JobStatus, OutputFile

M = TypeVar("M", bound=BaseModel)

Spec = FileJob | Mapping[str, Any]
"""A job as the API takes it."""
OnBytes = Callable[[int, int], None]
"""Told how many bytes of how many are sent."""


@dataclass(frozen=True)
class Event:
    """News of a job: `status`, `progress`, `attempt` or `log`, with the data as JSON."""

    kind: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One request. What is `repeatable` may be sent again when no answer came."""

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    json: Any = None
    content: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False

    def request(self) -> dict[str, Any]:
        """What httpx is given."""
        return {"json": self.json, "content": self.content, "params": self.params, "headers": self.headers}


@dataclass(frozen=True)
class Page:
    """Jobs, newest first; `next` is the cursor of the following page."""

    items: Sequence[Job]
    next: str | None


def job_path(job_id: str, *more: str) -> str:
    return "/".join(("/v1/jobs", quote(job_id, safe=""), *more))


def output_path(job_id: str, path: str) -> str:
    return f"{job_path(job_id, 'outputs')}/{quote(path)}"


def as_json(spec: Spec) -> dict[str, Any]:
    """Only what was given: the rest is the service's to decide."""
    return spec.model_dump(mode="json", exclude_unset=True) if isinstance(spec, FileJob) else dict(spec)


def parsed(model: type[M], response: httpx2.Response) -> M:
    """A newer service may tell more than this client knows."""
    return model.model_validate_json(response.content, extra="ignore")


def page_of(response: httpx2.Response) -> Page:
    body = response.json()
    return Page([Job.model_validate(item, extra="ignore") for item in body["items"]], body["next"])


def presets_of(response: httpx2.Response) -> list[Preset]:
    return [Preset.model_validate(item, extra="ignore") for item in response.json()["items"]]


def plan_of(response: httpx2.Response) -> Plan:
    return parsed(Plan, response)


def source_of(response: httpx2.Response) -> SourceInfo:
    return parsed(SourceInfo, response)


def event_of(told: httpx2.ServerSentEvent) -> Event:
    data = told.json()
    return Event(told.event, data if isinstance(data, dict) else {})


def listing(status: JobStatus | str | None, queue: str | None, limit: int, cursor: str | None) -> Call:
    asked = {"status": status, "queue": queue, "limit": limit, "cursor": cursor}
    params = {name: str(value) for name, value in asked.items() if value is not None}
    return Call("GET", "/v1/jobs", params=params, repeatable=True)


def files_of(job: Job) -> list[OutputFile]:
    return [file for output in job.outputs for file in output.files]


def target_in(folder: Path, file: OutputFile) -> Path:
    """Where a file goes; ValueError when the service names a place outside of the folder."""
    target = folder / file.path
    if not target.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"the service names a file outside of the folder: {file.path}")
    return target
