"""A large upload must not grow the service: measured on a server of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

MEBIBYTE = 1 << 20
SENT_BYTES = 320 * MEBIBYTE
GROWTH_BYTES = 40 * MEBIBYTE

SERVER = """
import sys
from functools import partial
from pathlib import Path
import uvicorn
from tests.transcoder.fixtures_api import ScriptedExecutor
from transcoder.app import create_app
from transcoder.service import Service
from transcoder.settings import Settings

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)

settings = Settings(data_dir=Path(sys.argv[1]), software_slots=1)
app = create_app(settings, make_service=partial(Service, supervisor=ScriptedExecutor()))
Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None)).run()
"""


@dataclass(frozen=True)
class Server:
    http: httpx2.AsyncClient
    pid: int

    def peak_bytes(self) -> int:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server, None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SERVER,
        str(tmp_path / "data"),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    try:
        port = int(await asyncio.wait_for(process.stdout.readline(), 60))
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120) as http:
            yield Server(http, process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def body(before: bytes = b"", after: bytes = b"") -> AsyncIterator[bytes]:
    chunk = os.urandom(MEBIBYTE)
    yield before
    for _ in range(SENT_BYTES // MEBIBYTE):
        yield chunk
    yield after


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("route", ["raw", "form", "job"])
async def test_memory_stays_flat_while_a_large_file_comes(server: Server, route: str) -> None:
    start = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    preset = b'\r\n--b\r\nContent-Disposition: form-data; name="preset"\r\n\r\nweb-mp4'
    kind = {"content-type": "multipart/form-data; boundary=b"}
    # whatever is loaded with the first request is not what is measured
    await server.http.put("/v1/uploads/small", content=b"a" * MEBIBYTE)
    server.forget_peak()
    before = server.peak_bytes()
    if route == "raw":
        response = await server.http.put("/v1/uploads/large", content=body())
    elif route == "form":
        response = await server.http.post("/v1/uploads", content=body(start, b"\r\n--b--\r\n"), headers=kind)
    else:
        response = await server.http.post("/v1/jobs", content=body(start, preset + b"\r\n--b--\r\n"), headers=kind)
    grown = server.peak_bytes() - before
    assert response.status_code == 201, response.text
    answer = json.loads(response.text)
    upload = (
        answer if route != "job" else (await server.http.get(f"/v1/uploads/{answer['spec']['input']['upload']}")).json()
    )
    assert upload["size"] == SENT_BYTES
    assert grown < GROWTH_BYTES, f"grew by {grown / MEBIBYTE:.0f} MiB"
    print(f"{route}: grew by {grown / MEBIBYTE:.1f} MiB")
