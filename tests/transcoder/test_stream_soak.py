"""Two streams for a long time, a reconnect a minute: only with TRANSCODER_SOAK_MINUTES (20 is a real soak)."""

from __future__ import annotations

import asyncio
import os
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.transcoder.stream_peers import free_port, need_ffmpeg, publisher
from tests.transcoder.test_stream_service import HLS, serving

MINUTES = float(os.environ.get("TRANSCODER_SOAK_MINUTES", "0"))
PERIOD_SECONDS = 60
GROWTH = 1.25
"""At most, of memory from after the first period to the end."""


def family() -> dict[int, tuple[str, int, int]]:
    """This process's descendants: name, resident bytes, open files."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found, known = {}, {os.getpid()}
    for _ in range(6):
        known |= {pid for pid, parent in parents.items() if parent in known}
    for pid in known:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            rss = int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) * 1024
            found[pid] = (status.splitlines()[0].split()[1], rss, len(list(Path(f"/proc/{pid}/fd").iterdir())))
        except (FileNotFoundError, ProcessLookupError, IndexError):
            continue
    return found


def engines() -> list[tuple[int, int]]:
    """Memory and files of the processes of streams and of the service itself, largest first."""
    return sorted(
        ((rss, fds) for name, rss, fds in family().values() if name.startswith(("python", "pytest"))), reverse=True
    )


@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 300)
@pytest.mark.skipif(not MINUTES, reason="set TRANSCODER_SOAK_MINUTES")
async def test_two_streams_with_a_reconnect_a_minute_stay_as_they_are(tmp_path: Path) -> None:
    need_ffmpeg()
    urls = [f"http://127.0.0.1:{free_port()}/live.ts" for _ in range(2)]
    output = {**HLS, "window_seconds": 10}
    again = {"first_seconds": 0.5, "longest_seconds": 1}
    async with serving(tmp_path) as streams:
        ids = [await streams.submit({"url": url, "reconnect": again, "read_seconds": 3}, output) for url in urls]
        end = time.monotonic() + MINUTES * 60
        seen: list[list[tuple[int, int]]] = []
        while time.monotonic() < end:
            with publisher(urls[0], "mpegts", "-listen", "1"), publisher(urls[1], "mpegts", "-listen", "1"):
                await asyncio.sleep(min(PERIOD_SECONDS, max(5.0, end - time.monotonic())))
                seen.append(engines())
            await asyncio.sleep(2)
        jobs = [await streams.get(job_id) for job_id in ids]
        for job in jobs:
            assert job["stats"]["reconnects"] >= len(seen) - 1
            assert (await streams.stop(job["id"]))["status"] == "completed"
    print(f"memory and files by period: {seen}")
    # the first period fills caches and windows
    early, late = seen[min(1, len(seen) - 1)], seen[-1]
    assert len(late) == len(early)
    for (before, files_before), (after, files_after) in zip(early, late, strict=True):
        assert after < before * GROWTH
        assert files_after <= files_before + 4
    for job_id in ids:
        text = (tmp_path / "data" / "outputs" / job_id / "live" / ".segments.jsonl").read_text()
        starts = [(line.split('"rendition":"')[1][:2], line) for line in text.splitlines()]
        numbers = [int(re.findall(r'"number":(\d+)', line)[0]) for name, line in starts if name == "v0"]
        assert all(after == before + 1 for before, after in pairwise(numbers))
