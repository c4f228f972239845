"""Operations that try to get out of the sandbox, and tell what the kernel said to each try."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transcoder.children.child import Emit
from transcoder.children.process import EVENTS_FD

Payload = dict[str, Any]

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _call(function: str, *arguments: Any) -> None:
    """A function of the C library; OSError when it fails."""
    ctypes.set_errno(0)
    if getattr(_libc, function)(*arguments) == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), function)


def _connect(kind: int, address: Any, family: int = socket.AF_INET) -> None:
    with socket.socket(family, kind) as client:
        client.connect(address)


def _send_packet(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"out", ("127.0.0.1", port))


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


TRIES: dict[str, Callable[[Payload], object]] = {
    "read a file of the system": lambda p: Path("/etc/passwd").read_bytes(),
    "read through its root": lambda p: Path("/proc/self/root/etc/passwd").read_bytes(),
    "read another's file": lambda p: Path(p["foreign"]).read_bytes(),
    "read the environment of its parent": lambda p: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    "list the folder of all work": lambda p: os.listdir(Path(p["folder"]).parent),
    "read through a link in its folder": lambda p: Path(p["folder"], "link").read_bytes(),
    "write through a link in its folder": lambda p: Path(p["folder"], "link").write_bytes(b"x"),
    "write its input": lambda p: Path(p["input"]).open("r+b").close(),
    "truncate its input": lambda p: os.truncate(p["input"], 0),
    "remove its input": lambda p: os.unlink(p["input"]),
    "write beside its folder": lambda p: Path(p["folder"]).parent.joinpath("out.txt").write_bytes(b"x"),
    "write where all may": lambda p: Path("/tmp/transcoder-sandbox-test").write_bytes(b"x"),
    "move a file out of its folder": lambda p: os.rename(Path(p["folder"], "own"), Path(p["folder"]).parent / "own"),
    "make a link": lambda p: os.symlink("/etc", Path(p["folder"], "new")),
    "make a hard link to its input": lambda p: os.link(p["input"], Path(p["folder"], "new")),
    "make a FIFO": lambda p: os.mkfifo(Path(p["folder"], "fifo")),
    "open another's file to all": lambda p: os.chmod(p["foreign"], 0o777),
    "give its folder away": lambda p: os.chown(p["folder"], 1, 1),
    "connect by TCP": lambda p: _connect(socket.SOCK_STREAM, ("127.0.0.1", p["tcp"])),
    "send by UDP": lambda p: _send_packet(p["udp"]),
    "connect by IPv6": lambda p: _connect(socket.SOCK_STREAM, ("::1", p["tcp"]), socket.AF_INET6),
    "connect to a local socket": lambda p: _connect(socket.SOCK_STREAM, p["local"], socket.AF_UNIX),
    "open a raw socket": lambda p: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "listen": lambda p: socket.create_server(("127.0.0.1", 0)),
    "run a program": lambda p: os.execv("/bin/true", ["true"]),
    "start a process": lambda p: _fork(),
    "trace its parent": lambda p: _call("ptrace", 16, os.getppid(), None, None),
    "signal its parent": lambda p: os.kill(os.getppid(), 0),
    "signal the service": lambda p: os.kill(p["service"], signal.SIGKILL),
    "signal all": lambda p: os.kill(-1, 0),
    "signal a group": lambda p: os.killpg(p["service"], 0),
    "hold its parent by a descriptor": lambda p: os.pidfd_open(os.getppid()),
    "limit its parent": lambda p: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (1, 1)),
    "raise its own limit": lambda p: resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)),
    "mount": lambda p: _call("mount", b"none", p["folder"].encode(), b"tmpfs", 0, None),
    "make a namespace": lambda p: _call("unshare", 0x10000000),
    "change its root": lambda p: os.chroot(p["folder"]),
    "open a ring": lambda p: _call("syscall", 425, 1, ctypes.create_string_buffer(120)),
    "read the kernel's log": lambda p: _call("klogctl", 3, ctypes.create_string_buffer(10), 10),
    "make a device": lambda p: os.mknod(Path(p["folder"], "device"), 0o600 | 0x2000, os.makedev(1, 3)),
}

GPU_TRIES: dict[str, Callable[[Payload], object]] = {
    "open its GPU": lambda p: Path(p["node"]).open("r+b").close(),
    "list the GPUs": lambda p: os.listdir(Path(p["node"]).parent),
    "open another GPU": lambda p: Path(p["other_node"]).open("r+b").close(),
    "read another GPU": lambda p: Path(p["other_node"]).read_bytes(),
    "read a driver": lambda p: Path(p["driver"]).read_bytes(),
    "make a GPU": lambda p: Path(p["node"]).with_name("renderD130").touch(),
}


def _told(attempt: Callable[[Payload], object], payload: Payload) -> str:
    try:
        attempt(payload)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    except ValueError as error:
        # how Python tells of limits
        return "EPERM" if "not allowed" in str(error) else str(error)
    return "done"


def escape(payload: Payload, emit: Emit) -> Payload:
    tries = TRIES | GPU_TRIES
    return {name: _told(tries[name], payload) for name in payload.get("names", TRIES)}


def work(payload: Payload, emit: Emit) -> Payload:
    """What has to go on working."""
    folder = Path(payload["folder"])
    threads = [threading.Thread(target=Path(folder, f"part-{n}").write_bytes, args=(b"x",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (folder / "below").mkdir()
    (folder / "part-0").rename(folder / "below" / "renamed")
    (folder / "part-1").unlink()
    return {
        "input": Path(payload["input"]).read_text(),
        "files": sorted(str(path.relative_to(folder)) for path in folder.rglob("*")),
        "null": Path(os.devnull).write_bytes(b"x"),
        "own process": "VmPeak" in Path("/proc/self/status").read_text(),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in ("RLIMIT_DATA", "RLIMIT_CPU")},
        "capabilities": next(
            line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff")
        ),
        "interfaces": Path("/proc/self/net/dev").read_text().splitlines()[2:],
    }


def allocate(payload: Payload, emit: Emit) -> Payload:
    return {"bytes": len(bytearray(payload["bytes"]))}


def share(payload: Payload, emit: Emit) -> Payload:
    """Memory that could be another's too: the process limit does not count it."""
    with mmap.mmap(-1, payload["bytes"]) as memory:
        for start in range(0, len(memory), mmap.PAGESIZE):
            memory[start] = 1
    return {"bytes": payload["bytes"]}


def abort(payload: Payload, emit: Emit) -> Payload:
    os.abort()


def hang(payload: Payload, emit: Emit) -> Payload:
    """As a driver does that never returns: in native code, with the GIL, deaf to signals."""
    emit("plan", {"pid": os.getpid()})
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ctypes.PyDLL(None).sleep(600)
    return {}


def forge(payload: Payload, emit: Emit) -> Payload:
    """Claims a file outside its folder as its output."""
    os.write(EVENTS_FD, payload["line"].encode() + b"\n")
    return {}


ACTIONS = {action.__name__: action for action in (escape, work, allocate, share, abort, hang, forge)}

OPS = {"run": lambda payload, emit: ACTIONS[payload["do"]](payload, emit)}
