"""Landlock: a process gives up all files but those that it names. Linux 5.13 and later; see landlock(7)."""

from __future__ import annotations

import ctypes
import enum
import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH, _NET_PORT = 1, 2
_CONNECT_TCP = 1 << 1
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class Access(enum.IntFlag):
    """What may be done with files, in the kernel's bits (linux/landlock.h)."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


LIST = Access.READ_DIR
READ = Access.READ_FILE | Access.READ_DIR
WORK = (
    READ
    | Access.WRITE_FILE
    | Access.TRUNCATE
    | Access.MAKE_REG
    | Access.MAKE_DIR
    | Access.REMOVE_FILE
    | Access.REMOVE_DIR
    | Access.REFER
)
"""All that work in a folder takes; not among it are links, FIFOs, sockets and devices."""
DEVICE = READ | Access.WRITE_FILE | Access.IOCTL_DEV

_OF_FILES = Access.EXECUTE | Access.WRITE_FILE | Access.READ_FILE | Access.TRUNCATE | Access.IOCTL_DEV
"""What may be allowed on a path that is no folder."""
_SINCE = {
    1: Access(Access.REFER - 1),
    2: Access.REFER,
    3: Access.TRUNCATE,
    5: Access.IOCTL_DEV,
}
"""The version of the interface that brought each right."""
_NETWORK_SINCE, _NO_TCP = 4, 0b11
_SCOPES_SINCE, _SOCKETS, _SIGNALS = 6, 0b01, 0b10
"""Neither TCP's bind nor connect; no abstract UNIX sockets of others, no signals to others."""


@dataclass(frozen=True)
class Grant:
    path: Path
    access: Access


class _RulesetAttr(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _NetPortAttr(ctypes.Structure):
    _fields_ = [("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64)]


class _PathBeneathAttr(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def abi() -> int:
    """The version of the kernel's interface; 0 where there is none or it is switched off."""
    version = int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG))
    return max(0, version)


def restrict(grants: Iterable[Grant], *, abstract_sockets: bool = False, tcp_port: int | None = None) -> None:
    """From here on this thread, and all that it starts, reaches only `grants`: as far as the kernel's version goes.

    What is open stays open. Paths that don't exist are left out. `abstract_sockets`: those of others may be connected
    to. `tcp_port`: the one that may be connected to, at any address. OSError when it can't be done; needs
    `no_new_privs` or CAP_SYS_ADMIN.
    """
    version = abi()
    handled = Access(0)
    for since, rights in _SINCE.items():
        if version >= since:
            handled |= rights
    scopes = _SIGNALS if abstract_sockets else _SIGNALS | _SOCKETS
    attributes = _RulesetAttr(
        fs=handled,
        net=_NO_TCP if version >= _NETWORK_SINCE else 0,
        scoped=scopes if version >= _SCOPES_SINCE else 0,
    )
    with ExitStack() as stack:
        # fields that an older kernel does not know are accepted as long as they are zero
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        ruleset = _checked("landlock_create_ruleset", _CREATE_RULESET, ctypes.byref(attributes), size, 0)
        stack.callback(os.close, ruleset)
        for grant in grants:
            _add(ruleset, grant, handled)
        if tcp_port is not None and version >= _NETWORK_SINCE:
            rule = _NetPortAttr(allowed=_CONNECT_TCP, port=tcp_port)
            _checked("landlock_add_rule", _ADD_RULE, ruleset, _NET_PORT, ctypes.byref(rule), 0)
        _checked("landlock_restrict_self", _RESTRICT_SELF, ruleset, 0)


def _add(ruleset: int, grant: Grant, handled: Access) -> None:
    try:
        place = os.open(grant.path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    try:
        allowed = grant.access & handled
        if not grant.path.is_dir():
            allowed &= _OF_FILES
        rule = _PathBeneathAttr(allowed=allowed, parent_fd=place)
        _checked("landlock_add_rule", _ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(place)


def _checked(name: str, number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result
