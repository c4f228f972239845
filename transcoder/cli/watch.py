"""Following a job of a service: its upload, its progress, its end, its files."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import ValidationError

from pipelines.result import Progress
from transcoder.cli.client import Client, ConnectionLost
from transcoder.cli.failures import EXIT_CODES, FAILED, CommandError
from transcoder.cli.screen import ProgressView, progress_view, say
from transcoder.cli.values import format_bytes
from transcoder.jobs import Job, JobStatus, Upload

RECONNECT_SECONDS = 1.0
MAX_RECONNECTS = 30
"""Fruitless tries in a row after which a server is given up: half a minute covers a restart."""


def upload(client: Client, path: Path) -> Upload:
    total = path.stat().st_size
    with progress_view(quiet=False) as view:
        view.note(f"uploading {path.name} ({format_bytes(total)})")
        return client.upload(path, lambda sent: None)


def until_ended(client: Client, job: Job) -> Job:
    """The job when it ended. Reconnects when the server goes away for a while; Ctrl-C leaves the job alone."""
    lost = 0
    with progress_view(quiet=False) as view:
        view.note(f"job {job.status}")
        while not job.status.ended:
            try:
                _follow(client, job.id, view)
                job = client.job(job.id)
                lost = 0
            except ConnectionLost:
                lost += 1
                if lost > MAX_RECONNECTS:
                    raise
                view.note("connection lost, trying again")
                time.sleep(RECONNECT_SECONDS)
            except KeyboardInterrupt:
                say(f"the job goes on; `transcoder jobs show {job.id}` tells how it stands")
                raise
    return job


def _follow(client: Client, job_id: str, view: ProgressView) -> None:
    """Shows a job's events until the stream ends."""
    for event in client.events(job_id):
        if event.event == "status":
            status = _status(event.json())
            if status is not None:
                view.note(f"job {status}")
        elif event.event == "progress":
            progress = _progress(event.data)
            if progress is not None:
                view.show(progress)


def _status(data: object) -> str | None:
    return str(data["status"]) if isinstance(data, dict) and "status" in data else None


def _progress(data: str) -> Progress | None:
    try:
        return Progress.model_validate_json(data, extra="ignore")
    except ValidationError:
        return None


def download_all(client: Client, job: Job, folder: Path) -> None:
    """Every file of a completed job, under its own name in `folder`."""
    if job.status is not JobStatus.COMPLETED:
        raise CommandError("conflict", f"job {job.id} is {job.status}: it has no files to fetch", FAILED)
    folder.mkdir(parents=True, exist_ok=True)
    for output in job.outputs:
        for file in output.files:
            target = folder / file.path
            if not target.resolve().is_relative_to(folder.resolve()):
                raise CommandError("server_error", f"the server names a file outside of the folder: {file.path}")
            target.parent.mkdir(parents=True, exist_ok=True)
            client.download(job.id, file.path, target)
            say(f"{target} ({format_bytes(file.size)})")


def raise_for_fate(job: Job, *, ended: bool) -> None:
    """CommandError for a job that did not complete, when its end was waited for."""
    if not ended or job.status is JobStatus.COMPLETED:
        return
    if job.error is None:
        raise CommandError("cancelled", f"job {job.id} was {job.status}", FAILED)
    raise CommandError(job.error.code, job.error.message, EXIT_CODES.get(job.error.code, FAILED))
