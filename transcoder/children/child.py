"""What a child does: one operation of the engine, told line by line over its event pipe.

A line is a JSON object {"event": …, "data": …}. Events are `plan`, `progress` and `warning`, and at last one `result`
or `error`. What is written to stdout and stderr, FFmpeg's own messages among it, is the log.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import av

from pipelines.errors import DiskFull, LimitExceeded, OutOfMemory, PipelineError, cause
from transcoder.children.process import EVENTS_FD, MAX_EVENT_BYTES, reached_data_limit
from transcoder.children.sandbox import Confinement, Layers, enter


class Emit(Protocol):
    """Tells the service something. LimitExceeded when it is longer than MAX_EVENT_BYTES."""

    def __call__(self, event: str, data: dict[str, Any]) -> None: ...


Op = Callable[[dict[str, Any], Emit], dict[str, Any]]
"""An operation: its payload and a way to tell in; its result out, as JSON's types."""


class EventPipe:
    """The writing end of the event pipe; lines of several threads don't mix."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def emit(self, event: str, data: dict[str, Any]) -> None:
        line = json.dumps({"event": event, "data": data}, default=str).encode() + b"\n"
        if len(line) > MAX_EVENT_BYTES:
            raise LimitExceeded("limit_size", f"the {event} is too large", bytes=len(line), limit=MAX_EVENT_BYTES)
        with self._lock:
            view = memoryview(line)
            while view:
                view = view[os.write(self._fd, view) :]


def run_request(request: bytes, ops: Mapping[str, Op], layers: Layers = Layers()) -> int:  # noqa: B008 - frozen
    """Runs the operation that a request (JSON: op, payload, confinement) names, within `layers`.

    It tells the operation's result or error, and returns the exit code.
    """
    # FFmpeg's callback writes to stderr by itself. PyAV's takes the GIL, which can deadlock with FFmpeg's threads.
    av.logging.set_libav_level(av.logging.WARNING)
    av.logging.restore_default_callback()
    # What is said before the process is killed shall be in the log.
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    events = EventPipe(EVENTS_FD)
    try:
        task = json.loads(request)
        if task.get("confinement") is not None:
            enter(Confinement.from_json(task["confinement"]), layers)
        events.emit("result", ops[task["op"]](task["payload"], events.emit))
    except Exception as error:  # noqa: BLE001 - told to the service, which decides
        failure = as_pipeline_error(error)
        if failure.code in _PERHAPS_MEMORY and reached_data_limit():
            failure = OutOfMemory(f"out of memory: {failure.message}", stage=failure.stage)
        if failure is not error:
            traceback.print_exc()
        events.emit("error", failure.to_json())
    return os.EX_OK


_PERHAPS_MEMORY = ("internal", "encoder_rejected", "output_failed", "bad_input", "no_frames")
"""What a failed allocation may be taken for by the libraries in which it happens."""

_BY_ERRNO: dict[int, Callable[[str], PipelineError]] = {
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.ENOMEM: OutOfMemory,
    errno.EFBIG: lambda message: LimitExceeded("limit_output", message),
}


def as_pipeline_error(error: Exception) -> PipelineError:
    """The error itself when it is the pipeline's; a typed one for memory and disk; else `internal`."""
    if isinstance(error, PipelineError):
        return error
    if isinstance(error, MemoryError):
        return OutOfMemory(f"out of memory: {cause(error)}")
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return _BY_ERRNO[error.errno](cause(error))
    return PipelineError(f"{type(error).__name__}: {cause(error)}")
