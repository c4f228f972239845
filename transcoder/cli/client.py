"""The service's API, as the command line uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx2
from pydantic import ValidationError

from transcoder.cli.failures import EXIT_CODES, SERVER, CommandError
from transcoder.jobs import Job, JobStatus, Upload
from transcoder.queueing.queues import QueueSettings, QueueState

CHUNK_BYTES = 1 << 20
TIMEOUT = httpx2.Timeout(60.0, connect=10.0)
QUIET_SECONDS = 120.0
"""Silence on an event stream after which it is taken for dead; the service sends keep-alives well within it."""


class Client:
    """Calls of one server. Every failure is a CommandError with the server's own code and words."""

    def __init__(self, server: str, api_key: str | None = None) -> None:
        self.server = server.rstrip("/")
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._http = httpx2.Client(base_url=self.server, headers=headers, timeout=TIMEOUT, follow_redirects=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def upload(self, path: Path, on_bytes: Callable[[int], None]) -> Upload:
        """Sends a file; `on_bytes` is told how many bytes went out so far."""

        def chunks() -> Iterator[bytes]:
            sent = 0
            with path.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk
                    sent += len(chunk)
                    on_bytes(sent)

        headers = {"Content-Length": str(path.stat().st_size)}
        response = self._call("PUT", f"/v1/uploads/{quote(path.name, safe='')}", content=chunks(), headers=headers)
        return Upload.model_validate({"name": path.name, **response.json()}, extra="ignore")

    def submit(self, spec: dict[str, Any]) -> Job:
        return _job(self._call("POST", "/v1/jobs", json=spec))

    def jobs(self, *, status: JobStatus | None, queue: str | None, limit: int) -> Iterator[Job]:
        """The newest jobs, page by page."""
        cursor: str | None = None
        left = limit
        while left > 0:
            asked = {"status": status, "queue": queue, "limit": min(left, 500), "cursor": cursor}
            params = {name: str(value) for name, value in asked.items() if value is not None}
            page = self._call("GET", "/v1/jobs", params=params).json()
            for item in page["items"]:
                yield Job.model_validate(item, extra="ignore")
            left -= len(page["items"])
            cursor = page["next"]
            if cursor is None:
                return

    def devices(self) -> list[dict[str, Any]]:
        """As the API tells them: a newer server may know more of them."""
        return list(self._call("GET", "/v1/devices").json()["items"])

    def job(self, job_id: str) -> Job:
        return _job(self._call("GET", _path(job_id)))

    def cancel(self, job_id: str) -> Job:
        return _job(self._call("POST", _path(job_id, "cancel")))

    def retry(self, job_id: str) -> Job:
        return _job(self._call("POST", _path(job_id, "retry")))

    def delete(self, job_id: str) -> None:
        self._call("DELETE", _path(job_id))

    def queues(self) -> list[QueueState]:
        return [_queue(item) for item in self._call("GET", "/v1/queues").json()["items"]]

    def change_queue(self, name: str, changes: dict[str, Any]) -> QueueState:
        """Makes the queue, or changes what is given of it."""
        known = {queue.name: queue for queue in self.queues()}
        fields = set(QueueSettings.model_fields)
        settings = known[name].model_dump(mode="json", include=fields) if name in known else {}
        return _queue(self._call("PUT", f"/v1/queues/{quote(name, safe='')}", json=settings | changes).json())

    def delete_queue(self, name: str) -> None:
        self._call("DELETE", f"/v1/queues/{quote(name, safe='')}")

    def log(self, job_id: str) -> Iterator[str]:
        """The job's log, in pieces as they come."""
        with self._stream(_path(job_id, "log")) as response:
            yield from response.iter_text()

    def receipt(self, job_id: str) -> dict[str, Any]:
        return dict(self._call("GET", _path(job_id, "receipt")).json())

    def events(self, job_id: str) -> Iterator[httpx2.ServerSentEvent]:
        """Events until the job ended or the connection did."""
        timeout = httpx2.Timeout(QUIET_SECONDS, connect=10.0)
        with self._stream(_path(job_id, "events"), timeout=timeout) as response:
            yield from httpx2.EventSource(response)

    def download(self, job_id: str, path: str, target: Path) -> None:
        """One output file, into a file that has its name only when it is whole."""
        part = target.with_name(f".{target.name}.part")
        try:
            with (
                self._stream(f"{_path(job_id, 'outputs')}/{quote(path)}") as response,
                part.open("wb") as file,
            ):
                for chunk in response.iter_bytes(CHUNK_BYTES):
                    file.write(chunk)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    def _call(self, method: str, path: str, **request: Any) -> httpx2.Response:
        with self._reachable():
            response = self._http.request(method, path, **request)
        _raise_for(response)
        return response

    @contextmanager
    def _stream(self, path: str, **request: Any) -> Iterator[httpx2.Response]:
        with self._reachable(), self._http.stream("GET", path, **request) as response:
            if response.is_error:
                response.read()
            _raise_for(response)
            yield response

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except httpx2.ConnectError as error:
            raise CommandError(
                "server_unreachable", f"{self.server}: {error}; `transcoder serve` starts a server", SERVER
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ConnectionLost(self.server, str(error) or type(error).__name__) from None


class ConnectionLost(CommandError):
    """The server was reached, and then was not."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__("server_unreachable", f"{server}: {reason}", SERVER)


def _path(job_id: str, *more: str) -> str:
    return "/".join(("/v1/jobs", quote(job_id, safe=""), *more))


def _job(response: httpx2.Response) -> Job:
    try:
        return Job.model_validate_json(response.content, extra="ignore")
    except ValidationError as error:
        raise CommandError("server_error", f"the server's answer is no job: {error}", SERVER) from None


def _raise_for(response: httpx2.Response) -> None:
    if response.is_success:
        return
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    code = str(problem.get("code", "server_error"))
    detail = str(problem.get("detail") or problem.get("title") or f"HTTP {response.status_code}")
    faults = "".join(f"; {_fault(fault)}" for fault in problem.get("errors", ()) if isinstance(fault, dict))
    raise CommandError(code, detail + faults, EXIT_CODES.get(code, SERVER))


def _fault(fault: dict[str, Any]) -> str:
    where, why = fault.get("pointer") or fault.get("loc"), fault.get("detail") or fault.get("msg")
    return f"{where}: {why}" if where else str(why)


def _queue(value: Any) -> QueueState:
    return QueueState.model_validate(value, extra="ignore")
