"""`transcoder run` on GPUs, but for their measuring."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pipelines.devices import software_device
from pipelines.errors import Cancelled, DeviceFault
from pipelines.opening.input import LocalFile
from pipelines.result import Result
from tests.media import make_video
from tests.pipelines.gpus import gpu
from tests.softva.rig import Rig
from transcoder.children.supervise import Supervisor
from transcoder.cli.choices import Choices
from transcoder.cli.gpu import Gpus
from transcoder.cli.options import job_for
from transcoder.cli.screen import Quiet
from transcoder.settings import Settings

pytestmark = pytest.mark.vaapi


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("media") / "clip.mp4", size=(320, 256), seconds=1)


@asynccontextmanager
async def machine(rig: Rig) -> AsyncGenerator[Gpus, None]:
    async with Supervisor() as supervisor:
        devices = (gpu(path=rig.node(0)), software_device(1))
        yield Gpus(devices, supervisor, Settings(), Quiet())


async def run(gpus: Gpus, clip: Path, out: Path, device: str = "auto", *, stopped: bool = False) -> Result:
    spec, _ = job_for(str(clip), out, None, Choices(height=144), device)
    stop = threading.Event()
    if stopped:
        stop.set()
    return await gpus.transcode(spec, LocalFile(path=clip, name=clip.name), out.parent, stop)


async def test_run_takes_the_gpu(tmp_path: Path, rig: Rig, clip: Path) -> None:
    async with machine(rig) as gpus:
        result = await run(gpus, clip, tmp_path / "out.mp4")
    assert result.outputs[0].renditions[0].encoder == "h264_vaapi"
    assert sum(event.name == "encode" for event in rig.log) == 25


async def test_run_says_what_failed_and_goes_on_in_software(
    tmp_path: Path, rig: Rig, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.fail("renderD128", "encode:*")
    async with machine(rig) as gpus:
        result = await run(gpus, clip, tmp_path / "out.mp4")
    assert (result.outputs[0].renditions[0].encoder, result.outputs[0].renditions[0].packets) == ("libx264", 25)
    told = capsys.readouterr().err
    assert "(device_fault)" in told
    assert ": software filters" in told
    assert told.rstrip().endswith(": software")


async def test_hardware_that_was_asked_for_fails_rather_than_fall_back(tmp_path: Path, rig: Rig, clip: Path) -> None:
    rig.fail("renderD128", "encode:*")
    async with machine(rig) as gpus:
        with pytest.raises(DeviceFault):
            await run(gpus, clip, tmp_path / "out.mp4", "hardware")


async def test_software_that_was_asked_for_leaves_the_gpu_alone(tmp_path: Path, rig: Rig, clip: Path) -> None:
    async with machine(rig) as gpus:
        result = await run(gpus, clip, tmp_path / "out.mp4", "software")
    assert result.outputs[0].renditions[0].encoder == "libx264"
    assert list(rig.log) == []


async def test_stop_ends_the_child(tmp_path: Path, rig: Rig, clip: Path) -> None:
    async with machine(rig) as gpus:
        with pytest.raises(Cancelled):
            await run(gpus, clip, tmp_path / "out.mp4", stopped=True)
