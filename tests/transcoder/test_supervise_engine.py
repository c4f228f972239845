"""The engine's operations in real children."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import av
import pytest
import pytest_asyncio

from pipelines.devices import software_device
from pipelines.errors import BadInput, Cancelled, LimitExceeded, PipelineError
from pipelines.limits import Limits
from pipelines.rendition import Plan
from pipelines.result import Progress, Result
from pipelines.source import SourceInfo
from pipelines.spec import FileJob
from tests.media import make_video
from tests.transcoder.processes import Listener
from transcoder.children.supervise import ChildTask, Supervisor

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEVICE = software_device(1).model_dump(mode="json")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def supervisor() -> AsyncIterator[Supervisor]:
    async with Supervisor() as supervisor:
        yield supervisor


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("media") / "clip.mkv", size=(320, 240), seconds=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def spec(**video: Any) -> dict[str, Any]:
    job = {"input": {"path": "clip"}, "outputs": [{"type": "mp4", "video": {"height": 120, **video}}]}
    return FileJob.model_validate(job).model_dump(mode="json")


def payload(path: Path, *, limits: Limits | None = None, **more: Any) -> dict[str, Any]:
    return {"path": str(path), "name": "clip", "limits": (limits or Limits()).model_dump(mode="json"), **more}


async def test_fork_server_has_one_thread(supervisor: Supervisor) -> None:
    """Threads do not survive a fork, but what they had locked stays locked."""
    assert len(os.listdir(f"/proc/{supervisor.server_pid}/task")) == 1


async def test_probe_gives_the_sources_facts(supervisor: Supervisor, clip: Path) -> None:
    result = await supervisor.execute(ChildTask("probe", payload(clip), 20.0))

    (video,) = SourceInfo.model_validate(result).video
    assert (video.width, video.height, video.codec) == (320, 240, "h264")


async def test_plan_is_made_without_running(supervisor: Supervisor, clip: Path) -> None:
    result = await supervisor.execute(ChildTask("plan", payload(clip, spec=spec(), device=DEVICE), 20.0))

    assert Plan.model_validate(result).outputs[0].path == "output.mp4"


async def test_run_writes_the_outputs_and_tells_plan_and_progress(
    supervisor: Supervisor, clip: Path, folder: Path
) -> None:
    listener = Listener()
    task = ChildTask("run", payload(clip, spec=spec(), device=DEVICE, folder=str(folder)), 30.0, 10.0, folder / "log")

    result = Result.model_validate(await supervisor.execute(task, on_event=listener))

    (output,) = result.outputs
    assert Plan.model_validate(await listener.planned).outputs[0].path == output.path
    assert Progress.model_validate(listener.of_kind("progress")[-1]).frames == 50
    with av.open(str(folder / output.path)) as written:
        assert written.streams.video[0].height == 120


async def test_what_is_no_media_is_bad_input(supervisor: Supervisor, tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("<html></html>")

    with pytest.raises(BadInput):
        await supervisor.execute(ChildTask("probe", payload(path), 20.0))


async def test_input_that_is_missing_names_no_path(supervisor: Supervisor, tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as caught:
        await supervisor.execute(ChildTask("probe", payload(tmp_path / "missing"), 20.0))

    assert str(tmp_path) not in caught.value.message


async def test_output_beyond_its_limit_is_limit_output(supervisor: Supervisor, clip: Path, folder: Path) -> None:
    task = ChildTask(
        "run",
        payload(clip, limits=Limits(max_output_bytes=5000), spec=spec(), device=DEVICE, folder=str(folder)),
        30.0,
    )

    with pytest.raises(LimitExceeded) as caught:
        await supervisor.execute(task)

    assert caught.value.code == "limit_output"


@pytest.mark.slow
async def test_transcode_is_cancelled_within_a_second(supervisor: Supervisor, tmp_path: Path, folder: Path) -> None:
    path = make_video(tmp_path / "long.mkv", size=(640, 360), seconds=20, options={"preset": "ultrafast"})
    listener, cancel = Listener(), asyncio.Event()
    slow = spec(height=None, speed="veryslow")
    task = ChildTask("run", payload(path, spec=slow, device=DEVICE, folder=str(folder)), 60.0)
    running = asyncio.create_task(supervisor.execute(task, on_event=listener, cancel=cancel))
    await listener.planned

    began = time.monotonic()
    cancel.set()
    with pytest.raises(Cancelled):
        await running

    assert time.monotonic() - began < 1.0
