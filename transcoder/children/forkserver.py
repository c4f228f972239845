"""The fork server: a small single-threaded process that has imported the engine and forks one child per piece of work.

The service talks to it over a sequenced-packet socket, one JSON object per packet. A `fork` request brings its
descriptors: the request (a file with the task's JSON), the event pipe, the log pipe and perhaps a link. The server
alone reaps, so a child's number can't be taken by another process while the server may still signal it.
It ends, and its children with it, when the service closes the socket or dies.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NoReturn

from transcoder.children.child import run_request
from transcoder.children.process import become_child, die_with_parent, ignore_stop_signals
from transcoder.children.sandbox import Layers, leave_network, try_layers

MAX_PACKET_BYTES = 4096
DESCRIPTORS = 4
"""At most: the request, the event pipe, the log pipe and, for some, the link."""
_FAREWELL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Request:
    """What the service asks for. `id` is the service's own number for the child."""

    op: Literal["fork", "kill"]
    id: int

    def packet(self) -> bytes:
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server tells.

    `value` is the pid for `forked`, errno for `refused`, and for `exited` the exit code (negative: the signal).
    `layers` comes with `ready`: what confines children here.
    """

    event: Literal["ready", "forked", "refused", "killed", "exited"]
    id: int = 0
    value: int = 0
    peak_memory_bytes: int = 0
    layers: dict[str, Any] | None = None

    def packet(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class ForkServer:
    """`child_main` runs in the child with the request and returns its exit code. `layers` is told to the service."""

    def __init__(self, control: socket.socket, child_main: Callable[[bytes], int], layers: Layers) -> None:
        self._control = control
        self._layers = layers
        self._child_main = child_main
        self._pids: dict[int, int] = {}
        self._wake_reader, self._wake_writer = socket.socketpair()
        for end in (self._wake_reader, self._wake_writer):
            end.setblocking(False)
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Runs until the service is gone."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._control.send(Reply("ready", layers=asdict(self._layers)).packet())
        with contextlib.suppress(ConnectionError):
            while True:
                ready = {key.fileobj for key, _ in self._selector.select()}
                if self._wake_reader in ready:
                    with contextlib.suppress(BlockingIOError):
                        self._wake_reader.recv(MAX_PACKET_BYTES)
                    self._reap()
                if self._control in ready and not self._handle_request():
                    break
        self._farewell()

    def _handle_request(self) -> bool:
        """False when the service has closed its end."""
        packet, fds, _, _ = socket.recv_fds(self._control, MAX_PACKET_BYTES, DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        if not packet:
            return False
        request = Request(**json.loads(packet))
        try:
            _HANDLERS[request.op](self, request.id, fds)
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _fork(self, number: int, fds: list[int]) -> None:
        request_fd, events_fd, log_fd, *link = fds
        server_pid = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._control.send(Reply("refused", number, error.errno or 0).packet())
            return
        if pid == 0:
            self._run_child(server_pid, request_fd, events_fd, log_fd, link[0] if link else None)
        self._pids[number] = pid
        self._control.send(Reply("forked", number, pid).packet())

    def _run_child(
        self, server_pid: int, request_fd: int, events_fd: int, log_fd: int, link_fd: int | None
    ) -> NoReturn:
        code = os.EX_SOFTWARE
        try:
            # Closed as objects too, lest one is finalised later and closes a number that is in use again.
            self._selector.close()
            for end in (self._control, self._wake_reader, self._wake_writer):
                end.close()
            request = _read_all(request_fd)
            become_child(server_pid, events_fd=events_fd, log_fd=log_fd, link_fd=link_fd)
            gc.enable()
            code = self._child_main(request)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            # Never back into the server's loop, whatever happened; and no exit handlers of libraries and drivers.
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)

    def _kill(self, number: int, _fds: list[int]) -> None:
        if number in self._pids:
            _kill_group(self._pids[number])
        self._control.send(Reply("killed", number).packet())

    def _reap(self) -> None:
        numbers = {pid: number for number, pid in self._pids.items()}
        while self._pids:
            # Looked at before it is reaped: as long as it is a zombie, its group's number is its own.
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return
            _kill_group(ended.si_pid)
            _, status, usage = os.wait4(ended.si_pid, 0)
            number = numbers[ended.si_pid]
            del self._pids[number]
            code = os.waitstatus_to_exitcode(status)
            self._control.send(Reply("exited", number, code, usage.ru_maxrss * 1024).packet())

    def _farewell(self) -> None:
        for pid in self._pids.values():
            _kill_group(pid)
        end = time.monotonic() + _FAREWELL_SECONDS
        while self._pids and time.monotonic() < end:
            with contextlib.suppress(ConnectionError):
                self._reap()
            time.sleep(0.01)


_HANDLERS: dict[str, Callable[[ForkServer, int, list[int]], None]] = {
    "fork": ForkServer._fork,
    "kill": ForkServer._kill,
}


def _kill_group(pid: int) -> None:
    """SIGKILL to a child that is not reaped yet and to its group, which a child of this moment may not have yet."""
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def _read_all(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--ops", required=True, help="module whose OPS a child may run")
    parser.add_argument("--sandbox", action="store_true", help="confine children as far as the kernel can")
    arguments = parser.parse_args()
    die_with_parent(arguments.parent)
    ignore_stop_signals()
    ops = importlib.import_module(arguments.ops).OPS
    # What is imported now is shared by all children: the collector must not touch (and so copy) it.
    gc.disable()
    gc.freeze()
    layers = try_layers(network_namespace=leave_network()) if arguments.sandbox else Layers()
    with socket.socket(fileno=arguments.socket) as control:
        control.set_inheritable(False)
        ForkServer(control, lambda request: run_request(request, ops, layers), layers).serve()


if __name__ == "__main__":
    main()
