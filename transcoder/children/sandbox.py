"""What a child may do, once it has entered its sandbox: read its input, work in its folder, compute.

The layers are independent of each other: Landlock for files, seccomp for system calls, a network namespace without
interfaces, no capabilities. Which of them there are is found out by entering them, in a process made for that.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from transcoder.children import cgroups, landlock, loopback, seccomp
from transcoder.children.landlock import DEVICE, LIST, READ, WORK, Grant
from transcoder.children.loopback import leave_network
from transcoder.children.process import limit_cpu, limit_data, set_no_new_privs

Mode = Literal["auto", "off", "require"]

_CAPABILITY_VERSION = 0x20080522
_CAP_DAC_READ_SEARCH = 1 << 2
"""A service that runs as root may read inputs that are another user's: its children still may. Landlock names which."""

logger = logging.getLogger(__name__)

_libc = ctypes.CDLL(None, use_errno=True)

_SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share", "/usr/local/share", "/opt/intel"),
    *("/etc/ld.so.cache", "/etc/fonts", "/etc/localtime", "/etc/OpenCL", "/var/cache/fontconfig"),
    *("/sys", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm/overcommit_memory"),
    *("/dev/urandom", "/dev/random", "/dev/zero"),
)
"""Programs, libraries, fonts and facts about the machine; nothing of any user."""
_DEVICES = ("/dev/null",)
_DRIVER_FOLDERS = "LIBVA_DRIVERS_PATH"
"""The variable by which an operator names folders of VA drivers."""


@dataclass(frozen=True)
class Layers:
    """What confines children. `landlock` and `control_group` are versions of the kernel's interfaces, 0 without."""

    landlock: int = 0
    seccomp: bool = False
    network_namespace: bool = False
    no_capabilities: bool = False
    control_group: int = 0

    @property
    def missing(self) -> tuple[str, ...]:
        """Those that `require` asks for and that are not there."""
        return tuple(name for name in ("landlock", "seccomp") if not getattr(self, name))

    def log(self, mode: Mode) -> None:
        """Tells the operator what there is, loudly when it is less than there could be."""
        parts = ", ".join(f"{name}={value}" for name, value in asdict(self).items())
        if mode == "off" or self.missing:
            logger.warning("processes that read inputs are not fully confined (sandbox=%s): %s", mode, parts)
        else:
            logger.info("processes that read inputs are confined: %s", parts)


@dataclass(frozen=True)
class SandboxPolicy:
    """The operator's choice. `memory_bytes` 0: no limit."""

    mode: Mode = "off"
    memory_bytes: int = 0


@dataclass(frozen=True)
class Confinement:
    """What one child is left with; paths are of files or whole folders."""

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    memory_bytes: int = 0
    cpu_seconds: int = 0
    memory_group: str = ""
    """The control group that the child joins; empty: none."""
    gpu: str | None = None
    """A render node, or an X display such as `:7`."""
    loopback: bool = False
    """It may connect to one port, on which it listens itself (`transcoder.children.loopback`)."""

    @property
    def display(self) -> bool:
        """Whether the GPU is behind an X server, which is talked to through a socket of this machine."""
        return self.gpu is not None and not self.gpu.startswith("/")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        return cls(
            tuple(told["readable"]),
            tuple(told["writable"]),
            told["memory_bytes"],
            told["cpu_seconds"],
            told["memory_group"],
            told["gpu"],
            told["loopback"],
        )


def enter(confinement: Confinement, layers: Layers) -> None:
    """Confines this process, for good; it must have one thread. OSError when a layer that there is fails."""
    if confinement.memory_group:
        cgroups.join(Path(confinement.memory_group))
    if confinement.memory_bytes:
        limit_data(confinement.memory_bytes)
    if confinement.cpu_seconds:
        limit_cpu(confinement.cpu_seconds)
    if layers == Layers():
        return
    set_no_new_privs()
    port = loopback.listen(private=layers.network_namespace) if confinement.loopback else None
    if layers.no_capabilities:
        _drop_capabilities()
    if layers.landlock:
        landlock.restrict(
            (
                *_common_grants(),
                *(Grant(Path(path), READ) for path in confinement.readable),
                *(Grant(Path(path), WORK) for path in confinement.writable),
                *_gpu_grants(confinement),
            ),
            abstract_sockets=confinement.display,
            tcp_port=port,
        )
    # last, as it may refuse what the other layers need
    if layers.seccomp:
        seccomp.install(local_sockets=confinement.display, tcp_sockets=confinement.loopback)


def try_layers(*, network_namespace: bool) -> Layers:
    """The layers that can be entered here. Each is entered once, all of them together, by a process of its own.

    The caller must have one thread.
    """
    # kept for all children
    _common_grants()
    layers = Layers(
        landlock=landlock.abi() if _succeeds(Layers(landlock=1)) else 0,
        seccomp=_succeeds(Layers(seccomp=True)),
        network_namespace=network_namespace,
        no_capabilities=_succeeds(Layers(no_capabilities=True)),
    )
    return layers if _succeeds(layers) else Layers(network_namespace=network_namespace)


def _succeeds(layers: Layers) -> bool:
    pid = os.fork()
    if pid == 0:
        code = os.EX_SOFTWARE
        try:
            enter(Confinement(), layers)
            code = os.EX_OK if _holds(layers) else os.EX_SOFTWARE
        except OSError:
            code = os.EX_UNAVAILABLE
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == os.EX_OK


def _holds(layers: Layers) -> bool:
    """Whether what a layer is there to refuse is refused."""
    refused = True
    if layers.landlock:
        refused &= _raises_permission_error(lambda: os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY)))
    if layers.seccomp:
        refused &= _raises_permission_error(lambda: os.kill(os.getppid(), signal.SIGCONT))
    return refused


def _raises_permission_error(attempt: Any) -> bool:
    try:
        attempt()
    except PermissionError:
        return True
    return False


def machine_memory_bytes() -> int:
    """Of the machine, or of the control group that the process is in, if that has less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *_group_limits()])


def _group_limits() -> list[int]:
    """Memory limits as a container sees its own group: version 2 and version 1 of the interface."""
    found = []
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            found.append(int(text))
    return found


@cache
def _common_grants() -> tuple[Grant, ...]:
    python = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    python |= {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    top = Path(__file__).parents[2]
    python |= {str(top / "transcoder"), str(top / "pipelines")}
    return (
        *(Grant(Path(path), READ) for path in (*_SYSTEM, *sorted(python))),
        *(Grant(Path(path), DEVICE) for path in _DEVICES),
    )


def _gpu_grants(confinement: Confinement) -> tuple[Grant, ...]:
    """The one node, and the names of those beside it: libraries look for it in the list."""
    if confinement.gpu is None:
        return ()
    drivers = tuple(Grant(Path(path), READ) for path in os.environ.get(_DRIVER_FOLDERS, "").split(":") if path)
    if confinement.display:
        return drivers
    node = Path(confinement.gpu)
    return (*drivers, Grant(node, DEVICE), Grant(node.parent, LIST))


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapabilitySets(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


def _drop_capabilities() -> None:
    """All but the right to read; a process that has none loses nothing."""
    header = _CapabilityHeader(_CAPABILITY_VERSION, 0)
    sets = (_CapabilitySets * 2)()
    if _libc.capget(ctypes.byref(header), sets) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    for half, kept in ((sets[0], _CAP_DAC_READ_SEARCH), (sets[1], 0)):
        half.effective &= kept
        half.permitted &= kept
        half.inheritable = 0
    if _libc.capset(ctypes.byref(header), sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")


__all__ = [
    "Confinement",
    "Layers",
    "Mode",
    "SandboxPolicy",
    "enter",
    "leave_network",
    "machine_memory_bytes",
    "try_layers",
]
