"""Downloads that go wrong: each ends as the right error, in time, and leaves nothing."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from pipelines.errors import DeadlineExceeded, LimitExceeded, PipelineError, Stalled
from tests.transcoder.fixtures_peers import Answer, get, says, serving
from transcoder.network.addresses import Address
from transcoder.network.fetch import FetchFailed


@pytest.mark.parametrize(("status", "retryable"), [(404, False), (403, False), (503, True), (429, True), (206, False)])
async def test_status_is_a_fact_of_the_failure(tmp_path: Path, status: int, retryable: bool) -> None:
    async with serving(says(f"HTTP/1.1 {status} X\nContent-Length: 0")) as peer:
        with pytest.raises(FetchFailed) as failed:
            await get(peer.url(), tmp_path / "input")
    assert failed.value.to_json()["facts"] == {"status": status}
    assert failed.value.retryable is retryable


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("HTTP/1.1 200 OK\nContent-Length: 2000000", b""),
        ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"200000\r\n" + b"a" * 0x200000),
        ("HTTP/1.1 200 OK", b"a" * 2_000_000),
    ],
    ids=["announced", "chunked", "to the close"],
)
async def test_too_large_body_is_cut_off(tmp_path: Path, head: str, body: bytes) -> None:
    async with serving(says(head, body)) as peer:
        with pytest.raises(LimitExceeded) as refused:
            await get(peer.url(), tmp_path / "input")
    assert refused.value.code == "limit_size"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "answer",
    [
        says("HTTP/1.1 200 OK\nContent-Length: 100", b"only this"),
        says("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"zz\r\n"),
        says("SSH-2.0-OpenSSH_9.2"),
        says("HTTP/1.1 200 OK\nContent-Length: -5"),
        says("HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: 1", b"a"),
        says("HTTP/1.1 302 Found"),
    ],
    ids=["short", "bad chunk", "not http", "negative length", "compressed", "redirect to nowhere"],
)
async def test_broken_answer_is_a_failure_that_leaves_nothing(tmp_path: Path, answer: Answer) -> None:
    async with serving(answer) as peer:
        with pytest.raises(FetchFailed):
            await get(peer.url(), tmp_path / "input")
    assert list(tmp_path.iterdir()) == []


async def test_refused_connection_is_retryable(tmp_path: Path) -> None:
    async with serving(says("")) as peer:
        url = peer.url()
    with pytest.raises(FetchFailed) as failed:
        await get(url, tmp_path / "input")
    assert failed.value.retryable


async def test_name_that_does_not_exist_is_a_failure(tmp_path: Path) -> None:
    async def nothing(host: str, port: int) -> tuple[Address, ...]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(FetchFailed, match="does not resolve"):
        await get("http://nowhere.example/", tmp_path / "input", resolve=nothing)


def _mute(head: str) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        writer.write(head.replace("\n", "\r\n").encode())
        await writer.drain()
        await reader.read()

    return answer


def _dripping(head: str) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        writer.write(head.replace("\n", "\r\n").encode())
        while not writer.is_closing():
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(0.05)

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        _mute("HTTP/1.1 200 OK\nContent-Length: 100\n\nsome"),
        _mute("HTTP/1.1 200 OK\n"),
        _mute(""),
        _dripping("HTTP/1.1 200 OK\nContent-Length: 100000\n\n"),
    ],
    ids=["mute body", "mute head", "mute", "dripping body"],
)
async def test_server_that_sends_too_little_is_stalled(tmp_path: Path, answer: Answer) -> None:
    started = time.monotonic()
    async with serving(answer) as peer:
        with pytest.raises(Stalled):
            await get(peer.url(), tmp_path / "input", idle_seconds=0.3)
    assert time.monotonic() - started < 3
    assert list(tmp_path.iterdir()) == []


async def test_download_has_a_deadline_of_its_own(tmp_path: Path) -> None:
    async with serving(_mute("HTTP/1.1 200 OK\nContent-Length: 100\n\nsome")) as peer:
        with pytest.raises(DeadlineExceeded):
            await get(peer.url(), tmp_path / "input", total_seconds=0.2)
    assert list(tmp_path.iterdir()) == []


async def test_cancelling_closes_the_connection_and_removes_the_file(tmp_path: Path) -> None:
    async with serving(_mute("HTTP/1.1 200 OK\nContent-Length: 100\n\nsome")) as peer:
        fetching = asyncio.create_task(get(peer.url(), tmp_path / "input"))
        while not list(tmp_path.iterdir()):
            await asyncio.sleep(0.01)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        await asyncio.wait_for(peer.left.wait(), 5)
    assert list(tmp_path.iterdir()) == []


async def test_file_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "input").write_text("mine")
    async with serving(says("HTTP/1.1 200 OK\nContent-Length: 1", b"a")) as peer:
        with pytest.raises(PipelineError):
            await get(peer.url(), tmp_path / "input")
    assert (tmp_path / "input").read_text() == "mine"
