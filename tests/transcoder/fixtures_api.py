"""The API on a real port, with a scripted executor in place of child processes."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
import uvicorn
from fastapi import FastAPI

from pipelines.errors import BadInput, Cancelled, PipelineError
from pipelines.result import OutputResult, Progress, Result
from pipelines.source import SourceInfo
from transcoder.app import create_app
from transcoder.children.sandbox import Layers
from transcoder.children.watch import ChildEvent, ChildTask
from transcoder.service import Service
from transcoder.settings import Settings

BODY = bytes(range(256)) * 64
SPEC = {"outputs": [{"type": "mp4"}], "metadata": {"title": "ü"}}


@dataclass
class ScriptedExecutor:
    """Writes `body` as every output once `gate` is open; fails with `error` when there is one."""

    body: bytes = BODY
    error: PipelineError | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    running: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[ChildTask] = field(default_factory=list)
    tell: Callable[[ChildEvent], None] = lambda event: None
    layers: Layers = field(default_factory=Layers)

    def __post_init__(self) -> None:
        self.gate.set()

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def execute(
        self,
        task: ChildTask,
        *,
        on_event: Callable[[ChildEvent], None] | None = None,
        cancel: asyncio.Event | None = None,
    ) -> dict[str, Any]:
        self.tasks.append(task)
        if self.error is not None:
            raise self.error
        if task.op == "probe":
            return SourceInfo(format="mov", size_bytes=Path(task.payload["path"]).stat().st_size).model_dump(
                mode="json"
            )
        if task.op == "glimpse":
            raise BadInput("what it writes is no media")
        assert task.op == "run"
        self.tell = on_event or self.tell
        self.running.set()
        await self._opened(cancel or asyncio.Event())
        self.tell(ChildEvent("progress", Progress(frames=10, fraction=0.5).model_dump(mode="json")))
        self.tell(ChildEvent("log", {"time": "2026-01-01T00:00:00Z", "text": "a line"}))
        assert task.log_path is not None
        task.log_path.write_text("a line\nan ö\n", encoding="utf-8")
        outputs = tuple(self._write(Path(task.payload["folder"]), output) for output in task.payload["spec"]["outputs"])
        return Result(outputs=outputs).model_dump(mode="json")

    async def _opened(self, cancel: asyncio.Event) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (self.gate, cancel)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if cancel.is_set():
            raise Cancelled("cancelled")

    def _write(self, folder: Path, output: dict[str, Any]) -> OutputResult:
        path = f"{output['name']}.{output['type']}"
        (folder / path).write_bytes(self.body)
        return OutputResult(
            name=output["name"], type=output["type"], path=path, size=len(self.body), duration_seconds=1, renditions=()
        )


@dataclass(frozen=True)
class Api:
    """A running API: a client for it, and what is behind it."""

    http: httpx2.AsyncClient
    app: FastAPI
    executor: ScriptedExecutor
    port: int
    data_dir: Path

    @property
    def service(self) -> Service:
        service: Service = self.app.state.service
        return service

    async def upload(self, content: bytes = b"media", name: str = "clip.mov") -> dict[str, Any]:
        return _ok(await self.http.put(f"/v1/uploads/{name}", content=content))

    async def submit(self, **spec: Any) -> dict[str, Any]:
        """A job of a fresh upload."""
        body = {"input": {"upload": (await self.upload())["id"]}, **SPEC, **spec}
        return _ok(await self.http.post("/v1/jobs", json=body))

    async def make_queue(self, name: str, **settings: Any) -> dict[str, Any]:
        return _ok(await self.http.put(f"/v1/queues/{name}", json=settings))

    async def ended(self, job_id: str) -> dict[str, Any]:
        """The job once its event stream has ended."""
        async with self.http.stream("GET", f"/v1/jobs/{job_id}/events") as response:
            async for _ in response.aiter_bytes():
                pass
        return _ok(await self.http.get(f"/v1/jobs/{job_id}"))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    def stored(self) -> list[str]:
        """Names in the uploads folder."""
        return sorted(path.name for path in (self.data_dir / "uploads").iterdir())


def _ok(response: httpx2.Response) -> dict[str, Any]:
    assert response.is_success, response.text
    value: dict[str, Any] = response.json()
    return value


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The test runner keeps its own handlers."""
        yield


@asynccontextmanager
async def serving_api(data_dir: Path, **settings: Any) -> AsyncGenerator[Api, None]:
    executor = ScriptedExecutor()
    chosen = Settings(data_dir=data_dir, **{"software_slots": 1, "shutdown_seconds": 0.0, **settings})
    app = create_app(chosen, make_service=partial(Service, supervisor=executor))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = _Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            while not server.started:
                await asyncio.sleep(0.01)
                assert not serving.done(), "the service did not start"
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
                yield Api(http, app, executor, port, data_dir)
        finally:
            server.should_exit = True
            await serving


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[Api, None]:
    async with serving_api(tmp_path / "data") as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_api(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Api, None]:
    """One for a whole module, whose tests leave it as it was and run in the module's loop."""
    async with serving_api(tmp_path_factory.mktemp("api") / "data") as running:
        yield running


def problem(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The body of a problem, after checking what every problem has."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = json.loads(response.text)
    assert body["code"] == code, body
    assert body["status"] == status
    assert body["type"].endswith(code)
    assert body["title"]
    assert body["detail"]
    assert "Traceback" not in response.text
    return body
