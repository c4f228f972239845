"""Servers that a stream is pushed to and that stop reading, vanish and come back: real ones, of RTMP and SRT."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.transcoder.soak import family
from tests.transcoder.stream_peers import free_port, free_udp_port, need, need_ffmpeg, publisher, rtmp_server, running
from tests.transcoder.test_stream_service import COPIED, SMALL, Streams, bytes_of, serving
from transcoder.streams.rtmp import client

pytestmark = pytest.mark.slow

HLS = {"type": "hls", "segment_seconds": 1, "window_seconds": 6, "video": SMALL}
NOISE = ("-vf", "noise=alls=100:allf=t", "-qp", "0")
"""Pictures that no encoder makes small: what is kept for a server is full within seconds."""
AGAIN = {"first_seconds": 0.2, "longest_seconds": 0.5}
MAX_GROWTH_BYTES = 96 << 20
"""Of the stream's process: the queue of an output, twice over, and the rest."""


def standing(job: dict[str, Any], name: str) -> dict[str, Any]:
    outputs: list[dict[str, Any]] = (job["stats"] or {}).get("outputs", [])
    return next((output for output in outputs if output["name"] == name), {"state": None})


def is_in(name: str, state: str) -> Any:
    return lambda job: standing(job, name)["state"] == state


def connections(port: int) -> int:
    """To that port of this machine, that have not ended."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] in ("01", "04", "05") for row in rows)


def memory() -> int:
    return sum(each.memory for each in family().values() if each.name.startswith(("python", "pytest")))


@contextmanager
def stopped(*names: str) -> Iterator[None]:
    """Those of this process's descendants are halted: their connections stay, and nobody reads."""
    found = [pid for pid, each in family().items() if each.name in names]
    assert found
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in found:
            os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def streaming(folder: Path, *outputs: dict[str, Any]) -> AsyncGenerator[tuple[Streams, str], None]:
    need_ffmpeg()
    url = f"http://127.0.0.1:{free_port()}/live.ts"
    async with serving(folder) as streams:
        with publisher(url, "mpegts", *NOISE, "-listen", "1"):
            job_id = await streams.submit({"url": url, "reconnect": AGAIN}, HLS, *outputs)
            yield streams, job_id


async def goes_on(streams: Streams, job_id: str, name: str) -> None:
    """More is sent than was by now."""
    sent = bytes_of(await streams.get(job_id), name)
    await streams.until(job_id, lambda job: bytes_of(job, name) > sent + 20_000)


async def test_a_server_of_rtmp_that_halts_is_dropped_or_connected_to_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SEND_SECONDS", 2.0)
    with rtmp_server(tmp_path) as target:
        port = int(target.rpartition(":")[2].partition("/")[0])
        patient = {"type": "push", "name": "patient", "url": f"{target}/one", **COPIED, "reconnect": AGAIN}
        strict = {"type": "push", "name": "strict", "url": f"{target}/two", **COPIED, "on_failure": "drop"}
        async with streaming(tmp_path, patient, strict) as (streams, job_id):
            for name in ("patient", "strict"):
                await streams.until(job_id, lambda job, name=name: bytes_of(job, name) > 100_000)  # type: ignore[misc]
            before = memory()
            with stopped("nginx"):
                await streams.until(job_id, is_in("strict", "failed"), 60)
                job = await streams.until(job_id, is_in("patient", "retrying"), 60)
                # what was given up is closed, whatever it had not taken: there is one attempt at most
                async with asyncio.timeout(20):
                    while connections(port) > 1:
                        await asyncio.sleep(0.05)
                # the others do not notice
                await goes_on(streams, job_id, "hls")
                assert (job["state"], standing(job, "hls")["dropped"]) == ("live", 0)
                assert memory() - before < MAX_GROWTH_BYTES
            await streams.until(job_id, is_in("patient", "live"), 60)
            await goes_on(streams, job_id, "patient")
            job = await streams.get(job_id)
            assert standing(job, "patient")["dropped"] > 0
            assert standing(job, "strict")["state"] == "failed"
            ended = await streams.stop(job_id)
        assert ended["status"] == "completed"
        assert "output_failed" in [warning["code"] for warning in ended["warnings"]]


async def test_a_server_of_rtmp_that_vanishes_is_found_again(tmp_path: Path) -> None:
    port = free_port()
    push = {"type": "push", "url": f"rtmp://127.0.0.1:{port}/live/key", **COPIED, "reconnect": AGAIN}
    async with streaming(tmp_path, push) as (streams, job_id):
        for _ in range(2):
            with rtmp_server(tmp_path, port):
                await streams.until(job_id, is_in("push", "live"))
                await goes_on(streams, job_id, "push")
            job = await streams.until(job_id, is_in("push", "retrying"))
            await goes_on(streams, job_id, "hls")
        assert standing(job, "push")["failures"] >= 2
        assert standing(job, "hls")["dropped"] == 0


@contextmanager
def srt_receiver(port: int, target: Path) -> Iterator[None]:
    """The tool of SRT's makers, which writes what one caller sends."""
    command = f"exec srt-live-transmit -q -a:no 'srt://127.0.0.1:{port}?mode=listener' file://con >> {target}"
    with running("sh", "-c", command):
        yield


async def grown(target: Path, size: int) -> None:
    async with asyncio.timeout(60):
        while not target.exists() or target.stat().st_size < size:
            await asyncio.sleep(0.05)


async def test_a_receiver_of_srt_that_halts_or_vanishes_is_found_again(tmp_path: Path) -> None:
    need(shutil.which("srt-live-transmit") is not None, "srt-live-transmit (Debian: srt-tools)")
    port, taken = free_udp_port(), tmp_path / "taken.ts"
    push = {"type": "push", "url": f"srt://127.0.0.1:{port}", **COPIED, "reconnect": AGAIN}
    async with streaming(tmp_path, push) as (streams, job_id):
        with srt_receiver(port, taken):
            await grown(taken, 200_000)
            callers = [pid for pid, each in family().items() if each.name.startswith("srt-live")]
            assert len(callers) == 2
        await streams.until(job_id, is_in("push", "retrying"), 60)
        with srt_receiver(port, taken):
            await grown(taken, taken.stat().st_size + 200_000)
            halted = [pid for pid in family() if pid not in callers and _listens(pid)]
            assert len(halted) == 1
            before = memory()
            os.kill(halted[0], signal.SIGSTOP)
            # SRT itself finds a peer gone that says nothing for five seconds
            await streams.until(job_id, is_in("push", "retrying"), 60)
            await goes_on(streams, job_id, "hls")
            assert memory() - before < MAX_GROWTH_BYTES
            os.kill(halted[0], signal.SIGKILL)
        with srt_receiver(port, taken):
            await grown(taken, taken.stat().st_size + 200_000)
        job = await streams.get(job_id)
        assert standing(job, "push")["dropped"] > 0
        assert standing(job, "hls")["dropped"] == 0


def _listens(pid: int) -> bool:
    try:
        return b"mode=listener" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False
