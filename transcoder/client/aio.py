"""The client for asyncio: the same calls as `transcoder.client.plain`, to be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import aiofiles
import httpx2

from pipelines.presets import Preset
from pipelines.rendition import Plan
from pipelines.source import SourceInfo
from transcoder.client import values
from transcoder.client.errors import ApiError, JobFailed, Unreachable
from transcoder.client.plain import CHUNK_BYTES, QUIET, TIMEOUT
from transcoder.client.scripts import Pause, Script, Work, answered, pause_before, submitting, uploading
from transcoder.client.values import Call, Event, OnBytes, Spec, job_path, output_path, parsed
from transcoder.jobs import Job, JobStatus, Upload

T = TypeVar("T")


class AsyncClient:
    """Calls of one service. An async context manager; calls raise ApiError and Unreachable."""

    def __init__(
        self,
        server: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._http = httpx2.AsyncClient(
            base_url=server.rstrip("/"), headers=headers, timeout=TIMEOUT, transport=transport, follow_redirects=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def upload(
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
        return await self._run(uploading(Path(path), name or Path(path).name, resume, on_bytes))

    async def submit(self, spec: Spec, *, idempotency_key: str | None = None) -> Job:
        return await self._run(submitting(spec, idempotency_key))

    async def job(self, job_id: str) -> Job:
        return parsed(Job, await self._get(job_path(job_id)))

    async def jobs(
        self, *, status: JobStatus | str | None = None, queue: str | None = None, page_size: int = 100
    ) -> AsyncIterator[Job]:
        """All of them, newest first, page by page as they are asked for."""
        cursor: str | None = None
        while True:
            page = values.page_of(await self._run(answered(values.listing(status, queue, page_size, cursor))))
            for item in page.items:
                yield item
            cursor = page.next
            if cursor is None:
                return

    async def cancel(self, job_id: str) -> Job:
        return parsed(Job, await self._post(job_path(job_id, "cancel")))

    async def retry(self, job_id: str) -> Job:
        return parsed(Job, await self._post(job_path(job_id, "retry")))

    async def stop(self, job_id: str) -> Job:
        """Ends a stream; what it wrote is finished."""
        return parsed(Job, await self._post(job_path(job_id, "stop")))

    async def delete(self, job_id: str) -> None:
        """A job that ended, and its files."""
        await self._run(answered(Call("DELETE", job_path(job_id))))

    async def log(self, job_id: str) -> str:
        return (await self._get(job_path(job_id, "log"))).text

    async def receipt(self, job_id: str) -> dict[str, Any]:
        """How a completed job's result came about, as the service wrote it then."""
        return dict((await self._get(job_path(job_id, "receipt"))).json())

    async def probe(self, source: dict[str, Any]) -> SourceInfo:
        """What an input is: `{"upload": id}`, `{"url": …}` or `{"path": …}`."""
        return values.source_of(await self._post("/v1/probe", source))

    async def plan(self, spec: Spec) -> Plan:
        """What would be done with a job, where and why."""
        return values.plan_of(await self._post("/v1/plan", values.as_json(spec)))

    async def presets(self) -> list[Preset]:
        return values.presets_of(await self._get("/v1/presets"))

    async def devices(self) -> list[dict[str, Any]]:
        """As the API tells them."""
        return list((await self._get("/v1/devices")).json()["items"])

    async def events(self, job_id: str) -> AsyncIterator[Event]:
        """A job's news, beginning with how it stands. Ends with the job; Unreachable when the connection does."""
        try:
            async with self._http.stream("GET", job_path(job_id, "events"), timeout=QUIET) as response:
                if response.is_error:
                    await response.aread()
                    raise ApiError.of(response)
                async for event in httpx2.EventSource(response):
                    yield values.event_of(event)
        except httpx2.HTTPError as error:
            raise Unreachable(str(error) or type(error).__name__) from error

    async def wait(self, job_id: str) -> Job:
        """The job when it has completed; JobFailed otherwise. Outlives restarts of the service."""
        attempt = 0
        while True:
            job = await self.job(job_id)
            if job.status.ended:
                break
            try:
                async for _ in self.events(job_id):
                    attempt = 0
            except Unreachable:
                attempt += 1
                await asyncio.sleep(pause_before(attempt).seconds)
        if job.status is not JobStatus.COMPLETED:
            raise JobFailed(job)
        return job

    async def download(self, job: Job, folder: str | Path) -> list[Path]:
        """All files of a job into a folder. Each has its name only when it is whole."""
        return [
            await self._fetch(job.id, file.path, values.target_in(Path(folder), file)) for file in values.files_of(job)
        ]

    async def _fetch(self, job_id: str, path: str, target: Path) -> Path:
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        try:
            async with (
                self._http.stream("GET", output_path(job_id, path)) as response,
                aiofiles.open(part, "wb") as file,
            ):
                if response.is_error:
                    await response.aread()
                    raise ApiError.of(response)
                async for chunk in response.aiter_bytes(CHUNK_BYTES):
                    await file.write(chunk)
            await asyncio.to_thread(part.replace, target)
        except httpx2.HTTPError as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        finally:
            await asyncio.to_thread(part.unlink, missing_ok=True)
        return target

    async def _get(self, path: str) -> httpx2.Response:
        return await self._run(answered(Call("GET", path, repeatable=True)))

    async def _post(self, path: str, body: Any = None) -> httpx2.Response:
        return await self._run(answered(Call("POST", path, json=body)))

    async def _run(self, script: Script[T]) -> T:
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
                await asyncio.sleep(step.seconds)
            elif isinstance(step, Work):
                reply = await asyncio.to_thread(step.do)
            else:
                try:
                    reply = await self._http.request(step.method, step.path, **step.request())
                except httpx2.HTTPError as error:
                    failure = Unreachable(str(error) or type(error).__name__)
