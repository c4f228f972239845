"""How many times a second one client reads a job: GET /v1/jobs/{id} over one connection that is kept.

python -m benchmarks.job_reads [SECONDS]

The service is a process of its own on SQLite in a temporary folder, the job one that has completed, with its plan.
Reads of /healthz, which touches no database, are measured in turn with them: what is left between both is the job's.
Printed are reads a second by the clock and by the CPU seconds of the service's process, as medians of the turns.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.live import LiveServer, live_server
from tests.media import make_video

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


def measure(server: LiveServer, path: str, seconds: float) -> Turn:
    """Reads `path` for so long, each after the answer to the one before."""
    assert server.process is not None
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection, connection.makefile("rb") as answers:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reads, before, begun = 0, cpu_seconds(server.process.pid), time.perf_counter()
        while (took := time.perf_counter() - begun) < seconds:
            connection.sendall(request)
            assert b" 200 " in answers.readline()
            length = 0
            while (line := answers.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            answers.read(length)
            reads += 1
        return Turn(reads, took, cpu_seconds(server.process.pid) - before)


def cpu_seconds(pid: int) -> float:
    """Of all threads of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    with tempfile.TemporaryDirectory() as folder, live_server(TRANSCODER_SOFTWARE_SLOTS="1") as server:
        clip = make_video(Path(folder) / "clip.mp4", size=(160, 120), rate=25, seconds=2)
        job = json.loads(server.jobs("submit", clip, "--preset", "web-mp4", "--wait", "--json").succeeded().out)
        paths = {"job": f"/v1/jobs/{job['id']}", "healthz": "/healthz"}
        turns: dict[str, list[Turn]] = {name: [] for name in paths}
        for number in range(TURNS + 1):
            for name, path in paths.items():
                turn = measure(server, path, seconds)
                # the first warms everything up
                turns[name] += [turn] if number else []
    for name, measured in turns.items():
        rate = statistics.median(turn.rate for turn in measured)
        of_cpu = statistics.median(turn.rate_of_cpu for turn in measured)
        print(f"{name}: {rate:.0f} reads/s, {of_cpu:.0f} for each CPU second of the service")
    rate = statistics.median(turn.rate_of_cpu for turn in turns["job"])
    print(f"ratio to {WANTED} reads for each CPU second: {rate / WANTED:.2f}")


if __name__ == "__main__":
    main()
