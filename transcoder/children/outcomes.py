"""How a child's end becomes one error of the pipeline: its own words rebuilt, or its exit explained."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import Crashed, LimitExceeded, OutOfMemory, PipelineError

if TYPE_CHECKING:
    from transcoder.children.forks import Exit

_MUCH = 0.5
"""Of the memory limit: a crash above it is taken for a failed allocation. Libraries reserve more than they touch."""
_VMSTAT = Path("/proc/vmstat")


def rebuild_error(told: Mapping[str, Any]) -> PipelineError:
    """The error that `PipelineError.to_json` was called on, of its code's type; PipelineError for unknown codes."""
    code, facts = str(told.get("code", "internal")), told.get("facts")
    kind = LimitExceeded if code.startswith("limit_") else _types().get(code, PipelineError)
    error = kind.__new__(kind)
    # Past the type's own initialiser: those differ, and all of what they compute is told.
    PipelineError.__init__(error, str(told.get("message", "")), stage=told.get("stage"), device=told.get("device"))
    error.facts = dict(facts) if isinstance(facts, Mapping) else {}
    error.code, error.retryable = code, bool(told.get("retryable"))  # type: ignore[misc]
    return error


def _types() -> dict[str, type[PipelineError]]:
    return {kind.code: kind for kind in _tree(PipelineError) if "code" in vars(kind)}


def _tree(kind: type[PipelineError]) -> Iterator[type[PipelineError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)


def explain_exit(end: Exit | None, *, oom_kills: int, memory_bytes: int = 0) -> PipelineError:
    """Why a child ended without a result and without being told to.

    `oom_kills` counts what the kernel killed for memory while the child ran, `memory_bytes` is its limit (0: none);
    `end` is None when its server was lost.
    """
    if end is None:
        return Crashed("the process that starts children has ended, and its children with it")
    number, peak = -end.code, end.peak_memory_bytes
    if number <= 0:
        message = f"the process ended with exit code {end.code} and no result"
        return Crashed(message, exit_code=end.code, peak_memory_bytes=peak)
    name = _signal_name(number)
    if number == signal.SIGKILL and oom_kills > 0:
        return OutOfMemory("the kernel ended the process for want of memory", signal=name, peak_memory_bytes=peak)
    if memory_bytes and peak >= _MUCH * memory_bytes:
        message = f"the process was ended by {name}, most likely as it was refused more memory"
        return OutOfMemory(message, signal=name, peak_memory_bytes=peak)
    hint = "; perhaps for want of memory" if number == signal.SIGKILL else ""
    return Crashed(f"the process was ended by {name}{hint}", signal=name, peak_memory_bytes=peak)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def count_oom_kills() -> int:
    """Processes that the kernel has killed for memory since boot, in any control group; 0 where it does not tell."""
    try:
        lines = _VMSTAT.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
