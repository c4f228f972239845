"""The client for plain code: each call returns when it is done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from pipelines.presets import Preset
from pipelines.rendition import Plan
from pipelines.source import SourceInfo
from transcoder.client import values
from transcoder.client.errors import ApiError, JobFailed, Unreachable
from transcoder.client.scripts import Pause, Script, Work, answered, pause_before, submitting, uploading
from transcoder.client.values import Call, Event, OnBytes, Spec, job_path, output_path, parsed
from transcoder.jobs import Job, JobStatus, Upload

T = TypeVar("T")

CHUNK_BYTES = 1 << 20
TIMEOUT = httpx2.Timeout(60.0, connect=10.0)
QUIET = httpx2.Timeout(60.0, connect=10.0, read=120.0)
"""Event streams have keep-alives well within it."""


class Client:
    """Calls of one service. A context manager; calls raise ApiError and Unreachable."""

    def __init__(
        self,
        server: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._http = httpx2.Client(
            base_url=server.rstrip("/"), headers=headers, timeout=TIMEOUT, transport=transport, follow_redirects=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def upload(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        resume: str | None = None,
        on_bytes: OnBytes = lambda sent, size: None,
    ) -> Upload:
        """Sends a file in pieces and goes on where a connection broke. UploadInterrupted when the service stays away:
        its `location` is what `resume` takes.
        """
        return self._run(uploading(Path(path), name or Path(path).name, resume, on_bytes))

    def submit(self, spec: Spec, *, idempotency_key: str | None = None) -> Job:
        return self._run(submitting(spec, idempotency_key))

    def job(self, job_id: str) -> Job:
        return parsed(Job, self._get(job_path(job_id)))

    def jobs(
        self, *, status: JobStatus | str | None = None, queue: str | None = None, page_size: int = 100
    ) -> Iterator[Job]:
        """All of them, newest first, page by page as they are asked for."""
        cursor: str | None = None
        while True:
            page = values.page_of(self._run(answered(values.listing(status, queue, page_size, cursor))))
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def cancel(self, job_id: str) -> Job:
        return parsed(Job, self._post(job_path(job_id, "cancel")))

    def retry(self, job_id: str) -> Job:
        return parsed(Job, self._post(job_path(job_id, "retry")))

    def stop(self, job_id: str) -> Job:
        """Ends a stream; what it wrote is finished."""
        return parsed(Job, self._post(job_path(job_id, "stop")))

    def delete(self, job_id: str) -> None:
        """A job that ended, and its files."""
        self._run(answered(Call("DELETE", job_path(job_id))))

    def log(self, job_id: str) -> str:
        return self._get(job_path(job_id, "log")).text

    def receipt(self, job_id: str) -> dict[str, Any]:
        """How a completed job's result came about, as the service wrote it then."""
        return dict(self._get(job_path(job_id, "receipt")).json())

    def probe(self, source: dict[str, Any]) -> SourceInfo:
        """What an input is: `{"upload": id}`, `{"url": …}` or `{"path": …}`."""
        return values.source_of(self._post("/v1/probe", source))

    def plan(self, spec: Spec) -> Plan:
        """What would be done with a job, where and why."""
        return values.plan_of(self._post("/v1/plan", values.as_json(spec)))

    def presets(self) -> list[Preset]:
        return values.presets_of(self._get("/v1/presets"))

    def devices(self) -> list[dict[str, Any]]:
        """As the API tells them."""
        return list(self._get("/v1/devices").json()["items"])

    def events(self, job_id: str) -> Iterator[Event]:
        """A job's news, beginning with how it stands. Ends with the job; Unreachable when the connection does."""
        try:
            with self._http.stream("GET", job_path(job_id, "events"), timeout=QUIET) as response:
                if response.is_error:
                    response.read()
                    raise ApiError.of(response)
                for event in httpx2.EventSource(response):
                    yield values.event_of(event)
        except httpx2.HTTPError as error:
            raise Unreachable(str(error) or type(error).__name__) from error

    def wait(self, job_id: str) -> Job:
        """The job when it has completed; JobFailed otherwise. Outlives restarts of the service."""
        attempt = 0
        while True:
            job = self.job(job_id)
            if job.status.ended:
                break
            try:
                for _ in self.events(job_id):
                    attempt = 0
            except Unreachable:
                attempt += 1
                time.sleep(pause_before(attempt).seconds)
        if job.status is not JobStatus.COMPLETED:
            raise JobFailed(job)
        return job

    def download(self, job: Job, folder: str | Path) -> list[Path]:
        """All files of a job into a folder. Each has its name only when it is whole."""
        return [self._fetch(job.id, file.path, values.target_in(Path(folder), file)) for file in values.files_of(job)]

    def _fetch(self, job_id: str, path: str, target: Path) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        try:
            with self._http.stream("GET", output_path(job_id, path)) as response, part.open("wb") as file:
                if response.is_error:
                    response.read()
                    raise ApiError.of(response)
                for chunk in response.iter_bytes(CHUNK_BYTES):
                    file.write(chunk)
            part.replace(target)
        except httpx2.HTTPError as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        finally:
            part.unlink(missing_ok=True)
        return target

    def _get(self, path: str) -> httpx2.Response:
        return self._run(answered(Call("GET", path, repeatable=True)))

    def _post(self, path: str, body: Any = None) -> httpx2.Response:
        return self._run(answered(Call("POST", path, json=body)))

    def _run(self, script: Script[T]) -> T:
        reply: Any = None
        failure: Unreachable | None = None
        while True:
            try:
                step = script.send(reply) if failure is None else script.throw(failure)
            except StopIteration as end:
                done: T = end.value
                return done
            reply, failure = None, None
            if isinstance(step, Pause):
                time.sleep(step.seconds)
            elif isinstance(step, Work):
                reply = step.do()
            else:
                try:
                    reply = self._http.request(step.method, step.path, **step.request())
                except httpx2.HTTPError as error:
                    failure = Unreachable(str(error) or type(error).__name__)
