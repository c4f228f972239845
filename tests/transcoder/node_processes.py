"""Nodes as processes, for tests that kill and stop them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 180.0


@dataclass
class NodeProcess:
    """`children`: processes that were seen to start; they may have ended since. `env`: more settings."""

    data: Path
    url: str
    name: str
    lease_seconds: float
    seconds: float
    port: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    _log: Path | None = field(default=None)

    def start(self, *, wait: bool = True) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self._log = self.data.parent / f"{self.name}.log"
        words = [str(self.data), self.url, self.name, str(self.lease_seconds), str(self.seconds)]
        words += [] if self.port is None else [str(self.port)]
        with self._log.open("a") as log:
            log.write("start\n")
            log.flush()
            command = [sys.executable, "-m", "tests.transcoder.run_node", *words]
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, text=True, env=os.environ | self.env
            )
        if wait:
            until = time.monotonic() + START_SECONDS
            while "ready" not in self.lines():
                assert self.process.poll() is None, self._log.read_text()
                assert time.monotonic() < until, self._log.read_text()
                time.sleep(0.05)

    def lines(self) -> Sequence[str]:
        """What this process said since it was started."""
        assert self._log is not None
        return self._log.read_text().rpartition("start\n")[2].splitlines()

    def children(self) -> list[int]:
        return [int(line.split()[-1]) for line in self.lines() if line.startswith("run ")]

    def finish(self) -> None:
        """Ends what children sleep through: they write what is left, and exit."""
        for child in self.children():
            with suppress(FileNotFoundError, ProcessLookupError):
                for sleeper in Path(f"/proc/{child}/task/{child}/children").read_text().split():
                    os.kill(int(sleeper), signal.SIGKILL)

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.lines()
            time.sleep(0.02)


@contextmanager
def node_process(
    folder: Path,
    url: str,
    name: str,
    *,
    lease_seconds: float = 3.0,
    seconds: float = 0.1,
    port: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[NodeProcess]:
    """Runs from the beginning; killed at the end. All nodes share `folder`/data."""
    node = NodeProcess(folder / "data", url, name, lease_seconds, seconds, port, env or {})
    node.start()
    try:
        yield node
    finally:
        if node.process is not None:
            node.signal(signal.SIGCONT)
        node.kill()
        node.finish()
