"""Cameras of RTSP that send in datagrams."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.asked.streams import StreamInput
from tests.transcoder.stream_peers import played_frames, rtsp_camera
from tests.transcoder.test_stream_service import COPIED, HLS, bytes_of, serving
from transcoder.streams.rtsp_udp import WINDOW, Reorder


def packet(number: int) -> bytes:
    return b"\x80\x60" + (number & 0xFFFF).to_bytes(2) + bytes(8) + b"payload"


def numbers(packets: list[bytes]) -> list[int]:
    return [int.from_bytes(each[2:4]) for each in packets]


@given(st.integers(0, 0xFFFF), st.lists(st.integers(0, 5), min_size=20, max_size=60))
def test_packets_that_overtake_each_other_come_in_order_and_once(start: int, delays: list[int]) -> None:
    order = Reorder()
    assert numbers(order.take(packet(start))) == [start]
    late = sorted(range(1, len(delays)), key=lambda number: number + delays[number])
    got = [each for number in late for _ in range(2) for each in order.take(packet(start + number))]
    assert numbers(got) == [(start + number) & 0xFFFF for number in range(1, len(delays))]


def test_a_lost_packet_is_waited_for_only_so_long() -> None:
    order = Reorder()
    order.take(packet(0))
    got = [numbers(order.take(packet(number))) for number in range(2, 30)]
    assert got[: WINDOW - 1] == [[]] * (WINDOW - 1)
    assert [each for group in got for each in group] == list(range(2, 30))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x00" * 20])
def test_what_is_no_packet_is_left_out(data: bytes) -> None:
    assert Reorder().take(data) == []


@pytest.mark.parametrize("url", ["rtsps://camera.example/1", "rtmp://server.example/live/a", "udp://192.0.2.1:5000"])
def test_datagrams_are_asked_of_plain_rtsp_alone(url: str) -> None:
    with pytest.raises(ValidationError, match="udp is a transport of rtsp"):
        StreamInput(url=url, transport="udp")


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["udp", "auto"])
async def test_a_camera_that_sends_in_datagrams_alone_is_recorded(tmp_path: Path, transport: str) -> None:
    with rtsp_camera("udp") as url:
        async with serving(tmp_path) as streams:
            source = {"url": url, "transport": transport, "reconnect": {"first_seconds": 0.2}}
            record = {"type": "record", "segment_seconds": 2}
            job_id = await streams.submit(source, {**HLS, **COPIED}, record)
            await streams.published(job_id)
            await streams.until(job_id, lambda job: bytes_of(job, "record") > 0)
            assert (await streams.stop(job_id))["status"] == "completed"
    recorded = sorted((tmp_path / "data" / "outputs" / job_id / "live" / "record").glob("*.mp4"))
    assert await asyncio.to_thread(played_frames, str(recorded[0]), 20) > 10
