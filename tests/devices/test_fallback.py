"""Jobs on GPUs that fail, through the real service and real children: each fault costs its step and nothing else."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.devices.services import (
    PICTURES,
    WHOLE,
    A,
    B,
    codes,
    devices_of,
    pictures,
    run,
    running,
    state,
    until,
    way,
)
from tests.media import make_video
from tests.pipelines.gpus import gpu
from tests.softva.rig import Rig
from tests.transcoder.stubs import settings_for
from transcoder.jobs import JobStatus
from transcoder.service import Service

pytestmark = pytest.mark.vaapi


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("media") / "clip.mp4", size=(320, 256), seconds=1, gop=12)


async def test_whole_job_on_the_gpu(tmp_path: Path, rig: Rig, clip: Path) -> None:
    async with running(tmp_path, rig, clip) as service:
        job = await run(service, clip)
        assert (job.status, devices_of(job), way(job)) == (JobStatus.COMPLETED, [A], WHOLE)
        assert pictures(service, job) == PICTURES


@pytest.mark.parametrize(
    ("rules", "stage", "ways"),
    [
        ("vpp:5+", "filter", ["hardware decode, software filters, h264_vaapi"]),
        ("decode:9+", "decode", ["software decode, software filters, h264_vaapi"]),
    ],
)
async def test_fault_of_a_stage_costs_one_step(
    tmp_path: Path, rig: Rig, clip: Path, rules: str, stage: str, ways: list[str]
) -> None:
    rig.fail("renderD128", rules)
    async with running(tmp_path, rig, clip, gpus=1) as service:
        job = await run(service, clip)
        assert (job.status, devices_of(job), way(job)) == (JobStatus.COMPLETED, [A, A], ways[0])
        (error,) = [attempt.error for attempt in job.attempts if attempt.error is not None]
        assert (error.code, error.stage, error.device) == ("device_fault", stage, A)
        assert pictures(service, job) == PICTURES
        assert state(service, A).state == "ready"


async def test_fault_of_the_encoder_goes_down_to_another_device(tmp_path: Path, rig: Rig, clip: Path) -> None:
    rig.fail("renderD128", "encode:4+")
    async with running(tmp_path, rig, clip) as service:
        job = await run(service, clip)
        assert (job.status, devices_of(job), way(job)) == (JobStatus.COMPLETED, [A, A, B], WHOLE)
        assert pictures(service, job) == PICTURES


async def test_all_that_fails_ends_in_software_and_the_next_job_is_whole(tmp_path: Path, rig: Rig, clip: Path) -> None:
    rig.fail("renderD128", "encode:*")
    async with running(tmp_path, rig, clip, gpus=1) as service:
        job = await run(service, clip)
        assert (job.status, devices_of(job)[-1]) == (JobStatus.COMPLETED, "software")
        assert pictures(service, job) == PICTURES
        rig.fail("renderD128", "")
        following = await run(service, clip)
        assert (devices_of(following), way(following)) == ([A], WHOLE)


@pytest.mark.slow
@pytest.mark.parametrize(("rules", "code"), [("crash:encode:5", "crashed"), ("hang:encode:5", "stalled")])
async def test_driver_that_crashes_or_hangs_costs_one_attempt_and_is_tested(
    tmp_path: Path, rig: Rig, clip: Path, rules: str, code: str
) -> None:
    rig.fail("renderD128", rules)
    async with running(tmp_path, rig, clip, canary_timeout_seconds=3.0) as service:
        job = await run(service, clip)
        assert (job.status, devices_of(job), codes(job)) == (JobStatus.COMPLETED, [A, B], [code])
        assert pictures(service, job) == PICTURES
        # the canary meets the same fault
        await until(lambda: "the last test failed" in (state(service, A).problem or ""))
        assert state(service, A).state == "quarantined"
        assert devices_of(await run(service, clip)) == [B]
        rig.fail("renderD128", "")
        await until(lambda: state(service, A).state == "ready")
        assert devices_of(await run(service, clip)) == [A]


@pytest.mark.slow
async def test_breaker_opens_and_its_canary_closes_it(tmp_path: Path, rig: Rig, clip: Path) -> None:
    rig.fail("renderD128", "decode:*")
    async with running(tmp_path, rig, clip, gpus=1, canary_pause_seconds=0.5) as service:
        jobs = [await run(service, clip) for _ in range(3)]
        assert [len(job.attempts) for job in jobs] == [2, 2, 1]
        assert {way(job) for job in jobs} == {"software decode, software filters, h264_vaapi"}
        rig.fail("renderD128", "")
        async with asyncio.timeout(30):
            while way(await run(service, clip)) != WHOLE:
                await asyncio.sleep(0.2)


async def test_no_contexts_left_is_no_fault(tmp_path: Path, rig: Rig, clip: Path) -> None:
    rig.set("renderD128", SOFTVA_MAX_CONTEXTS="2")
    async with running(tmp_path, rig, clip, gpus=1) as service:
        job = await run(service, clip)
        assert job.status is JobStatus.COMPLETED
        assert pictures(service, job) == PICTURES
        assert state(service, A).state == "ready"


async def test_two_devices_work_at_once_and_one_fails_alone(tmp_path: Path, rig: Rig, clip: Path) -> None:
    rig.fail("renderD129", "encode:*")
    async with running(tmp_path, rig, clip) as service:
        jobs = await asyncio.gather(*(run(service, clip) for _ in range(3)))
        assert {job.status for job in jobs} == {JobStatus.COMPLETED}
        assert [pictures(service, job) for job in jobs] == [PICTURES] * 3
        assert all(devices_of(job)[-1] in (A, "software") for job in jobs)


async def test_children_in_the_sandbox_reach_their_gpu(tmp_path: Path, rig: Rig, clip: Path) -> None:
    async with running(tmp_path, rig, clip, sandbox="auto") as service:
        if service.supervisor.layers.missing:
            pytest.skip("the kernel confines no children")
        job = await run(service, clip)
        assert (job.status, devices_of(job), way(job)) == (JobStatus.COMPLETED, [A], WHOLE)


async def test_hardware_policy_fails_rather_than_fall_back(tmp_path: Path, rig: Rig, clip: Path) -> None:
    rig.fail("renderD128", "encode:*")
    async with running(tmp_path, rig, clip, gpus=1) as service:
        job = await run(service, clip, device={"policy": "hardware"})
        assert (job.status, set(devices_of(job))) == (JobStatus.FAILED, {A})
        assert job.error is not None
        assert (job.error.code, job.error.stage) == ("device_fault", "encode")


@pytest.fixture
def display() -> Generator[str, None, None]:
    """An X server of this test's own."""
    if shutil.which("Xvfb") is None:
        pytest.skip("there is no Xvfb")
    read, write = os.pipe()
    with subprocess.Popen(["Xvfb", "-displayfd", str(write), "-nolisten", "tcp"], pass_fds=(write,)) as server:
        os.close(write)
        with os.fdopen(read) as told:
            yield f":{told.readline().strip()}"
        server.kill()


async def test_children_in_the_sandbox_reach_an_x_display(tmp_path: Path, rig: Rig, clip: Path, display: str) -> None:
    settings = settings_for(tmp_path, media_roots=(clip.parent,), sandbox="auto")
    async with Service(settings, devices=[gpu(id=f"display-{display}", path=display)]) as service:
        if service.supervisor.layers.missing:
            pytest.skip("the kernel confines no children")
        job = await run(service, clip, device={"policy": "hardware"})
        assert (job.status, codes(job), way(job)) == (JobStatus.COMPLETED, [], WHOLE)
