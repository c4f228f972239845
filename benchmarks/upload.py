"""How fast one large upload is, beside nginx: `curl -T` of the same file to both in turn, over loopback.

python -m benchmarks.upload [MEBIBYTES]

nginx (Debian's, with its dav module) writes what comes and answers. The service hashes it as well, and answers once the
bytes, the file's entry and the database's row are on the disk: what was acknowledged survives a power cut. What nginx
would take to give the same promise is measured too, by the service's own means: fsync of the file that it wrote.
Printed are medians of the turns, and the most memory that the service held above what it did before.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.job_reads import cpu_seconds
from tests.acceptance.live import live_server

TURNS = 5
WANTED = 0.8

_NGINX = """
daemon off; worker_processes 1; pid {home}/pid; error_log {home}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off; client_max_body_size 0;
    client_body_temp_path {home}/body; proxy_temp_path {home}/p; fastcgi_temp_path {home}/f; uwsgi_temp_path {home}/u;
    scgi_temp_path {home}/s;
    server {{ listen 127.0.0.1:{port}; root {home}/files; location / {{ dav_methods PUT; }} }}
}}
"""


@dataclass(frozen=True)
class Turn:
    seconds: float
    cpu_seconds: float = 0.0


def put(file: Path, url: str) -> float:
    """Seconds until the whole was answered."""
    words = ["curl", "-sS", "--fail-with-body", "-o", os.devnull, "-w", "%{time_total}", "-T", file, url]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return float(done.stdout)


@contextmanager
def nginx(home: Path) -> Iterator[str]:
    port = 8471 + os.getpid() % 1000
    for folder in (home, home / "files"):
        folder.mkdir()
        # its worker is another user where this runs as root
        folder.chmod(0o777)
    (home / "conf").write_text(_NGINX.format(home=home, port=port))
    process = subprocess.Popen(["nginx", "-c", home / "conf", "-e", home / "error.log"])
    try:
        time.sleep(1)
        assert process.poll() is None, (home / "error.log").read_text()
        yield f"http://127.0.0.1:{port}/file"
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def memory_watched(pid: int) -> Iterator[list[int]]:
    """Fills the list with what a process holds, in bytes, twenty times a second."""
    seen: list[int] = [resident(pid)]
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            seen.append(resident(pid))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        ended.set()
        looking.join()


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def synced(file: Path) -> float:
    begun = time.perf_counter()
    with file.open("rb") as written:
        os.fsync(written.fileno())
    return time.perf_counter() - begun


def main() -> None:
    mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    if shutil.which("nginx") is None:
        sys.exit("nginx is not installed (Debian: nginx-light)")
    with tempfile.TemporaryDirectory() as folder, live_server() as server, nginx(Path(folder) / "nginx") as peer:
        assert server.process is not None
        home, pid = Path(folder), server.process.pid
        home.chmod(0o755)
        file = home / "file"
        with file.open("wb") as made:
            for _ in range(mebibytes):
                made.write(os.urandom(1 << 20))
        ours, theirs, durable, peak = [], [], [], 0
        for number in range(TURNS + 1):
            plain = put(file, peer)
            written = home / "nginx" / "files" / "file"
            fsync = synced(written)
            written.unlink()
            with memory_watched(pid) as seen:
                before = cpu_seconds(pid)
                turn = Turn(put(file, f"{server.address}/v1/uploads/file"), cpu_seconds(pid) - before)
            shutil.rmtree(server.data / "uploads")
            (server.data / "uploads").mkdir()
            # the first warms everything up
            if number:
                ours.append(turn)
                theirs.append(plain)
                durable.append(plain + fsync)
                peak = max(peak, max(seen) - seen[0])
    mine, plain = statistics.median(turn.seconds for turn in ours), statistics.median(theirs)
    print(f"nginx: {mebibytes / plain:.0f} MiB/s; with an fsync {mebibytes / statistics.median(durable):.0f} MiB/s")
    cpu = statistics.median(turn.cpu_seconds for turn in ours)
    print(f"transcoder: {mebibytes / mine:.0f} MiB/s, {1000 * cpu / mebibytes:.2f} ms of CPU for each MiB")
    print(f"memory: {peak / (1 << 20):.1f} MiB above what it was at the start of an upload")
    ratio = statistics.median(other / turn.seconds for other, turn in zip(theirs, ours, strict=True))
    fair = statistics.median(other / turn.seconds for other, turn in zip(durable, ours, strict=True))
    print(f"ratio to nginx: {ratio:.2f} (wanted: {WANTED}); to nginx with an fsync: {fair:.2f}")


if __name__ == "__main__":
    main()
