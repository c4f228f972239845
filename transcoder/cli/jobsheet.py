"""Jobs as tables."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pipelines.asked.streams import StreamInput
from pipelines.spec import FileJob
from transcoder.cli.screen import out, print_json, show_warnings, table
from transcoder.cli.values import format_bytes, format_seconds
from transcoder.jobs import Job


def show_jobs(jobs: Iterable[Job]) -> None:
    rows = (
        (job.id, job.status, _share(job), job.queue, job.preset or "–", _local(job.created_at), source_name(job))
        for job in jobs
    )
    table(("job", "status", "done", "queue", "preset", "created", "input"), rows)


def show_job(job: Job, *, as_json: bool, server: str) -> None:
    """One job; its files with the addresses that they are fetched from."""
    if as_json:
        print_json(job.model_dump(mode="json"))
        return
    console = out()
    console.print(f"job {job.id}: {job.status} {_share(job)}".rstrip(" –"), style="bold", markup=False)
    console.print(f"input {source_name(job)}, created {_local(job.created_at)}, queue {job.queue}", markup=False)
    for attempt in job.attempts:
        why = f": {attempt.error.code}: {attempt.error.message}" if attempt.error else ""
        took = ""
        if attempt.finished_at is not None:
            took = f" in {format_seconds((attempt.finished_at - attempt.started_at).total_seconds())}"
        piece = f"piece {attempt.task}, " if attempt.task else ""
        console.print(f"{piece}attempt {attempt.number} on {attempt.device}: {attempt.status}{took}{why}", markup=False)
    files = [file for output in job.outputs for file in output.files]
    if files:
        rows = (
            (file.path, format_bytes(file.size), f"{server}/v1/jobs/{job.id}/outputs/{file.path}") for file in files
        )
        table(("file", "size", "address"), rows)
    show_warnings(job.warnings)


def _share(job: Job) -> str:
    return "–" if job.progress is None else f"{job.progress:.0%}"


def _local(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def source_name(job: Job) -> str:
    """What people know a job's input by."""
    if isinstance(job.metadata.get("file"), str):
        return str(job.metadata["file"])
    where = job.spec.input
    if isinstance(where, StreamInput):
        return where.url or "publisher"
    first = where.url or where.path or f"upload {where.upload}"
    others = len(job.spec.all_inputs) - 1 if isinstance(job.spec, FileJob) else 0
    return f"{first} and {others} more" if others else first
