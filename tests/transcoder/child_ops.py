"""Operations for tests of the process layer: the fork server of a test is started with this module's name."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av

from pipelines import errors
from transcoder.children.child import Emit
from transcoder.children.process import EVENTS_FD, limit_file_size

Payload = dict[str, Any]


def _progress(frames: int) -> Payload:
    return {"frames": frames, "out_time": frames / 25, "bytes": 0}


def echo(payload: Payload, emit: Emit) -> Payload:
    return payload


def tell(payload: Payload, emit: Emit) -> Payload:
    for event, data in payload["events"]:
        emit(event, data)
    return {}


def fail(payload: Payload, emit: Emit) -> Payload:
    raise getattr(errors, payload["error"])(*payload["arguments"], stage="encode", width=16)


def own_error(payload: Payload, emit: Emit) -> Payload:
    raise type("Odd", (errors.PipelineError,), {"code": "odd", "retryable": True})("odd")


def bug(payload: Payload, emit: Emit) -> Payload:
    return {"value": [][1]}


def no_memory(payload: Payload, emit: Emit) -> Payload:
    return {"value": len(bytearray(1 << 60))}


def disk_full(payload: Payload, emit: Emit) -> Payload:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere")


def write_too_much(payload: Payload, emit: Emit) -> Payload:
    limit_file_size(1000)
    return {"size": Path(payload["path"]).write_bytes(bytes(2000))}


def abort(payload: Payload, emit: Emit) -> Payload:
    os.abort()


def segfault(payload: Payload, emit: Emit) -> Payload:
    return {"value": ctypes.string_at(0)}


def leave(payload: Payload, emit: Emit) -> Payload:
    os._exit(3)


def kill_self(payload: Payload, emit: Emit) -> Payload:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def fall_silent(payload: Payload, emit: Emit) -> Payload:
    os.close(EVENTS_FD)
    return hang(payload, emit)


def hang(payload: Payload, emit: Emit) -> Payload:
    """Sleeps in native code, holding the GIL, with every signal blocked that can be."""
    emit("plan", {"pid": os.getpid()})
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ctypes.PyDLL(None).sleep(600)
    return {}


def hang_after_result(payload: Payload, emit: Emit) -> Payload:
    emit("result", {"done": True})
    return hang(payload, emit)


def stop(payload: Payload, emit: Emit) -> Payload:
    emit("plan", {"pid": os.getpid()})
    os.kill(os.getpid(), signal.SIGSTOP)
    return {}


def hang_with_family(payload: Payload, emit: Emit) -> Payload:
    """A grandchild of the same group, which holds the pipes as well."""
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    emit("plan", {"pid": os.getpid(), "grandchild": pid})
    return hang(payload, emit) if payload.get("hang", True) else {}


def wait_for_interrupt(payload: Payload, emit: Emit) -> Payload:
    """Counts interrupts until SIGUSR1."""
    interrupts: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    emit("plan", {"pid": os.getpid()})
    signal.sigwait([signal.SIGUSR1])
    return {"interrupts": len(interrupts)}


def repeat_progress(payload: Payload, emit: Emit) -> Payload:
    """Says for ever that it is where it was."""
    while True:
        emit("progress", _progress(7))
        time.sleep(0.02)


def advance(payload: Payload, emit: Emit) -> Payload:
    for frames in range(payload["steps"]):
        emit("progress", _progress(frames))
        time.sleep(payload["pause_seconds"])
    return {"frames": payload["steps"]}


def write_silently(payload: Payload, emit: Emit) -> Payload:
    """Writes to the disk without a word of progress."""
    with open(payload["path"], "wb") as file:
        for _ in range(payload["steps"]):
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
            time.sleep(payload["pause_seconds"])
    return {}


def log_lines(payload: Payload, emit: Emit) -> Payload:
    for number in range(payload["count"]):
        print(f"line {number}")
    return {}


def log_raw(payload: Payload, emit: Emit) -> Payload:
    sys.stderr.buffer.write(payload["text"].encode("latin-1"))
    return {}


def ffmpeg_message(payload: Payload, emit: Emit) -> Payload:
    av.logging.log(av.logging.ERROR, "h264", "from the library\n")
    return {}


def flood_events(payload: Payload, emit: Emit) -> Payload:
    for frames in range(payload["count"]):
        emit(payload["event"], _progress(frames))
    return {}


def endless_line(payload: Payload, emit: Emit) -> Payload:
    while True:
        os.write(EVENTS_FD, b"x" * 65536)


def talk_nonsense(payload: Payload, emit: Emit) -> Payload:
    os.write(EVENTS_FD, payload["text"].encode() + b"\n")
    return hang(payload, emit)


def large_result(payload: Payload, emit: Emit) -> Payload:
    return {"text": "x" * payload["bytes"]}


def describe(payload: Payload, emit: Emit) -> Payload:
    """What the process is like."""
    return {
        "pid": os.getpid(),
        "session": os.getsid(0),
        "group": os.getpgid(0),
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "oom_score_adj": int(Path("/proc/self/oom_score_adj").read_text()),
        "environment": sorted(os.environ),
        "modules": sorted(sys.modules),
    }


ACTIONS: dict[str, Callable[[Payload, Emit], Payload]] = {
    action.__name__: action
    for action in (
        *(echo, tell, fail, own_error, bug, no_memory, disk_full, write_too_much),
        *(abort, segfault, leave, kill_self, fall_silent),
        *(hang, hang_after_result, stop, hang_with_family, wait_for_interrupt),
        *(repeat_progress, advance, write_silently),
        *(log_lines, log_raw, ffmpeg_message, flood_events, endless_line, talk_nonsense, large_result, describe),
    )
}

OPS = {"run": lambda payload, emit: ACTIONS[payload["do"]](payload, emit)}
