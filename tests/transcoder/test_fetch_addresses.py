"""The address guard: what it lets through, and that no private address passes in any encoding."""

from __future__ import annotations

import asyncio
import time
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from transcoder.network.addresses import (
    Address,
    BlockedAddress,
    DnsTimeout,
    Resolve,
    is_allowed,
    look_up,
    parse_url,
    resolve_target,
)
from transcoder.settings import Settings

PRIVATE = [
    IPv4Network(network)
    for network in ("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
                    "192.168.0.0/16", "224.0.0.0/4", "240.0.0.0/4")
]  # fmt: skip

private_v4 = st.one_of([st.ip_addresses(v=4, network=network) for network in PRIVATE])

ENCODINGS = {
    "plain": lambda v4, host: v4,
    "mapped": lambda v4, host: IPv6Address((0xFFFF << 32) | int(v4)),
    "compatible": lambda v4, host: IPv6Address(int(v4)),
    "translated": lambda v4, host: IPv6Address((0xFFFF << 48) | int(v4)),
    "nat64": lambda v4, host: IPv6Address((0x64FF9B << 96) | int(v4)),
    "local nat64": lambda v4, host: IPv6Address((0x64FF9B0001 << 80) | int(v4)),
    "6to4": lambda v4, host: IPv6Address((0x2002 << 112) | (int(v4) << 80) | host),
    "teredo client": lambda v4, host: IPv6Address((0x20010000 << 96) | (0x08080808 << 64) | (int(v4) ^ 0xFFFFFFFF)),
    "teredo server": lambda v4, host: IPv6Address((0x20010000 << 96) | (int(v4) << 64) | (0x08080808 ^ 0xFFFFFFFF)),
    "isatap": lambda v4, host: IPv6Address((0x2A00_1450 << 96) | (0x0200_5EFE << 32) | int(v4)),
}

INTEGER_FORMS = {
    "decimal": lambda v4: str(int(v4)),
    "hex": lambda v4: hex(int(v4)),
    "octal": lambda v4: f"0{int(v4):o}",
    "dotted hex": lambda v4: ".".join(hex(byte) for byte in v4.packed),
    "dotted octal": lambda v4: ".".join(f"0{byte:o}" for byte in v4.packed),
    "two parts": lambda v4: f"{v4.packed[0]}.{int(v4) & 0xFFFFFF}",
    "three parts": lambda v4: f"{v4.packed[0]}.{v4.packed[1]}.{int(v4) & 0xFFFF}",
    "dotted": str,
    "trailing dot": lambda v4: f"{v4}.",
    "fullwidth": lambda v4: str(v4).translate({ord(c): ord(c) - 0x30 + 0xFF10 for c in "0123456789"}),
    "ideographic stops": lambda v4: str(v4).replace(".", "\u3002"),
    "mapped": lambda v4: f"[::ffff:{v4}]",
    "compatible": lambda v4: f"[::{v4}]",
    "nat64": lambda v4: f"[64:ff9b::{v4}]",
}


@given(v4=private_v4, encoding=st.sampled_from(sorted(ENCODINGS)), host=st.integers(0, (1 << 64) - 1))
def test_no_private_address_passes_in_any_encoding(v4: IPv4Address, encoding: str, host: int) -> None:
    assert not is_allowed(ENCODINGS[encoding](v4, host))


@given(v4=private_v4, form=st.sampled_from(sorted(INTEGER_FORMS)), scheme=st.sampled_from(["http", "https", "HTTP"]))
def test_no_private_host_passes_in_any_spelling(v4: IPv4Address, form: str, scheme: str) -> None:
    with pytest.raises(BlockedAddress):
        _addresses(f"{scheme}://{INTEGER_FORMS[form](v4)}/clip.mp4")


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_passes_only_in_the_allocated_space(v6: IPv6Address) -> None:
    if is_allowed(v6) and v6.ipv4_mapped is None:
        assert v6 in ip_network("2000::/3") or v6 in ip_network("64:ff9b::/96")


@pytest.mark.slow
@given(st.text(max_size=60))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"https://example.org/{text}"):
        try:
            target = parse_url(url)
        except BlockedAddress:
            continue
        assert target.scheme in ("http", "https")
        assert target.host.isascii()
        assert target.path.startswith("/")
        assert target.path.isascii()
        assert target.path.isprintable()
        assert parse_url(target.url) == target


HOSTILE = {
    "integer host": "http://2130706433/",
    "hex host": "http://0x7f.1/",
    "hex integer host": "http://0x7f000001/",
    "octal host": "http://0177.0.0.1/",
    "short host": "http://127.1/",
    "zero": "http://0/",
    "empty hex": "http://0x/",
    "unspecified": "http://0.0.0.0/",
    "broadcast": "http://255.255.255.255/",
    "multicast": "http://224.0.0.1/",
    "link-local metadata": "http://169.254.169.254/latest/",
    "carrier-grade NAT": "http://100.64.0.1/",
    "loopback": "http://127.0.0.1/",
    "loopback v6": "http://[::1]/",
    "unspecified v6": "http://[::]/",
    "mapped": "http://[::ffff:127.0.0.1]/",
    "mapped hex": "http://[::ffff:7f00:1]/",
    "compatible": "http://[::127.0.0.1]/",
    "nat64": "http://[64:ff9b::7f00:1]/",
    "6to4": "http://[2002:7f00:1::]/",
    "teredo": "http://[2001:0:808:808:0:0:80ff:fffe]/",
    "unique local": "http://[fd00::1]/",
    "link-local v6": "http://[fe80::1]/",
    "zone": "http://[fe80::1%25eth0]/",
    "site-local": "http://[fec0::1]/",
    "no slashes": "http:127.0.0.1",
    "one slash": "http:/127.0.0.1/",
    "three slashes": "http:///127.0.0.1/",
    "backslash": "http://example.org\\@127.0.0.1/",
    "backslashes": "http:\\\\127.0.0.1/",
    "user": "http://user@example.org/",
    "password": "http://user:secret@example.org/",
    "empty user": "http://@example.org/",
    "user that looks like the host": "http://example.org@127.0.0.1/",
    "line end": "http://example.org/\r\nHost: inside",
    "line end in the host": "http://example.org\r\n.inside/",
    "tab in the scheme": "ht\ttp://127.0.0.1/",
    "NUL": "http://example.org\x00.inside/",
    "leading space": " http://example.org/",
    "space": "http://example.org/a b",
    "delete": "http://example.org/\x7f",
    "non-breaking space": "http://example.org/\xa0",
    "percent in the host": "http://127%2e0.0.1/",
    "percent-encoded host": "http://%6c%6f%63alhost/",
    "file": "file:///etc/passwd",
    "ftp": "ftp://example.org/a",
    "gopher": "gopher://127.0.0.1:70/_",
    "data": "data:text/plain,hello",
    "concat": "concat:http://example.org/a",
    "subfile": "subfile,,start,0,end,1,,:/etc/passwd",
    "tcp listen": "tcp://0.0.0.0:99?listen=1",
    "udp": "udp://0.0.0.0:99",
    "no scheme": "example.org/a",
    "scheme-relative": "//example.org/a",
    "empty": "",
    "no host": "http://",
    "only a port": "http://:80/",
    "port 0": "http://example.org:0/",
    "port too high": "http://example.org:65536/",
    "port of letters": "http://example.org:8o/",
    "two ports": "http://example.org:80:81/",
    "signed port": "http://example.org:+80/",
    "arabic digits port": "http://example.org:\u0668\u0660/",
    "open bracket": "http://[::1/",
    "bracketed name": "http://[localhost]/",
    "empty label": "http://a..b/",
    "fullwidth": "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/",
    "circled digits": "http://\u2460\u2461\u2466.0.0.1/",
    "ideographic stops": "http://127\u30020\u30020\u30021/",
    "very long": "http://example.org/" + "a" * 9000,
    "long label": "http://" + "a" * 64 + ".org/",
}  # fmt: skip


@pytest.mark.parametrize("url", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_url_is_refused(url: str) -> None:
    with pytest.raises(BlockedAddress) as refused:
        _addresses(url)
    assert refused.value.code == "blocked_address"


PUBLIC = {
    "http://example.org": ("http", "example.org", 80, "/"),
    "HTTPS://Example.ORG./a/b?c=d#e": ("https", "example.org", 443, "/a/b?c=d"),
    "http://example.org:8080/ü?q=é": ("http", "example.org", 8080, "/%C3%BC?q=%C3%A9"),
    "http://example.org?x=1": ("http", "example.org", 80, "/?x=1"),
    "http://bücher.example/%20a": ("http", "xn--bcher-kva.example", 80, "/%20a"),
    "http://8.8.8.8/a|b": ("http", "8.8.8.8", 80, "/a%7Cb"),
    "http://[2606:4700:4700::1111]:81/": ("http", "2606:4700:4700::1111", 81, "/"),
    "http://my_host-1.example/": ("http", "my_host-1.example", 80, "/"),
}


@pytest.mark.parametrize("url", PUBLIC)
def test_ordinary_url_is_taken_apart(url: str) -> None:
    target = parse_url(url)
    assert (target.scheme, target.host, target.port, target.path) == PUBLIC[url]


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808", "2002:808:808::1"])
def test_public_address_is_allowed(address: str) -> None:
    assert is_allowed(ip_address(address))


def test_allowed_network_opens_what_is_in_it_in_every_encoding_and_nothing_else() -> None:
    cameras = (ip_network("192.168.0.0/16"),)
    assert is_allowed(ip_address("192.168.1.20"), cameras)
    assert is_allowed(ip_address("::ffff:192.168.1.20"), cameras)
    assert is_allowed(ip_address("64:ff9b::c0a8:114"), cameras)
    assert not is_allowed(ip_address("10.0.0.1"), cameras)
    assert not is_allowed(ip_address("::1"), cameras)
    assert is_allowed(ip_address("::1"), (ip_network("::1/128"),))


def test_unspecified_and_multicast_are_refused_although_every_network_is_allowed() -> None:
    everything = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    refused = ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "::ffff:0.0.0.0"]
    assert [address for address in refused if is_allowed(ip_address(address), everything)] == []
    assert is_allowed(ip_address("127.0.0.1"), everything)


async def test_one_private_answer_among_public_ones_refuses_the_name() -> None:
    async def resolve(host: str, port: int) -> tuple[Address, ...]:
        return ip_address("8.8.8.8"), ip_address("10.0.0.1")

    with pytest.raises(BlockedAddress) as refused:
        await resolve_target(
            parse_url("http://split.example/"), allowed_networks=(), timeout_seconds=1, resolve=resolve
        )
    assert "10.0.0.1" not in refused.value.message


async def test_name_without_any_answer_is_not_allowed_by_default() -> None:
    async def resolve(host: str, port: int) -> tuple[Address, ...]:
        return ()

    with pytest.raises(OSError, match="no address"):
        await resolve_target(
            parse_url("http://empty.example/"), allowed_networks=(), timeout_seconds=1, resolve=resolve
        )


async def test_silent_name_server_ends_as_dns_timeout() -> None:
    async def resolve(host: str, port: int) -> tuple[Address, ...]:
        await asyncio.Event().wait()
        return ()

    started = time.monotonic()
    with pytest.raises(DnsTimeout) as silent:
        await resolve_target(
            parse_url("http://silent.example/"), allowed_networks=(), timeout_seconds=0.05, resolve=resolve
        )
    assert silent.value.code == "dns_timeout"
    assert time.monotonic() - started < 2


async def test_localhost_resolves_inward_and_is_refused() -> None:
    assert all(address.is_loopback for address in await look_up("localhost", 80))
    with pytest.raises(BlockedAddress):
        await resolve_target(parse_url("http://localhost/"), allowed_networks=(), timeout_seconds=5)


async def test_trusted_host_is_reached_by_its_name_and_by_no_other() -> None:
    allowed = Settings(allowed_networks="192.168.7.0/24, Storage.internal").allowed_networks

    async def inward(host: str, port: int) -> tuple[Address, ...]:
        return (ip_address("10.0.0.9"),)

    async def reach(url: str, resolve: Resolve = inward) -> tuple[Address, ...]:
        return await resolve_target(parse_url(url), allowed_networks=allowed, timeout_seconds=1, resolve=resolve)

    assert await reach("http://STORAGE.internal:9000/clip.mp4") == (ip_address("10.0.0.9"),)
    for url in ("http://other.internal/", "http://x.storage.internal/", "http://10.0.0.9/"):
        with pytest.raises(BlockedAddress):
            await reach(url)

    async def everybody(host: str, port: int) -> tuple[Address, ...]:
        return (ip_address("224.0.0.1"),)

    with pytest.raises(BlockedAddress):
        await reach("http://storage.internal/", everybody)


@pytest.mark.parametrize(
    "entry", ["192.168.1.5/24", "http://storage", "storage:9000", "10.0.0.300", "a b", "*.internal"]
)
def test_entry_that_is_no_network_and_no_host_is_refused(entry: str) -> None:
    with pytest.raises(ValidationError, match="neither a network"):
        Settings(allowed_networks=entry)


def _addresses(url: str) -> tuple[Address, ...]:
    """The checked addresses of a URL whose host is a literal; a name resolves to loopback."""

    async def inward(host: str, port: int) -> tuple[Address, ...]:
        return (ip_address("127.0.0.1"),)

    return asyncio.run(resolve_target(parse_url(url), allowed_networks=(), timeout_seconds=1, resolve=inward))
