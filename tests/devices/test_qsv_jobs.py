"""Jobs on GPUs whose plans prefer QSV, through the real service: they are done there, and leave it where it fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pipelines.devices import Device
from tests.devices.services import PICTURES, A, codes, devices_of, pictures, run, running, state, until, way
from tests.media import make_video
from tests.pipelines.gpus import CAPABILITIES, encodes, gpu
from tests.softva.rig import Rig
from transcoder.jobs import JobStatus

pytestmark = [pytest.mark.vaapi, pytest.mark.qsv]

QSV = "hardware decode, hardware filters, h264_qsv"
VAAPI = "hardware decode, hardware filters, h264_vaapi"
BITS: dict[str, Any] = {"codec": "h264", "height": 144, "rate_control": {"mode": "vbr", "bitrate": 300_000}}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("media") / "clip.mp4", size=(320, 256), seconds=1, gop=12)


def newer(rig: Rig, **qsv: Any) -> tuple[Device, ...]:
    """A GPU of a generation whose plans prefer QSV."""
    able = (*CAPABILITIES, encodes("h264", api="qsv", **qsv), encodes("hevc", api="qsv"))
    return (gpu(*able, id=A, path=rig.node(), generation="Alder Lake"),)


@pytest.mark.parametrize("sandbox", ["off", "auto"])
async def test_a_job_is_done_by_qsv(
    tmp_path: Path, rig: Rig, clip: Path, sandbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the runtime reads /sys, which for a rig is a folder that children in a sandbox may not see; nor the settings in it
    monkeypatch.setenv("SOFTVA_DEVICE_ID", hex(rig.gpus[0].device_id))
    monkeypatch.setenv("LIBVA_DRIVERS_PATH", f"{os.environ['LIBVA_DRIVERS_PATH']}:{rig.root}")
    async with running(tmp_path, rig, clip, devices=newer(rig), sandbox=sandbox) as service:
        if sandbox == "auto" and service.supervisor.layers.missing:
            pytest.skip("the kernel confines no children")
        job = await run(service, clip)
        assert (job.status, devices_of(job), way(job)) == (JobStatus.COMPLETED, [A], QSV)
        assert pictures(service, job) == PICTURES


async def test_options_that_the_runtime_refuses_lead_to_vaapi_and_say_so(tmp_path: Path, rig: Rig, clip: Path) -> None:
    """Look-ahead that was not measured: Intel's runtime refuses it here."""
    devices = newer(rig, look_ahead=("vbr",))
    async with running(tmp_path, rig, clip, devices=devices) as service:
        jobs = [await run(service, clip, outputs=[{"type": "mp4", "video": BITS}]) for _ in range(3)]
        assert {(job.status, way(job)) for job in jobs} == {(JobStatus.COMPLETED, VAAPI)}
        first, _, last = jobs
        assert (devices_of(first), codes(first)) == ([A, A], ["device_unsupported"])
        assert first.attempts[-1].reason.startswith("h264 failed in encode")
        assert "VAAPI's encoder" in first.attempts[-1].reason
        assert pictures(service, first) == PICTURES
        # after two jobs the breaker keeps the next from trying
        assert devices_of(last) == [A]
        assert last.plan is not None
        refused = {refusal["option"] for refusal in last.plan["refusals"]}
        assert "hardware encode of h264 (8 bit) by h264_qsv" in refused


async def test_without_the_rate_control_the_plan_is_vaapi_at_once(tmp_path: Path, rig: Rig, clip: Path) -> None:
    async with running(tmp_path, rig, clip, devices=newer(rig, rate_controls=("cqp",))) as service:
        job = await run(service, clip, outputs=[{"type": "mp4", "video": BITS}])
        assert (job.status, devices_of(job), way(job)) == (JobStatus.COMPLETED, [A], VAAPI)
        assert job.plan is not None
        (refusal,) = job.plan["refusals"]
        assert "h264_qsv has no rate control for vbr here" in refusal["reason"]


async def test_an_encoder_that_fails_through_both_ends_in_software(tmp_path: Path, rig: Rig, clip: Path) -> None:
    rig.fail("renderD128", "encode:*")
    async with running(tmp_path, rig, clip, devices=newer(rig)) as service:
        job = await run(service, clip)
        assert (job.status, devices_of(job)[-1]) == (JobStatus.COMPLETED, "software")
        ways = [attempt.reason for attempt in job.attempts]
        assert "VAAPI's encoder" in ways[1]
        assert pictures(service, job) == PICTURES


@pytest.mark.slow
async def test_a_runtime_that_hangs_costs_one_attempt(tmp_path: Path, rig: Rig, clip: Path) -> None:
    rig.fail("renderD128", "hang:encode:5")
    async with running(tmp_path, rig, clip, devices=newer(rig), canary_timeout_seconds=3.0) as service:
        job = await run(service, clip)
        assert (job.status, devices_of(job), codes(job)) == (JobStatus.COMPLETED, [A, "software"], ["stalled"])
        assert state(service, A).state == "quarantined"
        rig.fail("renderD128", "")
        await until(lambda: state(service, A).state == "ready")
        assert way(await run(service, clip)) == QSV
