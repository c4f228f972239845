"""A store that speaks S3, for tests: moto's server as a process, and a gate before it that can be shut.

It comes with the test group. A test that lacks it is skipped and says so; with TRANSCODER_TEST_PEERS=require it fails.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from typing import Any

import httpx2
import pytest

from tests.transcoder.stream_peers import free_port, need

START_SECONDS = 60.0
PREFIX = "some/prefix/"
_numbers = count()


@dataclass(frozen=True)
class Bucket:
    """One of one's own on the running server."""

    port: int
    name: str

    def settings(self, **changes: Any) -> dict[str, Any]:
        """Settings of a service that keeps things here; they are accepted by `Settings` and, as text, by processes."""
        return {
            "bucket_url": f"s3://{self.name}/some/prefix",
            "bucket_endpoint": f"http://127.0.0.1:{self.port}",
            "bucket_region": "us-east-1",
            "bucket_access_key": "the-access-key",
            "bucket_secret_key": "the-secret-key",
        } | changes

    def _client(self) -> Any:
        """Another library than the service's."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            region_name="us-east-1",
            aws_access_key_id="other",
            aws_secret_access_key="other",
        )

    def objects(self) -> dict[str, bytes]:
        """What it holds, by name below the prefix."""
        client = self._client()
        found = client.list_objects_v2(Bucket=self.name, Prefix=PREFIX).get("Contents", [])
        keys = [each["Key"] for each in found]
        return {key.removeprefix(PREFIX): client.get_object(Bucket=self.name, Key=key)["Body"].read() for key in keys}

    def put(self, key: str, content: bytes) -> None:
        self._client().put_object(Bucket=self.name, Key=f"{PREFIX}{key}", Body=content)


@pytest.fixture(scope="session")
def bucket_server() -> Iterator[int]:
    """The port of a store."""
    need(all(find_spec(name) is not None for name in ("moto", "flask", "obstore")), "moto[server] or obstore (PyPI)")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + START_SECONDS
        while True:
            assert process.poll() is None, "moto's server did not start"
            assert time.monotonic() < until, "moto's server does not answer"
            with suppress(httpx2.HTTPError):
                if httpx2.get(f"http://127.0.0.1:{port}/moto-api/", timeout=2).is_success:
                    break
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def bucket(bucket_server: int) -> Bucket:
    name = f"bucket-{next(_numbers)}-{time.time_ns()}"
    assert httpx2.put(f"http://127.0.0.1:{bucket_server}/{name}").is_success
    return Bucket(bucket_server, name)


@dataclass
class Gate:
    """A port that leads to another one, unless it is shut: then connections break, and new ones are refused.

    `bytes_until_shut`: after so many bytes towards the store it shuts itself. `passed`: bytes so far.
    """

    target: int
    port: int = field(default_factory=free_port)
    bytes_until_shut: int | None = None
    passed: int = 0
    was_shut: asyncio.Event = field(default_factory=asyncio.Event)
    _server: asyncio.Server | None = None
    _links: set[asyncio.StreamWriter] = field(default_factory=set)

    async def open(self) -> None:
        self.bytes_until_shut = None
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in self._links:
            link.transport.abort()
        self.was_shut.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            back, forth = await asyncio.open_connection("127.0.0.1", self.target)
            links = {writer, forth}
            self._links |= links
            try:
                await asyncio.gather(self._pass(reader, forth, count=True), self._pass(back, writer, count=False))
            finally:
                self._links -= links
                for link in links:
                    link.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, count: bool) -> None:
        while chunk := await reader.read(1 << 16):
            self.passed += len(chunk) if count else 0
            if self.bytes_until_shut is not None and self.passed >= self.bytes_until_shut:
                await self.shut()
                return
            writer.write(chunk)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def gate_to(port: int) -> Any:
    gate = Gate(port)
    await gate.open()
    try:
        yield gate
    finally:
        await gate.shut()
