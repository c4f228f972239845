"""Watching one child: what it says, whether it gets on, and when its time is over."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines.errors import Cancelled, Crashed, DeadlineExceeded, Stage, Stalled
from transcoder.children.joblog import Line, read_lines
from transcoder.children.process import MAX_EVENT_BYTES

_PROGRESS_SECONDS = 0.1
_MAX_WARNINGS = 1000
_STALL_CHECKS = 4

Op = Literal["probe", "plan", "run", "cut", "piece", "stitch", "check", "canary", "stream", "glimpse"]
_STAGES: dict[Op, Stage] = {
    "probe": "probe",
    "plan": "plan",
    "run": "run",
    "cut": "run",
    "piece": "run",
    "stitch": "run",
    "check": "check",
    "canary": "canary",
    "stream": "stream",
    "glimpse": "decode",
}


@dataclass(frozen=True)
class ChildTask:
    """One piece of work. `payload` is the operation's own, in JSON's types; `stall_seconds` None: no watchdog.

    In a sandbox it reaches, of users' files, only `readable` and the folders `writable`; and of devices only `gpu`, the
    render node or X display that VAAPI opens.
    """

    op: Op
    payload: dict[str, Any]
    deadline_seconds: float
    stall_seconds: float | None = None
    log_path: Path | None = None
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    gpu: str | None = None
    link_fd: int | None = None
    """A descriptor that the child gets, over which it talks with whoever gave the task; it stays the caller's too."""
    loopback: bool = False
    """Whether it may connect to itself (`transcoder.children.loopback`)."""


@dataclass(frozen=True)
class ChildEvent:
    """Something a child said while it worked: a Plan, Progress or Warning as JSON, or a log line {"time", "text"}."""

    kind: Literal["plan", "progress", "warning", "log"]
    data: dict[str, Any]


@dataclass(frozen=True)
class Message:
    """One line of the event pipe."""

    event: Literal["plan", "progress", "warning", "result", "error"]
    data: dict[str, Any]


def parse_message(line: Line) -> Message:
    """Crashed when it is none: a child that decodes hostile input may say anything."""
    try:
        told = json.loads(line.content)
        event, data = told["event"], told["data"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Crashed("the process said something unreadable") from None
    if line.cut or event not in ("plan", "progress", "warning", "result", "error") or not isinstance(data, dict):
        raise Crashed("the process said something unreadable")
    return Message(event, data)


class Watch:
    """Follows one child until its last word, or until it has to be ended."""

    def __init__(self, task: ChildTask, pid: int, on_event: Callable[[ChildEvent], None]) -> None:
        self._task, self._pid, self._on_event = task, pid, on_event
        self._loop = asyncio.get_running_loop()
        self._started = self._moved = self._loop.time()
        self._position: tuple[object, ...] = ()
        self._stored_bytes = 0
        self._told_progress = 0.0
        self._held_progress: ChildEvent | None = None
        self._warnings = 0

    async def last_message(
        self, events: asyncio.StreamReader, log: asyncio.Task[None], cancel: asyncio.Event | None
    ) -> Message | None:
        """The result or error that the child ends with; None when it falls silent without one.

        Cancelled, DeadlineExceeded or Stalled when it has to be ended; Crashed when it talks nonsense.
        """
        reading = asyncio.create_task(self._read(events))
        cancelled = asyncio.create_task((cancel or asyncio.Event()).wait())
        waiting: set[asyncio.Task[Any]] = {reading, cancelled, log}
        try:
            while True:
                done, _ = await asyncio.wait(
                    waiting, timeout=self._patience_seconds(), return_when=asyncio.FIRST_COMPLETED
                )
                if reading in done:
                    return reading.result()
                if cancelled in done:
                    raise Cancelled("cancelled", stage=_STAGES[self._task.op])
                if log in done:
                    log.result()
                    waiting.discard(log)
                self._check_time()
        finally:
            reading.cancel()
            cancelled.cancel()
            await asyncio.wait({reading, cancelled})

    async def _read(self, events: asyncio.StreamReader) -> Message | None:
        async for lines in read_lines(events, MAX_EVENT_BYTES):
            for message in map(parse_message, lines):
                if message.event in ("result", "error"):
                    self._tell_held_progress()
                    return message
                _HANDLERS[message.event](self, message.data)
        return None

    def _plan(self, data: dict[str, Any]) -> None:
        self._moved = self._loop.time()
        self._on_event(ChildEvent("plan", data))

    def _warning(self, data: dict[str, Any]) -> None:
        self._warnings += 1
        if self._warnings <= _MAX_WARNINGS:
            self._on_event(ChildEvent("warning", data))

    def _progress(self, data: dict[str, Any]) -> None:
        now = self._loop.time()
        position = tuple(data.get(name) for name in ("frames", "out_time", "bytes", "beat"))
        if position != self._position:
            self._position, self._moved = position, now
        self._held_progress = ChildEvent("progress", data)
        if now - self._told_progress >= _PROGRESS_SECONDS:
            self._told_progress = now
            self._tell_held_progress()

    def _tell_held_progress(self) -> None:
        if self._held_progress is not None:
            self._on_event(self._held_progress)
            self._held_progress = None

    def _patience_seconds(self) -> float | None:
        """Until the next check of the time; None: there is none."""
        remaining = self._started + self._task.deadline_seconds - self._loop.time()
        if self._task.stall_seconds is not None:
            remaining = min(remaining, self._task.stall_seconds / _STALL_CHECKS)
        return None if math.isinf(remaining) else max(0.0, remaining)

    def _check_time(self) -> None:
        now, task = self._loop.time(), self._task
        if now - self._started >= task.deadline_seconds:
            raise DeadlineExceeded(
                f"not finished within {task.deadline_seconds:g} s",
                stage=_STAGES[task.op],
                deadline_seconds=task.deadline_seconds,
            )
        # Work without progress of its own, such as moving the index of a large MP4 to its front, shows on the disk.
        stored_bytes = read_stored_bytes(self._pid)
        if stored_bytes > self._stored_bytes:
            self._stored_bytes, self._moved = stored_bytes, now
        if task.stall_seconds is not None and now - self._moved >= task.stall_seconds:
            raise Stalled(
                f"no progress for {task.stall_seconds:g} s", stage=_STAGES[task.op], stall_seconds=task.stall_seconds
            )


_HANDLERS: dict[str, Callable[[Watch, dict[str, Any]], None]] = {
    "plan": Watch._plan,
    "warning": Watch._warning,
    "progress": Watch._progress,
}


def read_stored_bytes(pid: int) -> int:
    """Bytes that a process has read from and written to storage; 0 where the kernel does not tell."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return 0
    counts = dict(line.split(": ") for line in lines)
    return int(counts.get("read_bytes", 0)) + int(counts.get("write_bytes", 0))
