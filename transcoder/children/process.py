"""What a process does to itself before it works: signals, session, parent, descriptors, limits (Linux)."""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import os
import resource
import signal
from pathlib import Path

EVENTS_FD = 3
"""A child's descriptor for its messages; 0 is /dev/null, 1 and 2 are its log, and there are no others."""
MAX_EVENT_BYTES = 4 << 20
"""The longest message of a child."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_MAX_OPEN_FILES = 1024
_OOM_SCORE_ADJ = "500"
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIRST_FREE_FD = 64
_LARGE_BLOCK_BYTES = 64 << 20
"""What is asked for at once for a large picture: as much may be left when it is refused."""
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent_pid: int) -> None:
    """Asks the kernel for SIGKILL when the parent ends, and exits at once when it has ended already."""
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        os._exit(1)


def ignore_stop_signals() -> None:
    """Leaves stopping to the service: a service manager may signal all processes, but work may have time to finish."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)


LINK_FD = 4
"""A child's descriptor for what the service and it have to tell each other meanwhile; most have none."""


def become_child(server_pid: int, *, events_fd: int, log_fd: int, link_fd: int | None = None) -> None:
    """Turns a fresh fork into a child of its own session that holds the given pipes and nothing else.

    It dumps no core, and goes first when memory runs out.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ignore_stop_signals()
    os.setsid()
    die_with_parent(server_pid)
    _keep_only(log_fd, log_fd, events_fd, *(() if link_fd is None else (link_fd,)))
    # A native crash leaves its stack in the log.
    faulthandler.enable(file=2)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, _MAX_OPEN_FILES)
    Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE_ADJ)


def _keep_only(*fds: int) -> None:
    """/dev/null and these, as 0, 1, 2 …"""
    null_fd = os.open(os.devnull, os.O_RDWR)
    # Moved out of the way first: a pipe may have arrived as one of the numbers that are about to be replaced.
    kept = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD) for fd in (null_fd, *fds)]
    for number, fd in enumerate(kept):
        os.dup2(fd, number, inheritable=False)
    os.closerange(len(kept), os.sysconf("SC_OPEN_MAX"))


def limit_file_size(max_bytes: int) -> None:
    """A write beyond `max_bytes` of a file fails with EFBIG (and not with a signal: Python ignores SIGXFSZ)."""
    _lower(resource.RLIMIT_FSIZE, max_bytes)


def limit_data(max_bytes: int) -> None:
    """More memory of its own than this is refused to the process (ENOMEM); mapped files don't count."""
    _lower(resource.RLIMIT_DATA, max_bytes)


def reached_data_limit() -> bool:
    """Whether the process's memory came close to `limit_data` at any time.

    Libraries give many names to an allocation that failed. The kernel keeps the largest size of the whole process: the
    part of it that the limit counts is taken to have grown by as much as the whole was once larger than now.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit == resource.RLIM_INFINITY:
        return False
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith("Vm")}
    peak = sizes["VmData"] + sizes["VmPeak"] - sizes["VmSize"]
    return peak >= limit - max(_LARGE_BLOCK_BYTES, limit // 5)


def limit_cpu(seconds: int) -> None:
    """The kernel ends the process (SIGXCPU) when all its threads together have computed for so long."""
    _lower(resource.RLIMIT_CPU, seconds)


def set_no_new_privs() -> None:
    """No program that this process starts may have more rights than it has: what filters ask for."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
