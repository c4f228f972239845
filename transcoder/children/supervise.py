"""The service's process layer: one child process per piece of work, watched, and dead when its time is over."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from pipelines.errors import Crashed, PipelineError
from transcoder.children.cgroups import Group, Groups, find_groups
from transcoder.children.forks import Fork, ForkServerProcess
from transcoder.children.joblog import CHUNK_BYTES, JobLog, LogLine, stamp
from transcoder.children.outcomes import count_oom_kills, explain_exit, rebuild_error
from transcoder.children.sandbox import Confinement, Layers, SandboxPolicy
from transcoder.children.watch import ChildEvent, ChildTask, Watch
from transcoder.errors import SandboxMissing

__all__ = ["ChildEvent", "ChildTask", "Supervisor"]

_EXIT_SECONDS = 2.0
_DRAIN_SECONDS = 1.0
_SPARE_CPU_SECONDS = 60
"""The deadline ends a child long before its time on all CPUs is up; that is for a service that hangs itself."""


class Supervisor:
    """Runs tasks in children of a fork server, which is started again when it dies.

    `ops` is the module whose operations children run, `sandbox` what shall confine them. A log keeps
    `max_log_bytes` of a task, in lines of at most `max_log_line_bytes`.
    """

    def __init__(
        self,
        *,
        ops: str = "transcoder.children.operations",
        sandbox: SandboxPolicy = SandboxPolicy(),  # noqa: B008 - frozen
        max_log_bytes: int = 4 << 20,
        max_log_line_bytes: int = 4096,
    ) -> None:
        self._ops = ops
        self._sandbox = sandbox
        self._max_log_bytes, self._max_log_line_bytes = max_log_bytes, max_log_line_bytes
        self._server: ForkServerProcess | None = None
        self._starting = asyncio.Lock()
        self._endings: set[asyncio.Task[None]] = set()
        self._closed = False
        self._groups: Groups | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def server_pid(self) -> int | None:
        """The fork server's process, for those who look at the machine; None when none runs."""
        return None if self._server is None or self._server.lost else self._server.pid

    @property
    def layers(self) -> Layers:
        """What confines children; nothing while no fork server runs."""
        if self._server is None:
            return Layers()
        return replace(self._server.layers, control_group=0 if self._groups is None else self._groups.version)

    async def start(self) -> None:
        """Starts the fork server; Crashed when it does not come up, SandboxMissing when it is less than required."""
        self._closed = False
        if self._groups is None and self._sandbox.mode != "off" and self._sandbox.memory_bytes:
            # before the fork server starts: it shall not be where groups are made
            self._groups = await asyncio.to_thread(find_groups)
        await self._running_server()

    async def close(self) -> None:
        """Ends the fork server and all children; what still runs fails as Crashed."""
        async with self._starting:
            self._closed = True
            if self._server is not None:
                await self._server.close()
                self._server = None
        if self._endings:
            await asyncio.wait(self._endings)

    async def execute(
        self,
        task: ChildTask,
        *,
        on_event: Callable[[ChildEvent], None] | None = None,
        cancel: asyncio.Event | None = None,
    ) -> dict[str, Any]:
        """The result of `task`, in JSON's types. However this ends, the child and all it started are dead by then.

        Raises what the child raised, or Cancelled, DeadlineExceeded, Stalled, Crashed, OutOfMemory. An error has the
        fact `unkillable` when the kernel, most likely a driver, did not let the child go.
        """
        tell = on_event or _ignore
        oom_kills = count_oom_kills()
        with ExitStack() as readers:
            group = None
            if self._groups is not None:
                group = readers.enter_context(self._groups.limited(self._sandbox.memory_bytes))
            with ExitStack() as handed_over:
                request_fd = _request_file(task, _confinement(task, self._sandbox, group), handed_over)
                events, events_fd = await _open_pipe(readers, handed_over)
                log_reader, log_fd = await _open_pipe(readers, handed_over)
                link = () if task.link_fd is None else (task.link_fd,)
                server, fork = await self._fork((request_fd, events_fd, log_fd, *link))
            log = asyncio.create_task(self._job_log(task, tell).copy(log_reader))
            async with self._ending(server, fork, log):
                message = await Watch(task, fork.pid.result(), tell).last_message(events, log, cancel)
            kills = count_oom_kills() - oom_kills if group is None else group.kills
        if message is None:
            raise _explain(fork, kills, self._sandbox.memory_bytes)
        if message.event == "error":
            raise rebuild_error(message.data)
        return message.data

    async def _running_server(self) -> ForkServerProcess:
        async with self._starting:
            if self._closed:
                raise Crashed("the service is stopping")
            if self._server is not None and self._server.lost:
                await self._server.close()
                self._server = None
            if self._server is None:
                self._server = await self._launch()
            return self._server

    async def _launch(self) -> ForkServerProcess:
        server = await ForkServerProcess.launch(self._ops, sandbox=self._sandbox.mode != "off")
        if self._sandbox.mode == "require" and server.layers.missing:
            missing = server.layers.missing
            await server.close()
            raise SandboxMissing(f"children can't be confined: there is no {' and no '.join(missing)}", missing=missing)
        return server

    async def _fork(self, descriptors: tuple[int, ...]) -> tuple[ForkServerProcess, Fork]:
        server = await self._running_server()
        try:
            return server, await server.fork(descriptors)
        except Crashed:
            if not server.lost:
                raise
        # It died unseen since the last task: nothing of this one can have been done.
        server = await self._running_server()
        return server, await server.fork(descriptors)

    @asynccontextmanager
    async def _ending(self, server: ForkServerProcess, fork: Fork, log: asyncio.Task[None]) -> AsyncIterator[None]:
        """Sees the child dead and its log read: at once after an error, else when it had a moment to exit by itself."""
        try:
            yield
        except BaseException as error:
            await self._end(server, fork, log, grace_seconds=0.0)
            if isinstance(error, PipelineError) and not fork.exited.done():
                error.facts["unkillable"] = True
            raise
        await self._end(server, fork, log, grace_seconds=_EXIT_SECONDS)
        if not log.cancelled():
            log.result()

    async def _end(
        self, server: ForkServerProcess, fork: Fork, log: asyncio.Task[None], *, grace_seconds: float
    ) -> None:
        # Goes on when the caller is cancelled once more.
        ending = asyncio.create_task(_end(server, fork, log, grace_seconds))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        await asyncio.shield(ending)

    def _job_log(self, task: ChildTask, tell: Callable[[ChildEvent], None]) -> JobLog:
        def tell_line(line: LogLine) -> None:
            tell(ChildEvent("log", {"time": stamp(line.time), "text": line.text}))

        return JobLog(task.log_path, tell_line, max_bytes=self._max_log_bytes, max_line_bytes=self._max_log_line_bytes)


async def _end(server: ForkServerProcess, fork: Fork, log: asyncio.Task[None], grace_seconds: float) -> None:
    await asyncio.wait({fork.exited}, timeout=grace_seconds)
    await server.kill(fork)
    await asyncio.wait({log}, timeout=_DRAIN_SECONDS)
    log.cancel()
    await asyncio.wait({log})


def _explain(fork: Fork, oom_kills: int, memory_bytes: int) -> PipelineError:
    if not fork.exited.done():
        return Crashed("the process fell silent and can't be ended", unkillable=True)
    return explain_exit(fork.exited.result(), oom_kills=oom_kills, memory_bytes=memory_bytes)


async def _open_pipe(readers: ExitStack, writers: ExitStack) -> tuple[asyncio.StreamReader, int]:
    """A pipe: its reader, closed with `readers`, and its writing descriptor, closed with `writers`."""
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    writers.callback(os.close, write_fd)
    reader = asyncio.StreamReader(limit=CHUNK_BYTES)
    with ExitStack() as on_failure:
        pipe = on_failure.enter_context(os.fdopen(read_fd, "rb", buffering=0))
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        # From here on the transport alone may close the pipe: its number may be another's soon.
        on_failure.pop_all()
    readers.callback(transport.close)
    return reader, write_fd


def _request_file(task: ChildTask, confinement: Confinement, stack: ExitStack) -> int:
    """A file in memory with the request: of any size, where a packet or a pipe's buffer has bounds."""
    fd = os.memfd_create("request")
    stack.callback(os.close, fd)
    with os.fdopen(os.dup(fd), "wb") as file:
        request = {"op": task.op, "payload": task.payload, "confinement": confinement.to_json()}
        file.write(json.dumps(request).encode())
    return fd


def _confinement(task: ChildTask, policy: SandboxPolicy, group: Group | None) -> Confinement:
    return Confinement(
        readable=tuple(map(str, task.readable)),
        writable=tuple(map(str, task.writable)),
        gpu=task.gpu,
        loopback=task.loopback,
        memory_bytes=policy.memory_bytes,
        cpu_seconds=0
        if math.isinf(task.deadline_seconds)
        else math.ceil(task.deadline_seconds) * (os.cpu_count() or 1) + _SPARE_CPU_SECONDS,
        memory_group="" if group is None else str(group.path),
    )


def _cpu_seconds(deadline_seconds: float) -> int:
    """0, which is no limit, for what has no deadline."""
    if math.isinf(deadline_seconds):
        return 0
    return math.ceil(deadline_seconds) * (os.cpu_count() or 1) + _SPARE_CPU_SECONDS


def _ignore(event: ChildEvent) -> None:
    """For those who wait for the result only."""
