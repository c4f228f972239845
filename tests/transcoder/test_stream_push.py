"""Streams that are sent on to servers of RTSP."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from pathlib import Path

import pytest

from pipelines.errors import OutputFailed
from pipelines.live.rtp import description, parameter_sets
from pipelines.live.units import Track
from tests.transcoder.stream_peers import free_udp_port, played_frames, publisher, rtsp_recorder
from tests.transcoder.test_stream_service import COPIED, HLS, SECRET, SMALL, bytes_of, serving

SPS, PPS = bytes.fromhex("6742c00bd90283"), bytes.fromhex("68cb83cb20")
WITH_START_CODES = b"\0\0\0\1" + SPS + b"\0\0\0\1" + PPS
AS_IN_MP4 = b"\x01\x42\xc0\x0b\xff\xe1\0\x07" + SPS + b"\x01\0\x05" + PPS


def track(codec: str, extradata: bytes, **more: object) -> Track:
    kind = "video" if codec in ("h264", "hevc") else "audio"
    return Track(codec, kind, codec, Fraction(1, 48_000), None, extradata, channels=2, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("extradata", [WITH_START_CODES, AS_IN_MP4])
def test_parameter_sets_are_found_however_they_are_kept(extradata: bytes) -> None:
    assert list(parameter_sets(extradata)) == [SPS, PPS]


@pytest.mark.parametrize("extradata", [b"", b"\x01", AS_IN_MP4[:9], b"\0\0\1"])
def test_a_header_that_is_cut_off_has_fewer_of_them(extradata: bytes) -> None:
    assert len(list(parameter_sets(extradata))) <= 1


def test_a_description_says_what_a_decoder_needs() -> None:
    lines = description([track("h264", AS_IN_MP4), track("aac", bytes.fromhex("1190"), copied=True)]).split("\r\n")
    assert "a=fmtp:96 packetization-mode=1;sprop-parameter-sets=Z0LAC9kCgw==,aMuDyyA=;profile-level-id=42c00b" in lines
    assert "a=rtpmap:97 MPEG4-GENERIC/48000/2" in lines
    assert [line for line in lines if line.endswith("config=1190")]


def test_a_codec_that_is_not_described_is_refused() -> None:
    with pytest.raises(OutputFailed):
        description([track("hevc", b"")])


@pytest.mark.slow
async def test_a_server_of_rtsp_records_what_is_pushed_to_it(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.mkv"
    url = f"udp://127.0.0.1:{free_udp_port()}"
    with rtsp_recorder(recorded, SECRET) as target, publisher(f"{url}?pkt_size=1316", "mpegts"):
        async with serving(tmp_path) as streams:
            refused = {"type": "push", "name": "stranger", "url": target, **COPIED, "on_failure": "drop"}
            push = {"type": "push", "url": target.replace("://", f"://admin:{SECRET}@"), "video": SMALL}
            job_id = await streams.submit({"url": url}, {**HLS, **COPIED}, push, refused)
            await streams.until(job_id, lambda job: bytes_of(job, "push") > 40_000)
            job = await streams.until(job_id, lambda job: standing(job, "stranger") == "failed")
            assert standing(job, "push") == "live"
            assert "the server refused ANNOUNCE: 401" in str(job["stats"]["outputs"])
            assert SECRET not in (await streams.http.get(f"/v1/jobs/{job_id}")).text
            assert (await streams.stop(job_id))["status"] == "completed"
    assert await asyncio.to_thread(played_frames, str(recorded), 10) > 20


def standing(job: dict[str, object], name: str) -> str:
    stats = job["stats"]
    outputs = stats["outputs"] if isinstance(stats, dict) else []
    return next((str(each["state"]) for each in outputs if each["name"] == name), "")
