"""What a child in the sandbox can't do, tried by real children; and what it still can."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import Crashed, OutOfMemory, PipelineError
from tests.transcoder.processes import FOLDER
from tests.transcoder.sandbox_ops import TRIES
from transcoder.children import landlock, sandbox, seccomp
from transcoder.children.sandbox import Layers, Mode, SandboxPolicy
from transcoder.children.supervise import ChildTask, Supervisor
from transcoder.errors import SandboxMissing

MEMORY_BYTES = 2 << 30
DENIED, FORBIDDEN = "EACCES", "EPERM"

WITH_BOTH = {
    "read a file of the system": DENIED,
    "read through its root": DENIED,
    "read another's file": DENIED,
    "read the environment of its parent": DENIED,
    "list the folder of all work": DENIED,
    "read through a link in its folder": DENIED,
    "write through a link in its folder": DENIED,
    "write its input": DENIED,
    "remove its input": DENIED,
    "write beside its folder": DENIED,
    "write where all may": DENIED,
    "move a file out of its folder": DENIED,
}
"""What each try is told; those that are not named are FORBIDDEN."""

needs_landlock = pytest.mark.skipif(landlock.abi() == 0, reason="the kernel has no Landlock")
needs_seccomp = pytest.mark.skipif(seccomp.architecture() is None, reason="no filter for this architecture")


@asynccontextmanager
async def confining(mode: Mode = "auto", memory_bytes: int = MEMORY_BYTES) -> AsyncIterator[Supervisor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FOLDER))
        async with Supervisor(ops="sandbox_ops", sandbox=SandboxPolicy(mode, memory_bytes)) as supervisor:
            yield supervisor


@dataclass(frozen=True)
class Place:
    """A file to read, a folder to work in, and what is around it."""

    root: Path
    tcp: socket.socket
    udp: socket.socket
    local: socket.socket

    def task(self, do: str, **payload: Any) -> ChildTask:
        places = {
            "input": str(self.root / "input"),
            "folder": str(self.root / "work"),
            "foreign": str(self.root / "foreign"),
            "tcp": self.tcp.getsockname()[1],
            "udp": self.udp.getsockname()[1],
            "local": self.local.getsockname(),
            "service": os.getpid(),
        }
        return ChildTask(
            "run",
            {"do": do, **places, **payload},
            30.0,
            readable=(self.root / "input",),
            writable=(self.root / "work",),
        )

    def was_reached(self) -> bool:
        for listener in (self.tcp, self.udp, self.local):
            try:
                listener.recv(1) if listener is self.udp else listener.accept()
            except BlockingIOError:
                continue
            return True
        return False


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "own").write_text("own")
    (tmp_path / "input").write_text("media")
    (tmp_path / "foreign").write_text("secret")
    (tmp_path / "work" / "link").symlink_to(tmp_path / "foreign")
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as local,
    ):
        udp.bind(("127.0.0.1", 0))
        local.bind(os.path.relpath(tmp_path / "socket"))
        local.listen()
        for listener in (tcp, udp, local):
            listener.setblocking(False)
        yield Place(tmp_path, tcp, udp, local)


@needs_landlock
@needs_seccomp
async def test_every_way_out_is_refused_by_the_kernel(place: Place) -> None:
    async with confining() as supervisor:
        told = await supervisor.execute(place.task("escape"))

    assert told == {name: WITH_BOTH.get(name, FORBIDDEN) for name in TRIES}
    assert not place.was_reached()
    assert (place.root / "foreign").read_text() == "secret"
    assert (place.root / "input").read_text() == "media"
    assert (place.root / "foreign").stat().st_mode & 0o777 != 0o777


async def test_without_the_sandbox_the_same_tries_get_out(place: Place) -> None:
    """Else the test above would prove nothing."""
    harmless = [
        *("read a file of the system", "read another's file", "read through a link in its folder"),
        *("write beside its folder", "write through a link in its folder", "make a link", "make a FIFO"),
        *("connect by TCP", "send by UDP", "connect to a local socket", "start a process", "signal its parent"),
    ]
    async with confining("off", 0) as supervisor:
        told = await supervisor.execute(place.task("escape", names=harmless))

        assert supervisor.layers == Layers()
    assert told == dict.fromkeys(harmless, "done")
    assert place.was_reached()


@needs_landlock
@needs_seccomp
async def test_input_and_folder_are_left_to_it(place: Place) -> None:
    async with confining() as supervisor:
        told = await supervisor.execute(place.task("work"))

    assert told["input"] == "media"
    assert told["files"] == ["below", "below/renamed", "link", "own", "part-2", "part-3"]
    assert told["null"] == 1
    assert told["own process"]
    assert told["limits"]["RLIMIT_DATA"] == [MEMORY_BYTES, MEMORY_BYTES]
    assert told["limits"]["RLIMIT_CPU"][0] >= 30
    assert int(told["capabilities"], 16) in (0, 1 << 2)


async def test_its_network_has_no_addresses(place: Place) -> None:
    async with confining() as supervisor:
        if not supervisor.layers.network_namespace:
            pytest.skip("no right to make a network namespace")
        told = await supervisor.execute(place.task("work"))

    assert all(line.strip().startswith("lo:") for line in told["interfaces"])
    assert all(line.split()[1] == "0" for line in told["interfaces"])


async def test_memory_beyond_the_limit_is_oom_and_the_next_task_is_done(place: Place) -> None:
    async with confining(memory_bytes=512 << 20) as supervisor:
        with pytest.raises(OutOfMemory):
            await supervisor.execute(place.task("allocate", bytes=1 << 30))

        assert await supervisor.execute(place.task("allocate", bytes=64 << 20)) == {"bytes": 64 << 20}


async def test_task_that_names_no_file_reaches_none(place: Place) -> None:
    async with confining() as supervisor:
        if not supervisor.layers.landlock:
            pytest.skip("the kernel has no Landlock")
        task = place.task("work")

        with pytest.raises(PipelineError, match="Permission denied"):
            await supervisor.execute(ChildTask("run", task.payload, 30.0))


async def test_crash_in_the_sandbox_is_told_with_its_signal(place: Place) -> None:
    async with confining() as supervisor:
        with pytest.raises(Crashed) as caught:
            await supervisor.execute(place.task("abort"))

    assert caught.value.facts["signal"] == "SIGABRT"


@pytest.mark.parametrize("missing", ["landlock", "seccomp"])
async def test_require_refuses_to_start_without_a_layer(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    monkeypatch.setenv("LACKING", missing)

    with pytest.raises(SandboxMissing, match=missing):
        await Supervisor(ops="lacking_ops", sandbox=SandboxPolicy("require")).start()


async def test_require_starts_where_everything_is_there(place: Place) -> None:
    if landlock.abi() == 0 or seccomp.architecture() is None:
        pytest.skip("the kernel lacks a layer")
    async with confining("require") as supervisor:
        assert supervisor.layers.missing == ()


def test_layer_that_does_not_hold_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel, or a container's own filter, that takes the call and does nothing."""
    monkeypatch.setattr(landlock, "restrict", lambda grants: None)
    monkeypatch.setattr(seccomp, "install", lambda: None)

    assert sandbox.try_layers(network_namespace=False).missing == ("landlock", "seccomp")


def test_layer_that_fails_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise OSError(38, "not here")

    monkeypatch.setattr(seccomp, "install", refused)

    layers = sandbox.try_layers(network_namespace=False)

    assert layers.missing == tuple(name for name in ("landlock", "seccomp") if name == "seccomp" or not landlock.abi())
