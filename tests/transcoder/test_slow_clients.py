"""Clients that are slow, endless or absurd, against a service of its own: cut in bounded time, with flat memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

pytestmark = pytest.mark.asyncio(loop_scope="module")

MEBIBYTE = 1 << 20
GROWTH_BYTES = 24 * MEBIBYTE

SERVER = """
import sys
from functools import partial
from pathlib import Path
import uvicorn
from tests.transcoder.fixtures_api import ScriptedExecutor
from transcoder.app import create_app
from transcoder.network.connections import GuardedProtocol
from transcoder.service import Service
from transcoder.settings import Settings

class Impatient(GuardedProtocol):
    head_seconds = 0.5
    max_connections = 200

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)

settings = Settings(data_dir=Path(sys.argv[1]), software_slots=1, upload_idle_seconds=0.5, max_upload_bytes=4 << 20)
app = create_app(settings, make_service=partial(Service, supervisor=ScriptedExecutor()))
Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, http=Impatient, ws="none")).run()
"""


@dataclass(frozen=True)
class Server:
    http: httpx2.AsyncClient
    port: int
    pid: int
    data_dir: Path

    def peak_bytes(self) -> int:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * 1024

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    data_dir = tmp_path_factory.mktemp("slow") / "data"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(data_dir), stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert process.stdout is not None
    try:
        port = int(await asyncio.wait_for(process.stdout.readline(), 60))
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
            # what the first requests load is not what is measured
            await http.put("/v1/uploads/warm", content=bytes(MEBIBYTE))
            yield Server(http, port, process.pid, data_dir)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def unharmed(server: Server) -> AsyncIterator[None]:
    """The service answers, takes the next job, has grown little and left nothing lying about."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    before, stored = server.peak_bytes(), sorted((server.data_dir / "uploads").iterdir())
    yield
    assert server.peak_bytes() - before < GROWTH_BYTES
    assert (await server.http.get("/healthz")).json()["status"] == "ok"
    async with asyncio.timeout(10):
        while sorted((server.data_dir / "uploads").iterdir()) != stored:
            await asyncio.sleep(0.02)
    upload = (await server.http.put("/v1/uploads/next", content=b"media")).json()["id"]
    job = await server.http.post("/v1/jobs", json={"input": {"upload": upload}, "outputs": [{"type": "mp4"}]})
    async with server.http.stream("GET", f"/v1/jobs/{job.json()['id']}/events") as events:
        async for _ in events.aiter_bytes():
            pass
    assert (await server.http.get(f"/v1/jobs/{job.json()['id']}")).json()["status"] == "completed"


async def status_of(reader: asyncio.StreamReader, seconds: float = 10.0) -> int | None:
    """The answer's status; None when the connection was ended without one."""
    async with asyncio.timeout(seconds):
        try:
            line = await reader.readline()
            await reader.read()
        except ConnectionError:
            return None
    return int(line.split(b" ")[1]) if line else None


async def pour(writer: asyncio.StreamWriter, piece: bytes, pause: float, limit: int = 1 << 40) -> int:
    """Sends until the other side has enough; the bytes that were sent."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < limit:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
            await asyncio.sleep(pause)
    return sent


HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "piece", "status"),
    [
        (b"", b"", None),
        (b"GET /hea", b"", 408),
        (HEAD, b"X", 408),
        (HEAD + b"X-Long: ", b"a", 408),
        (b"", b"\r\n", None),
        (HEAD + b"\r\n", b"\r\n", 200),
        (HEAD + b"\r\n" + HEAD, b"X", 200),
    ],
    ids=["silent", "half a line", "byte by byte", "long value", "empty lines", "empty lines after a request", "second"],
)
async def test_slow_head_is_let_go(server: Server, start: bytes, piece: bytes, status: int | None) -> None:
    async with unharmed(server):
        reader, writer = await server.connect()
        writer.write(start)
        dripping = asyncio.create_task(pour(writer, piece, 0.05)) if piece else None
        assert await status_of(reader) == status
        if dripping is not None:
            dripping.cancel()
            await asyncio.wait({dripping})
        writer.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET /", b"a" * 8192),
        (HEAD + b"X-Long: ", b"a" * 8192),
        (HEAD, b"X-Many: a\r\n" * 800),
        (
            b"PUT /v1/uploads/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
            b"X-Trailer: a\r\n" * 600,
        ),
    ],
    ids=["target", "one header", "headers", "trailers"],
)
async def test_endless_head_is_cut(server: Server, start: bytes, piece: bytes) -> None:
    async with unharmed(server):
        reader, writer = await server.connect()
        writer.write(start)
        sent = await asyncio.wait_for(pour(writer, piece, 0), 10)
        assert sent < 16 * MEBIBYTE
        assert await status_of(reader) in (None, 431)
        writer.close()


@pytest.mark.slow
async def test_many_slow_heads_are_all_let_go(server: Server) -> None:
    async with unharmed(server):
        before = server.open_files()
        connections = [await server.connect() for _ in range(150)]
        for _, writer in connections:
            writer.write(HEAD)
        assert {await status_of(reader) for reader, _ in connections} == {408}
        for _, writer in connections:
            writer.close()
        assert server.open_files() <= before + 5


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/uploads/a", "/v1/jobs", "/v1/tus"])
async def test_body_of_a_byte_at_a_time_is_ended(server: Server, path: str) -> None:
    async with unharmed(server):
        reader, writer = await server.connect()
        method = "PUT" if "uploads" in path else "POST"
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\nTus-Resumable: 1.0.0\r\n"
        head += "Upload-Length: 9000\r\nContent-Type: application/offset+octet-stream\r\n\r\n"
        writer.write(head.encode())
        dripping = asyncio.create_task(pour(writer, b"a", 0.05))
        assert await status_of(reader) == 408
        dripping.cancel()
        await asyncio.wait({dripping})
        writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/uploads/a", "/v1/jobs", "/v1/probe", "/healthz", "/nowhere"])
async def test_endless_body_is_cut(server: Server, path: str) -> None:
    async with unharmed(server):
        reader, writer = await server.connect()
        method = "PUT" if "uploads" in path else "POST"
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        piece = b"4000\r\n" + b"a" * 0x4000 + b"\r\n"
        pouring = asyncio.create_task(pour(writer, piece, 0.002))
        status = int((await asyncio.wait_for(reader.readline(), 10)).split(b" ")[1])
        assert status == {"/healthz": 405, "/nowhere": 404}.get(path, 413)
        # what follows an answer is not listened to for ever
        await asyncio.wait_for(pouring, 15)
        writer.close()


def fields(number: int) -> bytes:
    return b"".join(b'--b\r\nContent-Disposition: form-data; name="f%d"\r\n\r\nx\r\n' % each for each in range(number))


def ranges(number: int) -> dict[str, str]:
    return {"Range": "bytes=" + ",".join(f"{each}-{each}" for each in range(number))}


@pytest.mark.slow
async def test_form_with_a_hundred_thousand_fields_is_refused(server: Server) -> None:
    async with unharmed(server):
        kind = {"Content-Type": "multipart/form-data; boundary=b"}
        response = await server.http.post("/v1/jobs", content=fields(100_000) + b"--b--\r\n", headers=kind)
        assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")


async def test_ten_thousand_ranges_are_the_whole_file_or_refused(server: Server) -> None:
    upload = (await server.http.put("/v1/uploads/a", content=b"media")).json()["id"]
    job = await server.http.post("/v1/jobs", json={"input": {"upload": upload}, "outputs": [{"type": "mp4"}]})
    path = f"/v1/jobs/{job.json()['id']}"
    async with server.http.stream("GET", f"{path}/events") as events:
        async for _ in events.aiter_bytes():
            pass
    async with unharmed(server):
        assert (await server.http.get(f"{path}/outputs/output.mp4", headers=ranges(5000))).status_code == 200
        # larger than a head may be, unless it comes in one piece
        assert (await server.http.get(f"{path}/outputs/output.mp4", headers=ranges(10_000))).status_code in (200, 431)


@pytest.mark.parametrize(
    "body",
    [
        lambda: b"[" * 900_000,
        lambda: b'{"input":' * 100_000,
        lambda: json.dumps({"outputs": [{"type": "mp4"}] * 20_000}).encode(),
        lambda: b'{"metadata":{' + b",".join(b'"%d":1' % each for each in range(60_000)) + b"}}",
        lambda: b'{"priority":' + b"9" * 900_000 + b"}",
        lambda: b'{"a":"' + b"\\ud800" * 100_000 + b'"}',
    ],
    ids=["nesting", "objects", "outputs", "metadata", "a long number", "surrogates"],
)
async def test_absurd_json_is_refused(server: Server, body: Callable[[], bytes]) -> None:
    async with unharmed(server):
        response = await server.http.post("/v1/jobs", content=body())
        assert response.status_code in (400, 422)
        assert len(response.content) < 100_000


@pytest.mark.slow
async def test_client_that_is_killed_leaves_no_job_and_no_file(server: Server) -> None:
    async with unharmed(server):
        before = (await server.http.get("/v1/jobs")).json()["items"]
        for path in ("-T - {}/v1/uploads/", "-F preset=web-mp4 -F file=@- {}/v1/jobs"):
            words = path.format(f"http://127.0.0.1:{server.port}").split()
            curl = await asyncio.create_subprocess_exec(
                "curl", "-sS", *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
            )
            assert curl.stdin is not None
            curl.stdin.write(bytes(2 * MEBIBYTE))
            await curl.stdin.drain()
            curl.kill()
            await curl.wait()
        assert (await server.http.get("/v1/jobs")).json()["items"] == before


@pytest.mark.slow
async def test_connections_beyond_the_limit_are_refused_and_later_ones_are_taken(server: Server) -> None:
    async with unharmed(server), contextlib.AsyncExitStack() as stack:
        readers = []
        for _ in range(220):
            reader, writer = await server.connect()
            stack.callback(writer.close)
            readers.append(reader)
        statuses = [await status_of(reader) for reader in readers]

        # those that were let in and said nothing are closed at the end of their time
        assert statuses.count(503) >= 20
        assert statuses.count(None) >= 190
