"""What the service makes of streams' URLs, playlists and protocols, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.asked.streams import StreamJob
from pipelines.live.link import ConnectFailed
from transcoder.network.addresses import BlockedAddress
from transcoder.streams.datagrams import rtp_payload
from transcoder.streams.dial import Dialer
from transcoder.streams.hls_pull import best_variant, parse_media, pull
from transcoder.streams.listening import ListenDisabled, Listener, Ports
from transcoder.streams.rtmp import amf
from transcoder.streams.rtmp.chunks import AUDIO, ChunkReader, Message, ProtocolError, chunked
from transcoder.streams.rtmp.client import FlvTags, split_path
from transcoder.streams.secrets import StreamSecrets, without_secrets
from transcoder.streams.urls import masked, parse_stream_url

SECRET = "hunter2secret"


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("rtsp://cam.example/a?b=1", ("rtsp", "cam.example", 554, "/a?b=1", None, None)),
        ("rtsp://u%40x:p%3Aw@10.0.0.1:8554/a", ("rtsp", "10.0.0.1", 8554, "/a", "u@x", "p:w")),
        ("udp://@239.1.1.1:5000", ("udp", "239.1.1.1", 5000, "", None, None)),
        ("srt://[2001:db8::1]:9000?streamid=x", ("srt", "2001:db8::1", 9000, "/?streamid=x", None, None)),
        ("RTMP://Live.Example/app/key", ("rtmp", "live.example", 1935, "/app/key", None, None)),
    ],
)
def test_urls_are_taken_apart(url: str, parts: tuple[Any, ...]) -> None:
    found = parse_stream_url(url)
    assert (found.scheme, found.host, found.port, found.path, found.username, found.password) == parts


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "rtsp://h/a\r\nX: y", "rtsp://0x7f.1/a", "rtsp://2130706433/", "tcp://h:1", "udp://h",
        "udp://127.0.0.1:1/x", "rtsp://h:0/", "rtsp://h:99999/", "rtsp:h", "rtsp://u%0d:p@h/", "concat:a", "rtsp://",
    ],
)  # fmt: skip
def test_odd_urls_are_refused(url: str) -> None:
    with pytest.raises(BlockedAddress):
        parse_stream_url(url)


@pytest.mark.parametrize(
    ("url", "pushed"),
    [
        (f"rtsp://admin:{SECRET}@10.0.0.1/a", False),
        (f"https://h/x.m3u8?token={SECRET}&a=1", False),
        (f"rtmp://a.example/live2/{SECRET}", True),
        (f"srt://h:1?streamid={SECRET}&passphrase={SECRET}", True),
    ],
)
def test_secrets_in_urls_are_not_shown(url: str, pushed: bool) -> None:
    shown = masked(url, pushed=pushed)
    assert SECRET not in shown
    assert "admin" not in shown
    parse_stream_url(shown)


def test_a_stored_job_says_nothing_secret_and_is_still_a_job() -> None:
    job = StreamJob.model_validate(
        {
            "kind": "stream",
            "input": {"listen": {"protocol": "srt", "passphrase": SECRET}},
            "outputs": [{"type": "push", "url": f"rtmp://h.example/app/{SECRET}"}, {"type": "hls"}],
        }
    )
    stored = without_secrets(job)
    assert SECRET not in stored.model_dump_json()
    assert StreamJob.model_validate(stored.model_dump(mode="json")) == stored
    secrets = StreamSecrets.from_json(StreamSecrets.of(job).to_json())
    assert (secrets.passphrase, secrets.pushes) == (SECRET, {"push": f"rtmp://h.example/app/{SECRET}"})


@pytest.mark.parametrize(
    "url",
    [
        "udp://127.0.0.1:5000", "udp://0.0.0.0:5000", "udp://239.1.1.1:5000", "rtp://name.example:5000",
        "rtsp://127.0.0.1/a", "http://169.254.169.254/latest", "rtmp://[::1]/a/b", "srt://10.0.0.1:9000",
    ],
)  # fmt: skip
async def test_private_addresses_are_for_the_operator_to_allow(url: str) -> None:
    with pytest.raises(BlockedAddress):
        await Dialer(allowed_networks=()).dial(parse_stream_url(url), sends=False)


@pytest.mark.parametrize("url", ["udp://239.1.1.1:5000", "udp://192.168.1.1:5000", "rtmp://127.0.0.1/a/b"])
async def test_pushes_go_through_the_same_guard(url: str) -> None:
    with pytest.raises(BlockedAddress):
        await Dialer(allowed_networks=()).dial(parse_stream_url(url), sends=True)


async def test_unspecified_addresses_are_not_received_at_even_where_all_is_allowed() -> None:
    dialer = Dialer(allowed_networks=(ip_network("0.0.0.0/0"),))
    with pytest.raises(BlockedAddress):
        await dialer.dial(parse_stream_url("udp://0.0.0.0:5000"), sends=False)


def test_publishers_are_taken_only_where_there_are_ports() -> None:
    job = StreamJob.model_validate(
        {"kind": "stream", "input": {"listen": {"key": SECRET}}, "outputs": [{"type": "hls"}]}
    )
    assert job.input.listen is not None
    with pytest.raises(ListenDisabled):
        Listener(Ports(), job.input.listen, StreamSecrets()).open()
    listeners = [Listener(Ports(numbers=(0,)), job.input.listen, StreamSecrets()) for _ in range(2)]
    try:
        for listener in listeners:
            listener.open()
        assert len({listener.port for listener in listeners}) == 2
    finally:
        for listener in listeners:
            listener.close()


MASTER = """#EXTM3U
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="x",URI="a.m3u8"
#EXT-X-STREAM-INF:BANDWIDTH=9000000,AUDIO="a"
apart.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=100
low.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=2000
sub/high.m3u8
"""


def test_the_best_variant_that_is_whole_is_taken() -> None:
    assert best_variant(MASTER, "https://h.example/x/i.m3u8") == "https://h.example/x/sub/high.m3u8"
    with pytest.raises(ConnectFailed):
        best_variant(MASTER.split("#EXT-X-STREAM-INF:BANDWIDTH=100\n")[0], "https://h.example/")


@pytest.mark.parametrize("line", ['#EXT-X-KEY:METHOD=AES-128,URI="k"', "#EXT-X-BYTERANGE:10@0"])
def test_playlists_that_can_not_be_followed_are_refused(line: str) -> None:
    with pytest.raises(ConnectFailed):
        parse_media(f"#EXTM3U\n{line}\n#EXTINF:1,\na.ts\n", "http://h.example/")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "concat:a|b", "gopher://h/x", "http://u:p@h/x"])
def test_a_playlist_leads_nowhere_but_to_http(target: str) -> None:
    with pytest.raises(BlockedAddress):
        parse_media(f"#EXTM3U\n#EXTINF:1,\n{target}\n", "http://h.example/")


async def test_segments_come_once_each_from_the_third_last_on() -> None:
    windows = iter([range(1, 8), range(2, 9), range(4, 10)])
    asked: list[str] = []

    @asynccontextmanager
    async def open_url(url: str) -> AsyncIterator[tuple[Any, Any]]:
        asked.append(url)
        if url.endswith("m3u8"):
            numbers = next(windows)
            lines = "".join(f"#EXTINF:0.5,\n{n}.ts\n" for n in numbers)
            end = "#EXT-X-ENDLIST\n" if numbers[-1] == 9 else ""
            text = f"#EXTM3U\n#EXT-X-TARGETDURATION:0.5\n#EXT-X-MEDIA-SEQUENCE:{numbers[0]}\n{lines}{end}"
            body = text.encode()
        else:
            body = url.rpartition("/")[2].encode() + b" "

        async def stream() -> AsyncIterator[bytes]:
            yield body

        yield SimpleNamespace(aiter_stream=stream), SimpleNamespace(url=url)

    # the first look is for variants
    first = range(1, 8)
    windows = iter([first, first, range(2, 9), range(4, 10)])
    got = b"".join([chunk async for chunk in pull("http://h.example/i.m3u8", open_url)])
    assert got.split() == [b"5.ts", b"6.ts", b"7.ts", b"8.ts", b"9.ts"]


def test_rtps_headers_are_taken_off() -> None:
    head = bytes([0x80, 33]) + (7).to_bytes(2) + bytes(8)
    assert rtp_payload(head + b"G" * 188) == (7, b"G" * 188)
    extended = bytes([0x91, 33]) + (8).to_bytes(2) + bytes(8) + bytes(4) + bytes([0, 0, 0, 1]) + bytes(4)
    assert rtp_payload(extended + b"G") == (8, b"G")
    assert rtp_payload(bytes([0x80, 96]) + bytes(20)) is None
    assert rtp_payload(b"G" * 188) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 0xFFFFFFFF), st.binary(max_size=700), st.integers(1, 400)), min_size=1, max_size=8
    )
)
def test_messages_survive_their_cutting_into_chunks(messages: list[tuple[int, bytes, int]]) -> None:
    async def read() -> list[Message]:
        reader = asyncio.StreamReader()
        for moment, body, size in messages:
            reader.feed_data(chunked(Message(1, 0, 0, size.to_bytes(4)), lane=2, size=_size()))
            sizes.append(size)
            reader.feed_data(chunked(Message(AUDIO, 1, moment, body), lane=4, size=size))
        reader.feed_eof()
        chunks = ChunkReader(reader)
        return [await chunks.message() for _ in messages]

    sizes = [128]
    _size: Callable[[], int] = lambda: sizes[-1]  # noqa: E731
    assert [(m.timestamp, m.body) for m in asyncio.run(read())] == [(moment, body) for moment, body, _ in messages]


@given(st.binary(max_size=400))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    async def read() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        chunks = ChunkReader(reader)
        while True:
            values = amf.Reader((await chunks.message()).body)
            while not values.is_empty:
                values.value()

    with pytest.raises((ProtocolError, amf.Malformed, asyncio.IncompleteReadError)):
        asyncio.run(read())


def test_values_survive_amf() -> None:
    values = ["connect", 1.0, None, True, {"app": "live", "n": 2.5}]
    reader = amf.Reader(amf.encode(*values))
    assert [reader.value() for _ in values] == values
    assert reader.is_empty


@given(st.lists(st.integers(1, 50), min_size=1, max_size=10))
def test_tags_of_flv_are_found_however_they_come(cuts: list[int]) -> None:
    body = b"\x27\x01" + bytes(30)
    tag = bytes([9]) + len(body).to_bytes(3) + bytes([0x01, 0x02, 0x03, 0x04]) + bytes(3) + body + bytes(4)
    data = b"FLV\x01\x05\x00\x00\x00\x09" + bytes(4) + tag * 5
    tags, found, at = FlvTags(), [], 0
    for cut in [*cuts, len(data)]:
        found += tags.feed(data[at : at + cut], 1)
        at += cut
    assert [(m.kind, m.timestamp, m.body) for m in found] == [(9, 0x04010203, body)] * 5


def test_a_stream_keys_query_stays_with_it() -> None:
    assert split_path("/live2/a/key?x=1") == ("live2/a", "key?x=1")
