"""A seccomp filter: system calls that media work never makes are refused by the kernel.

The refused ones are listed, and so is what is newer than the list: graphics drivers and C libraries use more calls
than could be listed as allowed. A refused call fails with EPERM, and libraries go on without it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from transcoder.children.syscalls import AARCH64, X86_64, Architecture

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
"""Offsets in struct seccomp_data; of an argument the low half is compared, as the kernel takes 32 bits of these."""
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ARGUMENT_BYTES = 8
_AF_INET, _SOCK_STREAM, _TYPE_BITS = 2, 1, 0xF
_CLONE_THREAD = 0x00010000
_AF_UNIX = 1

_ARCHITECTURES = {"x86_64": X86_64, "aarch64": AARCH64}
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


@dataclass(frozen=True, slots=True)
class _Instruction:
    """One of classic BPF: the jumps count instructions that are skipped."""

    code: int
    value: int
    if_true: int = 0
    if_false: int = 0

    def packed(self) -> bytes:
        return struct.pack("=HBBI", self.code, self.if_true, self.if_false, self.value)


def architecture() -> Architecture | None:
    """Of this process; None where there is no list of calls for it."""
    found = _ARCHITECTURES.get(platform.machine())
    return found if found is not None and ctypes.sizeof(ctypes.c_void_p) == 8 else None


def install(*, local_sockets: bool = False, tcp_sockets: bool = False) -> None:
    """Filters this process, which must have one thread and `no_new_privs`. OSError when it can't be done.

    `local_sockets`: sockets of this machine (AF_UNIX) may be opened, `tcp_sockets`: those of TCP over IPv4; others
    never. Where TCP's may lead is for the other layers to say.
    """
    known = architecture()
    if known is None:
        raise OSError(errno.ENOSYS, f"no filter for {platform.machine()}")
    instructions = _program(known, os.getpid(), local_sockets=local_sockets, tcp_sockets=tcp_sockets)
    code = b"".join(instruction.packed() for instruction in instructions)
    program = _Program(len(code) // 8, code)
    if _libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")


def _program(
    known: Architecture, own_pid: int, *, local_sockets: bool = False, tcp_sockets: bool = False
) -> Iterator[_Instruction]:
    refused, unknown = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    yield _Instruction(_LOAD, _ARCHITECTURE_AT)
    yield _Instruction(_EQUAL, known.audit, if_true=1)
    yield _Instruction(_RETURN, _KILL_PROCESS)
    yield _Instruction(_LOAD, _NUMBER_AT)
    yield from _returned_if(_AT_LEAST, known.first_unknown, unknown)
    # its flags are in memory, where no filter can look; C libraries fall back to `clone`
    yield from _returned_if(_EQUAL, known.clone3, unknown)
    if local_sockets or tcp_sockets:
        yield from _sockets(known, local=local_sockets, tcp=tcp_sockets)
    for number in known.refused:
        yield from _returned_if(_EQUAL, number, refused)
    for number in known.threads_only:
        yield _Instruction(_EQUAL, number, if_false=4)
        yield _Instruction(_LOAD, _ARGUMENTS_AT)
        yield _Instruction(_ANY_BIT, _CLONE_THREAD, if_true=1)
        yield _Instruction(_RETURN, refused)
        yield _Instruction(_RETURN, _ALLOW)
    for number, pids in ((n, (own_pid, *others)) for n, others in known.own_pid_only.items()):
        yield _Instruction(_EQUAL, number, if_false=len(pids) + 3)
        yield _Instruction(_LOAD, _ARGUMENTS_AT)
        for place, pid in enumerate(pids):
            yield _Instruction(_EQUAL, pid, if_true=len(pids) - place)
        yield _Instruction(_RETURN, refused)
        yield _Instruction(_RETURN, _ALLOW)
    yield _Instruction(_RETURN, _ALLOW)


def _sockets(known: Architecture, *, local: bool, tcp: bool) -> Iterator[_Instruction]:
    """What `socket` may be called for. Its second argument has flags above the type."""
    block = [_Instruction(_LOAD, _ARGUMENTS_AT)]
    if local:
        block += [_Instruction(_EQUAL, _AF_UNIX, if_false=1), _Instruction(_RETURN, _ALLOW)]
    if tcp:
        block += [
            _Instruction(_EQUAL, _AF_INET, if_false=4),
            _Instruction(_LOAD, _ARGUMENTS_AT + _ARGUMENT_BYTES),
            _Instruction(_AND, _TYPE_BITS),
            _Instruction(_EQUAL, _SOCK_STREAM, if_false=1),
            _Instruction(_RETURN, _ALLOW),
        ]
    block.append(_Instruction(_RETURN, _ERRNO | errno.EPERM))
    yield _Instruction(_EQUAL, known.socket, if_false=len(block))
    yield from block


def _returned_if(test: int, number: int, result: int) -> tuple[_Instruction, _Instruction]:
    return _Instruction(test, number, if_false=1), _Instruction(_RETURN, result)
