"""How many times a second one client reads a job: GET /v1/jobs/{id} over one connection that is kept.

python -m benchmarks.job_reads [SECONDS]

The service is a process of its own on SQLite in a temporary folder, with ten thousand jobs that have completed, each
with its plan. Read are one of them again and again, one after another, pages of the list, and /healthz, which touches
no database. `bare` is what FastAPI and uvicorn take alone: a route that gives out the same bytes of a job.
Printed are reads a second by the clock and by the CPU seconds of the service's process, as medians of the turns.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.live import live_server
from tests.media import make_video

JOBS = 10_000
TURNS = 5
WANTED = 1000


@dataclass(frozen=True)
class Turn:
    reads: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.reads / self.seconds

    @property
    def rate_of_cpu(self) -> float:
        return self.reads / self.cpu_seconds


@dataclass(frozen=True)
class Peer:
    """A server, and what is asked of it in turn."""

    pid: int
    port: int
    paths: Sequence[str]


def measure(peer: Peer, seconds: float) -> Turn:
    """Reads for so long, each after the answer to the one before."""
    paths = itertools.cycle(peer.paths)
    with socket.create_connection(("127.0.0.1", peer.port)) as connection, connection.makefile("rb") as answers:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reads, before, begun = 0, cpu_seconds(peer.pid), time.perf_counter()
        while (took := time.perf_counter() - begun) < seconds:
            connection.sendall(f"GET {next(paths)} HTTP/1.1\r\nHost: 127.0.0.1:{peer.port}\r\n\r\n".encode())
            assert b" 200 " in answers.readline()
            length = 0
            while (line := answers.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            answers.read(length)
            reads += 1
        return Turn(reads, took, cpu_seconds(peer.pid) - before)


def cpu_seconds(pid: int) -> float:
    """Of all threads of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def with_copies(database: Path, job_id: str) -> list[str]:
    """Adds copies of a job and its attempts; the ids of all."""
    with closing(sqlite3.connect(database)) as connection, connection:
        ids = [job_id, *(f"{job_id[:-6]}{number:06x}" for number in range(1, JOBS))]
        for table, own in (("jobs", "id"), ("attempts", "job_id")):
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            taken = ", ".join("? || '-0'" if name == "task_id" else "?" if name == own else name for name in names)
            fill = 2 if table == "attempts" else 1
            connection.executemany(
                f"INSERT INTO {table} SELECT {taken} FROM {table} WHERE {own} = ?",
                [(*[each] * fill, job_id) for each in ids[1:]],
            )
    return ids


@contextmanager
def bare(body: Path, path: str) -> Iterator[Peer]:
    words = [sys.executable, "-m", "benchmarks.bare_route", body]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Peer(process.pid, int(process.stdout.readline()), [path])
        finally:
            process.terminate()


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    with tempfile.TemporaryDirectory() as folder, live_server(TRANSCODER_SOFTWARE_SLOTS="1") as server:
        assert server.process is not None
        clip = make_video(Path(folder) / "clip.mp4", size=(160, 120), rate=25, seconds=2)
        job = json.loads(server.jobs("submit", clip, "--preset", "web-mp4", "--wait", "--json").succeeded().out)
        ids = with_copies(server.data / "transcoder.db", job["id"])
        body, path = Path(folder) / "body", f"/v1/jobs/{job['id']}"
        body.write_text(server.curl(path).out)
        asked = {
            "job": [path],
            "jobs in turn": [f"/v1/jobs/{each}" for each in ids],
            "page of 50": ["/v1/jobs?limit=50"],
            "healthz": ["/healthz"],
        }
        with bare(body, path) as ceiling:
            peers = {name: Peer(server.process.pid, server.port, paths) for name, paths in asked.items()}
            peers["bare"] = ceiling
            turns: dict[str, list[Turn]] = {name: [] for name in peers}
            for number in range(TURNS + 1):
                for name, peer in peers.items():
                    turn = measure(peer, seconds)
                    # the first warms everything up
                    turns[name] += [turn] if number else []
    for name, measured in turns.items():
        rate = statistics.median(turn.rate for turn in measured)
        of_cpu = statistics.median(turn.rate_of_cpu for turn in measured)
        print(f"{name}: {rate:.0f} reads/s, {of_cpu:.0f} for each CPU second of the server")
    rate = statistics.median(turn.rate_of_cpu for turn in turns["job"])
    print(f"ratio to {WANTED} reads for each CPU second: {rate / WANTED:.2f}")


if __name__ == "__main__":
    main()
