"""A real `transcoder serve`, and real programs that use it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_SECONDS = 60.0
_ADDRESS = re.compile(r"transcoder listens on (http://[^\s]+)")


def command(*words: str | Path) -> list[str]:
    """A `transcoder` command of the code under test."""
    return [sys.executable, "-m", "transcoder", *map(str, words)]


def transcoder(*words: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> Done:
    return finish(command(*words), env=env, cwd=cwd)


@dataclass(frozen=True)
class Done:
    """How a program ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def succeeded(self) -> Done:
        assert self.code == 0, f"exit code {self.code}\n{self.out}\n{self.err}"
        return self


def finish(
    words: list[str], *, env: dict[str, str] | None = None, cwd: Path | None = None, seconds: float = 120.0
) -> Done:
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=seconds,
        check=False,
        cwd=cwd,
        env=os.environ | (env or {}),
    )
    return Done(done.returncode, done.stdout, done.stderr)


JOB_SECONDS = 120
"""That a job may take on a busy machine."""


@dataclass
class LiveServer:
    """A running service. `stop` and `kill` end it, `start` starts it again on the same port and data."""

    data: Path
    env: dict[str, str] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen[str] | None = None
    address: str = ""

    def start(self) -> None:
        log = (self.data.parent / f"{self.data.name}.log").open("a")
        self.process = subprocess.Popen(
            command("serve", "--port", str(self.port)),
            stdout=subprocess.PIPE,
            stderr=log,
            stdin=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"TRANSCODER_DATA_DIR": str(self.data)} | self.env,
        )
        log.close()
        assert self.process.stdout is not None
        # the first line is the address; the process's end closes the pipe, so this can't hang on a failed start
        match = _ADDRESS.match(self.process.stdout.readline())
        assert match is not None, f"the service did not start:\n{self.log()}"
        self.address = match[1]
        self.port = int(self.address.rpartition(":")[2])

    def log(self) -> str:
        return (self.data.parent / f"{self.data.name}.log").read_text()

    def stop(self) -> int:
        """Asks it to end, and returns its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self._ended()

    def _ended(self) -> int:
        assert self.process is not None
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    def curl(self, *words: str | Path) -> Done:
        """curl with `/…` standing for a path of this server."""
        full = [f"{self.address}{word}" if str(word).startswith("/v1/") else str(word) for word in words]
        return finish(["curl", "-sS", "--fail-with-body", "--max-time", "100", *full]).succeeded()

    def ended(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Submits a job, and gives it as it is at its end."""
        found: dict[str, Any] = json.loads(self.curl("--json", json.dumps(spec), "/v1/jobs").out)
        until = time.monotonic() + JOB_SECONDS
        while found["status"] in ("queued", "running"):
            assert time.monotonic() < until, "the job does not end"
            time.sleep(0.1)
            found = json.loads(self.curl(f"/v1/jobs/{found['id']}").out)
        return found

    def jobs(self, *words: str | Path) -> Done:
        """`transcoder jobs …` with this server."""
        return transcoder("jobs", *words, env={"TRANSCODER_SERVER": self.address})


@contextmanager
def live_server(**env: str) -> Iterator[LiveServer]:
    with tempfile.TemporaryDirectory(prefix="transcoder-live-") as folder:
        server = LiveServer(data=Path(folder) / "data", env=env)
        server.start()
        try:
            yield server
        finally:
            if server.process is not None and server.process.poll() is None:
                server.process.terminate()
                try:
                    server.process.wait(30)
                except subprocess.TimeoutExpired:
                    server.process.kill()
                    server.process.wait()
