"""A node as a process of its own, to be killed, stopped and started: its children are shells that write files.

python -m tests.transcoder.run_node DATA_DIR DATABASE_URL NODE LEASE_SECONDS SECONDS_OF_A_RUN [PORT]

With a port it is an API without work, else a worker. It says what it starts: `run FOLDER PID-OF-THE-CHILD`.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from pipelines.errors import Cancelled, Crashed
from tests.transcoder.stubs import CONTENT, StubExecutor, answer_to, result_of, software
from transcoder.app import create_app
from transcoder.children.watch import ChildEvent, ChildTask
from transcoder.service import Service
from transcoder.settings import Settings


class ShellExecutor(StubExecutor):
    """A run takes its time in another process, which lives on when this one is killed."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    async def execute(
        self,
        task: ChildTask,
        *,
        on_event: Callable[[ChildEvent], None] | None = None,
        cancel: asyncio.Event | None = None,
    ) -> dict[str, Any]:
        result = result_of(task.payload)
        target = Path(task.payload["folder"], result["outputs"][0]["path"])
        target.unlink()
        script = f"printf %s half > '{target}'; sleep {self.seconds}; printf %s {CONTENT.decode()} > '{target}'"
        child = await asyncio.create_subprocess_exec("sh", "-c", script, stdin=asyncio.subprocess.DEVNULL)
        print("run", task.payload["folder"], child.pid, flush=True)
        ending, stopping = asyncio.create_task(child.wait()), asyncio.create_task((cancel or asyncio.Event()).wait())
        await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not ending.done():
            child.kill()
            await ending
            raise Cancelled("cancelled", stage="run")
        if child.returncode != 0:
            raise Crashed("the process was killed")
        return answer_to(task, result)


async def work(settings: Settings, executor: StubExecutor) -> None:
    async with Service(settings, supervisor=executor, devices=[software(2)]):
        print("ready", flush=True)
        await asyncio.Event().wait()


def serve(settings: Settings, executor: StubExecutor, port: int) -> None:
    app = create_app(settings, make_service=partial(Service, supervisor=executor))
    with socket.create_server(("127.0.0.1", port), reuse_port=False) as listener:
        print("ready", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_config=None)).run(sockets=[listener])


def main(data: str, url: str, node: str, lease_seconds: str, seconds: str, port: str | None = None) -> None:
    settings = Settings(
        data_dir=Path(data),
        database_url=url,
        node=node,
        lease_seconds=float(lease_seconds),
        shutdown_seconds=0,
        retry_backoff_seconds=0.05,
        max_attempts=20,
        role="worker" if port is None else "api",
    )
    executor = ShellExecutor(float(seconds))
    if port is None:
        asyncio.run(work(settings, executor))
    else:
        serve(settings, executor, int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
