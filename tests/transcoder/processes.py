"""Helpers for tests with real child processes."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from transcoder.children.supervise import ChildEvent, ChildTask, Supervisor

FOLDER = Path(__file__).parent


@asynccontextmanager
async def running_supervisor(**limits: int) -> AsyncIterator[Supervisor]:
    """A supervisor whose children run the operations of `child_ops`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FOLDER))
        patch.setenv("TRANSCODER_DATABASE_URL", "postgresql://secret")
        async with Supervisor(ops="child_ops", **limits) as supervisor:
            yield supervisor


def task(
    do: str,
    *,
    deadline_seconds: float = 20.0,
    stall_seconds: float | None = None,
    log_path: Path | None = None,
    **payload: Any,
) -> ChildTask:
    return ChildTask("run", {"do": do, **payload}, deadline_seconds, stall_seconds, log_path)


class Listener:
    """Collects events, and tells when the first plan came (by which the operations tell their processes)."""

    def __init__(self) -> None:
        self.events: list[ChildEvent] = []
        self.planned: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def __call__(self, event: ChildEvent) -> None:
        self.events.append(event)
        if event.kind == "plan" and not self.planned.done():
            self.planned.set_result(event.data)

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [event.data for event in self.events if event.kind == kind]

    @property
    def log(self) -> list[str]:
        return [data["text"] for data in self.of_kind("log")]


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


async def gone(pid: int, *, within_seconds: float = 2.0) -> bool:
    """Waits for a process that may not be our child to end."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(await asyncio.to_thread(select.select, [pidfd], [], [], within_seconds) != ([], [], []))
    finally:
        os.close(pidfd)
