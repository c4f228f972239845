"""Uploads over real connections: streamed, bounded, and gone when they break."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from tests.transcoder.fixtures_api import Api, problem, serving_api

LIMIT = 100_000


@pytest.fixture
async def small(tmp_path: Path) -> AsyncGenerator[Api, None]:
    """An API that takes little and waits short."""
    async with serving_api(tmp_path / "data", max_upload_bytes=LIMIT, upload_idle_seconds=0.4) as running:
        yield running


async def chunks(size: int, number: int) -> AsyncIterator[bytes]:
    for _ in range(number):
        yield b"a" * size


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of a response on a connection that the server then closes or keeps."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    status = int(head.split(b" ", 2)[1])
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    return status, await asyncio.wait_for(reader.readexactly(length), 10)


async def emptied(api: Api) -> None:
    """Waits until nothing is left in the uploads folder."""
    async with asyncio.timeout(10):
        while api.stored():
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_put_stores_the_bytes_and_tells_their_hash(api: Api) -> None:
    content = bytes(range(256)) * 10_000
    response = await api.http.put("/v1/uploads/clip.mov", content=content)
    assert response.status_code == 201
    upload = response.json()
    assert (upload["size"], upload["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert (api.data_dir / "uploads" / upload["id"]).read_bytes() == content
    assert (await api.http.get(response.headers["location"])).json() == upload


async def test_chunked_put_is_the_same(api: Api) -> None:
    response = await api.http.put("/v1/uploads/clip.mov", content=chunks(70_000, 50))
    assert response.json()["size"] == 3_500_000


@pytest.mark.slow
async def test_empty_upload_is_an_upload(api: Api) -> None:
    assert (await api.http.put("/v1/uploads/empty", content=b"")).json()["size"] == 0


async def test_form_upload_is_an_upload(api: Api) -> None:
    response = await api.http.post("/v1/uploads", files={"file": ("ü.mov", b"media")})
    assert response.status_code == 201
    assert (response.json()["name"], response.json()["size"]) == ("ü.mov", 5)


@pytest.mark.slow
async def test_upload_is_deleted_unless_a_job_needs_it(api: Api) -> None:
    api.executor.gate.clear()
    used = (await api.submit())["spec"]["input"]["upload"]
    unused = (await api.upload())["id"]
    problem(await api.http.delete(f"/v1/uploads/{used}"), 409, "conflict")
    assert (await api.http.delete(f"/v1/uploads/{unused}")).status_code == 204
    assert api.stored() == [used]
    problem(await api.http.get(f"/v1/uploads/{unused}"), 404, "upload_not_found")
    problem(await api.http.delete(f"/v1/uploads/{unused}"), 404, "upload_not_found")


@pytest.mark.slow
async def test_announced_size_past_the_limit_is_refused_before_the_body(small: Api) -> None:
    reader, writer = await small.connect()
    writer.write(b"PUT /v1/uploads/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n")
    status, body = await answer(reader)
    assert (status, json.loads(body)["code"]) == (413, "payload_too_large")
    writer.close()
    assert small.stored() == []


@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_endless_body_is_cut_off_at_the_limit(small: Api, method: str) -> None:
    reader, writer = await small.connect()
    path, kind = ("/a", "application/octet-stream") if method == "PUT" else ("", "multipart/form-data; boundary=b")
    head = (
        f"{method} /v1/uploads{path} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    writer.write(head.encode())
    start = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    writer.write(f"{len(start):x}\r\n".encode() + start + b"\r\n")
    sent = 0

    async def send() -> None:
        nonlocal sent
        for _ in itertools.count():
            writer.write(b"4000\r\n" + b"a" * 0x4000 + b"\r\n")
            await writer.drain()
            sent += 0x4000
            await asyncio.sleep(0.001)

    sending = asyncio.create_task(send())
    status, body = await answer(reader)
    sending.cancel()
    await asyncio.wait({sending})
    assert (status, json.loads(body)["code"]) == (413, "payload_too_large")
    assert sent < 100 * LIMIT
    writer.close()
    await emptied(small)


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [
        "PUT /v1/uploads/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n",
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n",
        "POST /v1/probe HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n",
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\n"
        '\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nmedia',
    ],
    ids=["upload", "json", "probe", "form"],
)
@pytest.mark.parametrize("drip", [False, True], ids=["silent", "one byte at a time"])
async def test_slow_body_is_timed_out_and_leaves_nothing(small: Api, head: str, drip: bool) -> None:
    reader, writer = await small.connect()
    writer.write(head.encode())

    async def trickle() -> None:
        while drip:
            writer.write(b"a")
            await asyncio.sleep(0.05)

    trickling = asyncio.create_task(trickle())
    status, body = await answer(reader)
    trickling.cancel()
    assert (status, json.loads(body)["code"]) == (408, "body_timeout")
    writer.close()
    await emptied(small)
    assert (await small.http.get("/v1/jobs")).json()["items"] == []


@pytest.mark.slow
@pytest.mark.parametrize("form", [False, True], ids=["raw", "form"])
async def test_client_that_goes_away_leaves_nothing(api: Api, form: bool) -> None:
    _, writer = await api.connect()
    if form:
        writer.write(
            b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
            b"Content-Length: 9000000\r\n\r\n"
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        )
    else:
        writer.write(b"PUT /v1/uploads/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n")
    writer.write(b"a" * 3_000_000)
    await writer.drain()
    async with asyncio.timeout(10):
        while not api.stored():
            await asyncio.sleep(0.01)
    writer.transport.abort()
    await emptied(api)
    assert (await api.http.get("/v1/jobs")).json()["items"] == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_sends_files_the_way_people_do(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "my clip.mov"
    file.write_bytes(b"m" * 2_000_000)
    base = f"http://127.0.0.1:{api.port}"
    for arguments in (
        ["-T", str(file), f"{base}/v1/uploads/"],
        ["-H", "Expect: 100-continue", "-T", str(file), f"{base}/v1/uploads/my%20clip.mov"],
        ["-F", f"file=@{file}", f"{base}/v1/uploads"],
    ):
        upload = json.loads(await _curl(*arguments))
        assert (upload["name"], upload["size"]) == ("my clip.mov", 2_000_000)
    job = json.loads(await _curl("-F", f"file=@{file}", "-F", "preset=web-mp4", f"{base}/v1/jobs"))
    assert job["status"] == "queued"
    job = json.loads(await _curl("-F", "preset=web-mp4", "-F", f"file=@{file}", f"{base}/v1/jobs"))
    assert job["preset"] == "web-mp4"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_sees_the_refusal_of_a_file_that_is_too_large(small: Api, tmp_path: Path) -> None:
    file = tmp_path / "large.mov"
    file.write_bytes(b"m" * 3_000_000)
    base = f"http://127.0.0.1:{small.port}"
    for arguments in (["-T", str(file), f"{base}/v1/uploads/"], ["-F", f"file=@{file}", f"{base}/v1/jobs"]):
        assert json.loads(await _curl(*arguments))["code"] == "payload_too_large"
    await emptied(small)


async def _curl(*arguments: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        "curl", "-sS", "-m", "20", *arguments, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out
