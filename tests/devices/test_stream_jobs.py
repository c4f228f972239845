"""Streams on GPUs through the real service and real children: a GPU that fails costs a step, the stream goes on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from fractions import Fraction
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from pipelines.asked.streams import StreamJob
from pipelines.live.stats import LiveStats
from tests.devices.services import WHOLE, A, B, codes, devices_of, running, state, until, way
from tests.media import make_video
from tests.pipelines.live.rig import is_rising, played
from tests.softva.rig import Rig
from transcoder.errors import ServiceError
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service

pytestmark = pytest.mark.vaapi

LOOPBACK = (ip_network("127.0.0.0/8"),)
HLS = {"type": "hls", "segment_seconds": 1, "window_seconds": 30, "video": {"height": 144, "codec": "h264"}}
SECONDS = 60
DATAGRAM = 7 * 188


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("media") / "clip.ts"
    options = {"preset": "ultrafast", "tune": "zerolatency"}
    return make_video(path, size=(320, 256), seconds=Fraction(SECONDS), gop=12, options=options)


@asynccontextmanager
async def camera(clip: Path) -> AsyncGenerator[str, None]:
    """Sends the clip at its pace to an address of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        address = probe.getsockname()
    data = clip.read_bytes()

    async def send() -> None:
        loop = asyncio.get_running_loop()
        began, at = loop.time(), 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while at < len(data):
                due = int(len(data) * (loop.time() - began) / SECONDS)
                while at < min(due, len(data)):
                    sender.sendto(data[at : at + DATAGRAM], address)
                    at += DATAGRAM
                await asyncio.sleep(0.02)

    sending = asyncio.create_task(send())
    try:
        yield f"udp://127.0.0.1:{address[1]}"
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def streamed(service: Service, url: str, *, attempts: int, seconds: float = 3, **more: Any) -> Job:
    """The stream, stopped once it was live for so many seconds in the last of so many attempts."""
    spec = StreamJob.model_validate(
        {"kind": "stream", "input": {"url": url, "read_seconds": 5}, "outputs": [HLS], "force": True, **more}
    )
    job, _ = await service.submit(spec)

    async def get() -> Job:
        return await service.get(job.id)

    async with asyncio.timeout(60):
        while True:
            now = await get()
            if now.status.ended:
                return now
            stats = now.stats
            live = isinstance(stats, LiveStats) and stats.out_time >= seconds
            if live and len(now.attempts) >= attempts and any(output.bytes for output in stats.outputs):
                break
            await asyncio.sleep(0.05)
    return await service.streams.stop(job.id, "default", get)


def segments(service: Service, job: Job) -> list[float]:
    """Decode times of the pictures in the playlist."""
    return [dts for _, dts in played(service.storage.live_folder(job.id) / "v0.m3u8")["video"]]


async def test_a_stream_takes_a_gpu_and_says_how(tmp_path: Path, rig: Rig, clip: Path) -> None:
    async with camera(clip) as url, running(tmp_path, rig, clip, allowed_networks=LOOPBACK) as service:
        job = await streamed(service, url, attempts=1)
        assert (job.status, devices_of(job), way(job)) == (JobStatus.COMPLETED, [A], WHOLE)
        assert job.plan is not None
        assert [step["placement"] for step in job.plan["decode"]] == ["hardware"]
        assert "on the GPU" in job.plan["video"]["v0"]["reason"]
        assert is_rising(segments(service, job))
    assert (rig.log.downloads(), rig.log.uploads()) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpus", "devices", "last"), [(1, [A, "software"], "software"), (2, [A, B], WHOLE)], ids=["software", "another GPU"]
)
async def test_a_driver_that_fails_in_mid_stream_costs_one_step(
    tmp_path: Path, rig: Rig, clip: Path, gpus: int, devices: list[str], last: str
) -> None:
    rig.fail("renderD128", "decode:40+ encode:40+ vpp:40+")
    async with camera(clip) as url, running(tmp_path, rig, clip, gpus=gpus, allowed_networks=LOOPBACK) as service:
        job = await streamed(service, url, attempts=2)
        assert job.status is JobStatus.COMPLETED
        assert codes(job)[0] == "device_fault"
        assert [
            device for number, device in enumerate(devices_of(job)) if device not in devices_of(job)[:number]
        ] == devices
        assert "failed" in job.attempts[-1].reason
        assert last in job.attempts[-1].reason
        text = (service.storage.live_folder(job.id) / "v0.m3u8").read_text()
        assert text.count("#EXT-X-DISCONTINUITY\n") >= 1
        assert is_rising(segments(service, job))


@pytest.mark.slow
@pytest.mark.parametrize(("rules", "code"), [("crash:encode:20", "crashed"), ("hang:encode:20", "stalled")])
async def test_a_driver_that_crashes_or_hangs_costs_one_attempt(
    tmp_path: Path, rig: Rig, clip: Path, rules: str, code: str
) -> None:
    # early enough for the canary to meet the same
    rig.fail("renderD128", rules)
    async with (
        camera(clip) as url,
        running(tmp_path, rig, clip, allowed_networks=LOOPBACK, canary_timeout_seconds=3.0) as service,
    ):
        job = await streamed(service, url, attempts=2)
        assert (job.status, devices_of(job), codes(job)) == (JobStatus.COMPLETED, [A, B], [code])
        assert way(job) == WHOLE
        assert state(service, A).state == "quarantined"
        rig.fail("renderD128", "")
        await until(lambda: state(service, A).state == "ready")


async def test_copies_take_no_gpu(tmp_path: Path, rig: Rig, clip: Path) -> None:
    async with camera(clip) as url, running(tmp_path, rig, clip, allowed_networks=LOOPBACK) as service:
        job = await streamed(service, url, attempts=1, outputs=[{"type": "hls", "video": "copy", "segment_seconds": 1}])
        assert (job.status, devices_of(job)) == (JobStatus.COMPLETED, ["software"])


async def test_hardware_policy_is_kept(tmp_path: Path, rig: Rig, clip: Path) -> None:
    rig.fail("renderD128", "encode:*")
    async with camera(clip) as url, running(tmp_path, rig, clip, gpus=1, allowed_networks=LOOPBACK) as service:
        job = await streamed(service, url, attempts=9, device={"policy": "hardware"})
        assert (job.status, set(devices_of(job))) == (JobStatus.FAILED, {A})
        assert job.error is not None
        assert (job.error.code, job.error.stage) == ("device_fault", "encode")


async def test_no_gpu_for_who_asks_for_one_is_said_at_once(tmp_path: Path, rig: Rig, clip: Path) -> None:
    async with running(tmp_path, rig, clip, gpus=0) as service:
        spec = StreamJob.model_validate(
            {
                "kind": "stream",
                "input": {"url": "udp://127.0.0.1:5000"},
                "outputs": [HLS],
                "device": {"policy": "hardware"},
            }
        )
        with pytest.raises(ServiceError, match="hardware"):
            await service.submit(spec)
