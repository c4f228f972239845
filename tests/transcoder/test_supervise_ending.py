"""When a child's time is over it is dead, whatever it does."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from pipelines.errors import Cancelled, Crashed, DeadlineExceeded, Stalled
from tests.transcoder.processes import Listener, gone, is_running, running_supervisor, task
from transcoder.children.supervise import ChildEvent, Supervisor
from transcoder.children.watch import read_stored_bytes

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def supervisor() -> AsyncIterator[Supervisor]:
    async with running_supervisor() as supervisor:
        yield supervisor


@pytest.mark.parametrize("do", ["hang", "stop", "hang_with_family"])
async def test_cancelled_child_is_dead_within_a_second(supervisor: Supervisor, do: str) -> None:
    """Though it blocks all signals in native code with the GIL held, or is stopped, or has a child of its own."""
    cancel, listener = asyncio.Event(), Listener()
    running = asyncio.create_task(supervisor.execute(task(do), on_event=listener, cancel=cancel))
    pids = (await listener.planned).values()
    assert all(map(is_running, pids))

    began = time.monotonic()
    cancel.set()
    with pytest.raises(Cancelled):
        await running

    assert time.monotonic() - began < 1.0
    assert not any(map(is_running, pids))


async def test_task_cancelled_beforehand_ends_at_once(supervisor: Supervisor) -> None:
    cancel = asyncio.Event()
    cancel.set()

    with pytest.raises(Cancelled):
        await supervisor.execute(task("hang"), cancel=cancel)


async def test_abandoned_task_leaves_no_child(supervisor: Supervisor) -> None:
    listener = Listener()
    running = asyncio.create_task(supervisor.execute(task("hang"), on_event=listener))
    pid = (await listener.planned)["pid"]

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert not is_running(pid)


async def test_error_of_the_listener_ends_the_child(supervisor: Supervisor) -> None:
    pids = []

    def refuse(event: ChildEvent) -> None:
        pids.append(event.data["pid"])
        raise LookupError("not mine")

    with pytest.raises(LookupError):
        await supervisor.execute(task("hang"), on_event=refuse)

    assert not is_running(pids[0])


async def test_child_past_its_deadline_is_ended(supervisor: Supervisor) -> None:
    began = time.monotonic()

    with pytest.raises(DeadlineExceeded) as caught:
        await supervisor.execute(task("advance", steps=1000, pause_seconds=0.02, deadline_seconds=0.4))

    assert caught.value.facts == {"deadline_seconds": 0.4}
    assert time.monotonic() - began < 1.5


@pytest.mark.parametrize("do", ["hang", "stop", "repeat_progress"])
async def test_child_without_progress_is_stalled(supervisor: Supervisor, do: str) -> None:
    began = time.monotonic()

    with pytest.raises(Stalled) as caught:
        await supervisor.execute(task(do, stall_seconds=0.4))

    assert caught.value.facts == {"stall_seconds": 0.4}
    assert 0.4 <= time.monotonic() - began < 2.0


async def test_child_with_progress_is_not_stalled(supervisor: Supervisor) -> None:
    result = await supervisor.execute(task("advance", steps=25, pause_seconds=0.05, stall_seconds=0.6))

    assert result == {"frames": 25}


async def test_child_that_works_on_the_disk_is_not_stalled(supervisor: Supervisor, tmp_path: Path) -> None:
    path, before = tmp_path / "file", read_stored_bytes(os.getpid())
    with path.open("wb") as file:
        file.write(bytes(1 << 20))
        os.fsync(file.fileno())
    if read_stored_bytes(os.getpid()) == before:
        pytest.skip("the temporary folder is in memory, or the kernel does not count what is stored")

    await supervisor.execute(task("write_silently", path=str(path), steps=14, pause_seconds=0.1, stall_seconds=0.8))

    assert path.stat().st_size == 14 << 20


@pytest.mark.slow
async def test_result_counts_though_the_child_does_not_exit(supervisor: Supervisor) -> None:
    listener = Listener()

    result = await supervisor.execute(task("hang_after_result"), on_event=listener)

    assert result == {"done": True}


async def test_child_that_falls_silent_is_crashed(supervisor: Supervisor) -> None:
    with pytest.raises(Crashed):
        await supervisor.execute(task("fall_silent"))


async def test_grandchild_ends_with_a_child_that_succeeds(supervisor: Supervisor) -> None:
    listener = Listener()

    await supervisor.execute(task("hang_with_family", hang=False), on_event=listener)

    assert await gone((await listener.planned)["grandchild"])


async def test_hanging_children_do_not_delay_others(supervisor: Supervisor) -> None:
    cancel = asyncio.Event()
    hanging = [asyncio.create_task(supervisor.execute(task("hang"), cancel=cancel)) for _ in range(5)]

    assert await supervisor.execute(task("echo", deadline_seconds=5.0)) == {"do": "echo"}

    cancel.set()
    ends = await asyncio.gather(*hanging, return_exceptions=True)
    assert [type(end) for end in ends] == [Cancelled] * 5
