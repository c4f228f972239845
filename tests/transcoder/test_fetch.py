"""Downloads from real servers on loopback, each answering one way."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
import trustme

from pipelines.errors import DeadlineExceeded, LimitExceeded, PipelineError, Stalled
from tests.transcoder.test_fetch_addresses import HOSTILE
from transcoder.addresses import Address, BlockedAddress
from transcoder.fetch import FetchedFile, FetchFailed, fetch

LOOPBACK = (ip_network("127.0.0.0/8"),)
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter, str], Awaitable[None]]


@dataclass
class Peer:
    """A server that counts connections and keeps the heads of requests."""

    port: int = 0
    accepted: int = 0
    heads: list[str] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, path: str = "/clip.mp4", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def serving(answer: Answer, *, context: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    peer = Peer()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer.accepted += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            peer.heads.append(head)
            await answer(reader, writer, head.split(" ")[1])
            writer.close()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            peer.left.set()
            writer.close()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=context)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()


def says(text: str, body: bytes = b"") -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        writer.write(text.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        await writer.drain()

    return answer


async def get(url: str, target: Path, **options: object) -> FetchedFile:
    chosen: dict[str, object] = {"allowed_networks": LOOPBACK, "max_bytes": 1 << 20, "idle_seconds": 5.0, **options}
    return await fetch(url, target, **chosen)  # type: ignore[arg-type]


async def test_body_is_written_whole_and_named(tmp_path: Path) -> None:
    body = bytes(range(256)) * 2000
    seen: list[int] = []
    async with serving(says(f"HTTP/1.1 200 OK\nContent-Length: {len(body)}", body)) as peer:
        fetched = await get(peer.url("/films/a%20clip.mp4?x=1"), tmp_path / "input", on_bytes=seen.append)
    assert fetched == FetchedFile(tmp_path / "input", len(body), "a clip.mp4")
    assert fetched.path.read_bytes() == body
    assert seen[-1] == len(body)
    assert "GET /films/a%20clip.mp4?x=1 HTTP/1.1" in peer.heads[0]
    assert f"Host: 127.0.0.1:{peer.port}\r\n" in peer.heads[0]


async def test_chunked_body_and_body_up_to_close_are_read(tmp_path: Path) -> None:
    async with serving(
        says("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    ) as peer:
        assert (await get(peer.url(), tmp_path / "a")).size == 5
    async with serving(says("HTTP/1.0 200 OK", b"abcdef")) as peer:
        assert (await get(peer.url(), tmp_path / "b")).size == 6


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('attachment; filename="film.mkv"', "film.mkv"),
        ("attachment; filename*=UTF-8''caf%C3%A9.mp4", "café.mp4"),
        ('attachment; filename="../../etc/passwd"', "../../etc/passwd"),
        ("attachment; filename=plain.ts; filename*=UTF-8''caf%C3%A9.ts", "café.ts"),
        ('attachment; filename="ü.mp4"', "ü.mp4"),
        ("inline", "clip.mp4"),
    ],
)
async def test_name_comes_from_the_disposition_and_stays_metadata(tmp_path: Path, header: str, name: str) -> None:
    async with serving(says(f"HTTP/1.1 200 OK\nContent-Disposition: {header}\nContent-Length: 1", b"a")) as peer:
        fetched = await get(peer.url(), tmp_path / "input")
    assert fetched.name == name
    assert [path.name for path in tmp_path.iterdir()] == ["input"]


async def test_hostile_urls_are_refused_without_one_connection(tmp_path: Path) -> None:
    async with serving(says("HTTP/1.1 200 OK\nContent-Length: 1", b"a")) as canary:
        spellings = ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]", "localhost",
                     "user@127.0.0.1", "0", "0.0.0.0", "127.0.0.1.", "[::127.0.0.1]"]  # fmt: skip
        urls = [*HOSTILE.values(), *(canary.url(host=host) for host in spellings), f"http:127.0.0.1:{canary.port}/"]
        for url in urls:
            with pytest.raises(BlockedAddress):
                await get(url, tmp_path / "input", allowed_networks=())
        assert canary.accepted == 0
    assert list(tmp_path.iterdir()) == []


async def test_connection_goes_to_the_address_that_was_checked(tmp_path: Path) -> None:
    """A name that changes its answer between check and connection gains nothing: it is asked once."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> tuple[Address, ...]:
        asked.append(host)
        return (ip_address("127.0.0.1"),)

    async with serving(says("HTTP/1.1 200 OK\nContent-Length: 1", b"a")) as peer:
        await get(peer.url(host="films.example"), tmp_path / "input", resolve=rebinding)
    assert asked == ["films.example"]
    assert f"Host: films.example:{peer.port}\r\n" in peer.heads[0]


async def test_next_address_is_tried_when_one_refuses(tmp_path: Path) -> None:
    async def two(host: str, port: int) -> tuple[Address, ...]:
        return ip_address("127.0.0.9"), ip_address("127.0.0.1")

    async with serving(says("HTTP/1.1 200 OK\nContent-Length: 1", b"a")) as peer:
        fetched = await get(peer.url(host="two.example"), tmp_path / "input", resolve=two)
    assert fetched.size == 1


async def test_redirect_is_followed_and_checked_again(tmp_path: Path) -> None:
    async with (
        serving(says("HTTP/1.1 200 OK\nContent-Length: 1", b"a")) as last,
        serving(says(f"HTTP/1.1 302 Found\nLocation: {last.url('/b.mp4')}")) as first,
    ):
        assert (await get(first.url(), tmp_path / "input")).name == "b.mp4"


@pytest.mark.parametrize("location", [
    "http://169.254.169.254/latest/", "http://10.0.0.1/", "//10.0.0.1/", "http://[::1]/", "http://2130706433/",
    "file:///etc/passwd", "gopher://127.0.0.1/", "http://a@127.0.0.1/", "http:\\\\10.0.0.1", "/a\tb", "/ü",
])  # fmt: skip
async def test_redirect_inward_is_blocked(tmp_path: Path, location: str) -> None:
    async with serving(says(f"HTTP/1.1 302 Found\nLocation: {location}")) as peer:
        with pytest.raises(BlockedAddress):
            await get(peer.url(), tmp_path / "input")
    assert list(tmp_path.iterdir()) == []


async def test_redirect_to_a_private_canary_makes_no_connection(tmp_path: Path) -> None:
    only_first = (ip_network("127.0.0.1/32"),)
    async with serving(says("HTTP/1.1 200 OK\nContent-Length: 1", b"a")) as canary:
        location = canary.url(host="127.0.0.2")
        async with serving(says(f"HTTP/1.1 307 Temporary Redirect\nLocation: {location}")) as peer:
            with pytest.raises(BlockedAddress):
                await get(peer.url(), tmp_path / "input", allowed_networks=only_first)
        assert canary.accepted == 0


async def test_redirects_end_after_five(tmp_path: Path) -> None:
    async with serving(says("HTTP/1.1 302 Found\nLocation: /again")) as peer:
        with pytest.raises(FetchFailed, match="redirects"):
            await get(peer.url(), tmp_path / "input")
    assert peer.accepted == 6


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


async def test_tls_verifies_the_host_name_although_the_address_is_pinned(tmp_path: Path) -> None:
    authority = trustme.CA()
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("films.example").configure_cert(server)
    authority.configure_trust(client)

    async def inward(host: str, port: int) -> tuple[Address, ...]:
        return (ip_address("127.0.0.1"),)

    async with serving(says("HTTP/1.1 200 OK\nContent-Length: 1", b"a"), context=server) as peer:
        right, wrong = (peer.url(host=host, scheme="https") for host in ("films.example", "other.example"))
        assert (await get(right, tmp_path / "a", resolve=inward, ssl_context=client)).size == 1
        with pytest.raises(FetchFailed, match="certificate"):
            await get(wrong, tmp_path / "b", resolve=inward, ssl_context=client)


async def test_redirect_from_https_to_http_is_blocked(tmp_path: Path) -> None:
    authority = trustme.CA()
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    async with serving(says("HTTP/1.1 200 OK\nContent-Length: 1", b"a")) as canary:
        async with serving(says(f"HTTP/1.1 301 Moved\nLocation: {canary.url()}"), context=server) as peer:
            with pytest.raises(BlockedAddress, match="https to http"):
                await get(peer.url(scheme="https"), tmp_path / "input", ssl_context=client)
        assert canary.accepted == 0
