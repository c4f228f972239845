"""The service's side of the fork server: starts it, asks for children, has them killed, learns of their ends."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Self, TypeVar

from pipelines.errors import Crashed
from transcoder.children.forkserver import MAX_PACKET_BYTES, Reply, Request
from transcoder.children.sandbox import Layers

_START_SECONDS = 60.0
_FORK_SECONDS = 15.0
_KILL_SECONDS = 2.0
_END_SECONDS = 5.0
SETTINGS_PREFIX = "TRANSCODER_"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Exit:
    """How a child ended. `code` is its exit code, or minus the signal's number."""

    code: int
    peak_memory_bytes: int


@dataclass(eq=False, slots=True)
class Fork:
    """A child. `exited` is None when its server died, which takes it along."""

    number: int
    pid: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    exited: asyncio.Future[Exit | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    kill_heard: bool = False


class ForkServerProcess:
    """A running fork server. Use `launch`; once `lost`, it is of no further use."""

    def __init__(self, process: Process, control: socket.socket) -> None:
        self._process, self._control = process, control
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._forks: dict[int, Fork] = {}
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._sending = asyncio.Lock()
        self._room: asyncio.Future[None] = self._loop.create_future()
        self.lost = False
        self.layers = Layers()
        self._loop.add_reader(control, self._receive)

    @classmethod
    async def launch(cls, ops: str, *, sandbox: bool = False) -> Self:
        """Starts a server whose children run the operations of module `ops`; Crashed when it does not come up.

        `sandbox`: children can be confined, by what `layers` then says.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ExitStack() as on_failure:
            on_failure.callback(ours.close)
            ours.setblocking(False)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "transcoder.children.forkserver"),
                *("--socket", str(theirs.fileno()), "--parent", str(os.getpid()), "--ops", ops),
                *(("--sandbox",) if sandbox else ()),
                pass_fds=(theirs.fileno(),),
                stdin=DEVNULL,
                stdout=DEVNULL,
                # Of its own, so that Ctrl-C in the service's terminal reaches only the service.
                start_new_session=True,
                # The service's settings hold secrets; its children read hostile input and need none of them.
                env=_environment(),
            )
            server = cls(process, ours)
            on_failure.pop_all()
        try:
            async with asyncio.timeout(_START_SECONDS):
                await server._ready
        except BaseException:
            await server.close()
            raise
        return server

    @property
    def pid(self) -> int:
        return self._process.pid

    async def fork(self, descriptors: Sequence[int]) -> Fork:
        """A new child that gets `descriptors` (the request's file, event pipe, log pipe); they stay the caller's too.

        Crashed when there can be no further process, or when the server is lost.
        """
        fork = Fork(next(self._numbers))
        await self._send(Request("fork", fork.number), descriptors)
        self._forks[fork.number] = fork
        try:
            async with asyncio.timeout(_FORK_SECONDS):
                await fork.pid
        except TimeoutError:
            self._process.kill()
            raise Crashed("no process was started in time") from None
        except asyncio.CancelledError:
            await self.kill(fork)
            raise
        return fork

    async def kill(self, fork: Fork) -> None:
        """Has the child and its group killed and waits for its end.

        `exited` may be open afterwards: the kernel has not let the child go yet, as with a driver that hangs.
        """
        if fork.exited.done():
            return
        try:
            async with asyncio.timeout(_KILL_SECONDS):
                # A server that is lost has taken the child along.
                with suppress(Crashed):
                    await self._send(Request("kill", fork.number))
                await asyncio.shield(fork.exited)
        except TimeoutError:
            if not fork.kill_heard:
                # The server itself hangs. Its end is the end of its children.
                self._process.kill()
                await asyncio.shield(fork.exited)

    async def close(self) -> None:
        """Ends the server and, with it, all its children."""
        self._lose()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _send(self, request: Request, descriptors: Sequence[int] = ()) -> None:
        async with self._sending:
            while not self.lost:
                try:
                    socket.send_fds(self._control, [request.packet()], descriptors)
                except BlockingIOError:
                    await self._writable()
                except ConnectionError:
                    self._lose()
                else:
                    return
        raise _server_lost()

    async def _writable(self) -> None:
        self._room = self._loop.create_future()
        self._loop.add_writer(self._control, _resolve, self._room, None)
        try:
            await self._room
        finally:
            if not self.lost:
                self._loop.remove_writer(self._control)

    def _receive(self) -> None:
        while not self.lost:
            try:
                packet = self._control.recv(MAX_PACKET_BYTES)
            except BlockingIOError:
                return
            except ConnectionError:
                packet = b""
            if packet:
                self._take(Reply(**json.loads(packet)))
            else:
                self._lose()

    def _take(self, reply: Reply) -> None:
        if reply.event == "ready":
            self.layers = Layers(**(reply.layers or {}))
            self._ready.set_result(None)
            return
        fork = self._forks.get(reply.id)
        if fork is not None:
            _HANDLERS[reply.event](self, fork, reply)

    def _forked(self, fork: Fork, reply: Reply) -> None:
        _resolve(fork.pid, reply.value)

    def _refused(self, fork: Fork, reply: Reply) -> None:
        del self._forks[fork.number]
        _resolve(fork.exited, None)
        _reject(fork.pid, Crashed(f"no process could be started: {os.strerror(reply.value)}"))

    def _killed(self, fork: Fork, reply: Reply) -> None:
        fork.kill_heard = True

    def _exited(self, fork: Fork, reply: Reply) -> None:
        del self._forks[fork.number]
        _resolve(fork.exited, Exit(reply.value, reply.peak_memory_bytes))

    def _lose(self) -> None:
        if self.lost:
            return
        self.lost = True
        self._loop.remove_reader(self._control)
        self._loop.remove_writer(self._control)
        self._control.close()
        _resolve(self._room, None)
        _reject(self._ready, _server_lost())
        for fork in self._forks.values():
            _reject(fork.pid, _server_lost())
            _resolve(fork.exited, None)
        self._forks.clear()


_HANDLERS = {
    "forked": ForkServerProcess._forked,
    "refused": ForkServerProcess._refused,
    "killed": ForkServerProcess._killed,
    "exited": ForkServerProcess._exited,
}


def _server_lost() -> Crashed:
    return Crashed("the process that starts children has ended")


def _resolve(future: asyncio.Future[_T], value: _T) -> None:
    if not future.done():
        future.set_result(value)


def _reject(future: asyncio.Future[_T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        # It is no mistake when nobody waits for it.
        future.exception()


def _environment() -> dict[str, str]:
    """The service's without its settings. numpy's threads would start before the fork, and be missing after it."""
    passed = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS_PREFIX)}
    return {**passed, "OPENBLAS_NUM_THREADS": "1"}
