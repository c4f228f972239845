"""How a stream's process gets its connections: others make them, and hand over descriptors.

The process itself may have no network at all. What FFmpeg has to connect to by itself (RTSP, RTMP) it finds on this
machine's loopback, where a `Bridge` passes on the bytes. Inputs only: PyAV holds Python's lock while FFmpeg opens an
output, and the bridge's thread could not run.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from pipelines.errors import PipelineError

Kind = Literal["bytes", "rtsp", "rtmp"]


class ConnectFailed(PipelineError):
    """Whether it is worth trying again is in `retryable`."""

    code = "connect_failed"
    retryable = True


class TransportRefused(ConnectFailed):
    """A server of RTSP sends nothing over TCP."""

    code = "transport_refused"


class SourceLost(PipelineError):
    """The source did not come back within the attempts that it has."""

    code = "source_lost"


class SourceStalled(PipelineError):
    """Nothing came for too long, and the connection was given up."""

    code = "source_stalled"
    retryable = True


@dataclass
class Connection:
    """An open connection. `bytes`: media, as a stream; else a server of that protocol is at the other end.

    `url` is what FFmpeg is to be told, with credentials, and with HOST where the address of the bridge goes.
    """

    fd: int
    kind: Kind = "bytes"
    url: str = ""
    format: str | None = None
    """FFmpeg's demuxer, where it is known."""
    options: dict[str, str] | None = None
    paced: bool = False
    """It sends as fast as it is read: reading keeps time."""

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Link(Protocol):
    """Makes connections by name: INPUT, INPUT_IN_DATAGRAMS, or an output's."""

    def connect(self, name: str, cancelled: threading.Event, about: str = "") -> Connection:
        """Blocks until it is there. ConnectFailed, or whatever is wrong with the address.

        `about`: what a server of RTSP is told of the tracks that will be sent (SDP).
        """


HOST = "{host}"
INPUT = "input"
INPUT_IN_DATAGRAMS = "input.udp"
"""Names of the source's connection; the second is for servers of RTSP that send nothing over TCP."""
CHUNK_BYTES = 1 << 16
_LOOK_SECONDS = 0.2


class Silence(Exception):
    """No byte came in time."""


class ByteReader:
    """A file of what comes over a descriptor, for PyAV. `close` ends a read that waits, from any thread.

    The first `sniffed` bytes were read already. After the time without a byte, or once closed, the file ends.
    """

    def __init__(self, connection: Connection, read_seconds: float, on_bytes: Callable[[int], None]) -> None:
        self._connection, self._read_seconds, self._on_bytes = connection, read_seconds, on_bytes
        self._ahead = b""
        self._closed = threading.Event()
        self.silent = False
        """The file ended because nothing came."""

    def peek(self, size: int) -> bytes:
        """The first bytes, as many as come up to `size`; they will be read again."""
        while len(self._ahead) < size and (more := self._receive(size - len(self._ahead))):
            self._ahead += more
        return self._ahead

    def read(self, size: int = -1) -> bytes:
        if self._ahead:
            taken, self._ahead = self._ahead[:size], self._ahead[size:]
            return taken
        return self._receive(CHUNK_BYTES if size < 0 else size)

    def _receive(self, size: int) -> bytes:
        deadline = time.monotonic() + self._read_seconds
        fd = self._connection.fd
        while not self._closed.is_set() and fd >= 0:
            if select.select([fd], [], [], _LOOK_SECONDS)[0]:
                try:
                    data = os.read(fd, size)
                except OSError:
                    return b""
                self._on_bytes(len(data))
                return data
            if time.monotonic() > deadline:
                self.silent = True
                return b""
        return b""

    def end(self) -> None:
        """Lets a read that waits return; the descriptor stays its owner's."""
        self._closed.set()


class ByteWriter:
    """A file for PyAV that sends to a descriptor. OSError when the other side takes nothing for too long."""

    def __init__(self, connection: Connection, write_seconds: float) -> None:
        self._connection, self._write_seconds = connection, write_seconds
        self._closed = threading.Event()
        os.set_blocking(connection.fd, False)

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        deadline = time.monotonic() + self._write_seconds
        while view:
            if self._closed.is_set() or self._connection.fd < 0:
                raise BrokenPipeError("the connection was closed")
            if not select.select([], [self._connection.fd], [], _LOOK_SECONDS)[1]:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the other side took nothing for {self._write_seconds:g} s")
                continue
            try:
                view = view[os.write(self._connection.fd, view) :]
                deadline = time.monotonic() + self._write_seconds
            except BlockingIOError:
                continue
        return len(data)

    def end(self) -> None:
        self._closed.set()


class Bridge:
    """Passes bytes between FFmpeg, which connects to a port on loopback, and a connection that others made.

    One listening socket serves all: connections are opened one at a time (`lock`), so who comes next is known.
    """

    def __init__(self, listener: socket.socket | None = None) -> None:
        self._listener = listener or loopback_listener()
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()[:2]
        return f"{host}:{port}"

    def await_caller(
        self,
        connection: Connection,
        idle_seconds: float,
        on_bytes: Callable[[int], None],
    ) -> Passage:
        """Hands the next caller on to `connection`; `lock` is held until FFmpeg has connected."""
        passage = Passage(self._listener, connection, idle_seconds, on_bytes)
        passage.start()
        return passage


def loopback_listener() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(4)
    return listener


class Passage(threading.Thread):
    """The bytes of one connection, in both directions, until one side ends, falls silent or `end` is called."""

    def __init__(
        self,
        listener: socket.socket,
        connection: Connection,
        idle_seconds: float,
        on_bytes: Callable[[int], None],
    ) -> None:
        super().__init__(name="bridge", daemon=True)
        self._listener, self._connection = listener, connection
        self._idle_seconds, self._on_bytes = idle_seconds, on_bytes
        self._ended = threading.Event()
        self.silent = False

    def run(self) -> None:
        caller = self._accept()
        if caller is None:
            return
        with caller:
            os.set_blocking(self._connection.fd, True)
            self._pass(caller.fileno(), self._connection.fd)
            # whoever waits in FFmpeg is told by the end of the connection
            try:
                caller.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it has gone by itself

    def _accept(self) -> socket.socket | None:
        while not self._ended.is_set():
            if select.select([self._listener], [], [], _LOOK_SECONDS)[0]:
                return self._listener.accept()[0]
        return None

    def _pass(self, near: int, far: int) -> None:
        others = {near: far, far: near}
        heard = time.monotonic()
        while not self._ended.is_set():
            ready, _, _ = select.select([near, far], [], [], _LOOK_SECONDS)
            if not ready and time.monotonic() - heard > self._idle_seconds:
                self.silent = True
                return
            for fd in ready:
                try:
                    data = os.read(fd, CHUNK_BYTES)
                    if not data or not self._send(others[fd], data):
                        return
                except OSError:
                    return
                if fd == far:
                    heard = time.monotonic()
                    self._on_bytes(len(data))

    def _send(self, fd: int, data: bytes) -> bool:
        """Whether all of it was taken in time. Blocking, but only for as long as `end` allows."""
        view = memoryview(data)
        deadline = time.monotonic() + self._idle_seconds
        while view and not self._ended.is_set():
            if select.select([], [fd], [], _LOOK_SECONDS)[1]:
                sent = socket_send(fd, view)
                view = view[sent:]
                if sent:
                    deadline = time.monotonic() + self._idle_seconds
            elif time.monotonic() > deadline:
                self.silent = True
                return False
        return not view

    def end(self) -> None:
        self._ended.set()


def socket_send(fd: int, view: memoryview) -> int:
    """Bytes that were taken, without waiting for room."""
    try:
        with socket.socket(fileno=os.dup(fd)) as shared:
            return shared.send(view, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return 0
