"""Downloads from real servers on loopback, each answering one way."""

from __future__ import annotations

import ssl
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
import trustme

from tests.transcoder.fixtures_peers import get, says, serving
from tests.transcoder.test_fetch_addresses import HOSTILE
from transcoder.network.addresses import Address, BlockedAddress
from transcoder.network.fetch import FetchedFile, FetchFailed


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
