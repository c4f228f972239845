"""What is left of the process tree, and of descriptors, when things die around it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from pipelines.errors import Cancelled, Crashed
from tests.transcoder.processes import FOLDER, Listener, gone, is_running, running_supervisor, task
from transcoder.children.supervise import Supervisor

SERVICE = """
import asyncio, json, signal, sys
from transcoder.children.supervise import ChildTask, Supervisor

async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: print("interrupted", flush=True))
    async with Supervisor(ops="child_ops") as supervisor:
        tell = lambda event: print(json.dumps([supervisor.server_pid, event.data]), flush=True)
        task = ChildTask("run", json.loads(sys.argv[1]), 30.0)
        print(json.dumps(await supervisor.execute(task, on_event=tell)), flush=True)

asyncio.run(main())
"""


@asynccontextmanager
async def service(do: str, **payload: Any) -> AsyncIterator[Process]:
    """A process that supervises one task, in a process group as a terminal would make one."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVICE, json.dumps({"do": do, **payload})),
        stdout=PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": f"{FOLDER}:{FOLDER.parent.parent}"},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(process: Process) -> Any:
    assert process.stdout is not None
    return json.loads(await asyncio.wait_for(process.stdout.readline(), 15.0))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_fork_server_that_dies_takes_its_children_along_and_is_started_again() -> None:
    async with running_supervisor() as supervisor:
        listener = Listener()
        running = asyncio.create_task(supervisor.execute(task("hang"), on_event=listener))
        child, server = (await listener.planned)["pid"], supervisor.server_pid
        assert server is not None

        os.kill(server, signal.SIGKILL)
        with pytest.raises(Crashed) as caught:
            await running

        assert caught.value.retryable
        assert await gone(child)
        assert await supervisor.execute(task("echo")) == {"do": "echo"}
        assert supervisor.server_pid != server
        assert await gone(server)


async def test_task_given_as_the_fork_server_dies_is_done_by_the_next_one() -> None:
    async with running_supervisor() as supervisor:
        assert supervisor.server_pid is not None
        os.kill(supervisor.server_pid, signal.SIGKILL)

        assert await supervisor.execute(task("echo")) == {"do": "echo"}


@pytest.mark.slow
async def test_cancel_needs_no_fork_server_that_answers() -> None:
    async with running_supervisor() as supervisor:
        cancel, listener = asyncio.Event(), Listener()
        running = asyncio.create_task(supervisor.execute(task("hang"), on_event=listener, cancel=cancel))
        child, server = (await listener.planned)["pid"], supervisor.server_pid
        assert server is not None

        os.kill(server, signal.SIGSTOP)
        cancel.set()
        with pytest.raises(Cancelled):
            await running

        assert await gone(child)
        assert await gone(server)


async def test_fork_server_ignores_what_a_service_manager_sends_to_all() -> None:
    async with running_supervisor() as supervisor:
        server = supervisor.server_pid
        assert server is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(server, number)

        assert await supervisor.execute(task("echo")) == {"do": "echo"}
        assert supervisor.server_pid == server


async def test_closed_supervisor_leaves_no_process() -> None:
    async with running_supervisor() as supervisor:
        listener = Listener()
        running = asyncio.create_task(supervisor.execute(task("hang_with_family"), on_event=listener))
        pids = [*(await listener.planned).values(), supervisor.server_pid]

    with pytest.raises(Crashed):
        await running
    assert all([await gone(pid) for pid in pids])
    with pytest.raises(Crashed, match="stopping"):
        await supervisor.execute(task("echo"))


@pytest.mark.parametrize("do", ["hang", "stop"])
async def test_service_that_is_killed_leaves_no_process(do: str) -> None:
    async with service(do) as process:
        server, told = await said(process)
        pids = [server, told["pid"]]
        assert all(map(is_running, pids))

        process.kill()

        assert all([await gone(pid) for pid in pids])


@pytest.mark.slow
async def test_interrupt_from_the_terminal_reaches_only_the_service() -> None:
    async with service("wait_for_interrupt") as process:
        _, told = await said(process)

        os.killpg(process.pid, signal.SIGINT)

        assert process.stdout is not None
        assert await process.stdout.readline() == b"interrupted\n"
        os.kill(told["pid"], signal.SIGUSR1)
        assert await said(process) == {"interrupts": 0}
        assert await process.wait() == 0


@pytest.mark.slow
async def test_fifty_children_leak_no_descriptor() -> None:
    async with running_supervisor() as supervisor:
        await supervisor.execute(task("echo"))
        before, before_in_server = descriptors(), server_descriptors(supervisor)

        for do in ["echo", "bug", "abort", "leave", "talk_nonsense"] * 10:
            with_error = supervisor.execute(task(do, text="x"))
            await asyncio.gather(with_error, return_exceptions=True)
        await asyncio.sleep(0)

        assert (descriptors(), server_descriptors(supervisor)) == (before, before_in_server)


def server_descriptors(supervisor: Supervisor) -> int:
    return len(os.listdir(f"/proc/{supervisor.server_pid}/fd"))


async def test_started_and_closed_supervisors_leak_no_descriptor() -> None:
    async with running_supervisor() as supervisor:
        await supervisor.execute(task("echo"))
    before = descriptors()

    async with running_supervisor() as supervisor:
        await supervisor.execute(task("echo"))

    assert descriptors() == before


@pytest.mark.slow
async def test_uvloop_serves_as_well() -> None:
    """Its pipes and sockets have other rules about who closes what."""

    async def scenario() -> None:
        async with running_supervisor() as supervisor:
            await supervisor.execute(task("echo"))
            before = descriptors()
            for do in ["echo", "bug", "abort"] * 10:
                await asyncio.gather(supervisor.execute(task(do)), return_exceptions=True)
            cancel = asyncio.Event()
            cancelled = supervisor.execute(task("hang"), on_event=lambda _: cancel.set(), cancel=cancel)
            with pytest.raises(Cancelled):
                await cancelled
            results = await asyncio.gather(*(supervisor.execute(task("echo", number=n)) for n in range(20)))
            assert [result["number"] for result in results] == list(range(20))
            await asyncio.sleep(0)
            assert descriptors() <= before

    await asyncio.to_thread(uvloop.run, scenario())


async def test_fork_server_that_cannot_start_is_an_error_and_soon() -> None:
    began = time.monotonic()

    with pytest.raises(Crashed):
        await Supervisor(ops="no.such.module").start()

    assert time.monotonic() - began < 10.0
