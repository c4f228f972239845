"""Children that crash, hang, eat memory or lie, in a service with two slots: their jobs end so, others don't notice."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from pipelines.spec import FileJob
from tests.media import make_audio, make_video
from tests.transcoder.stubs import ended, give_upload, settings_for, software
from transcoder.children.sandbox import SandboxPolicy
from transcoder.children.supervise import Supervisor
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service
from transcoder.storage import Storage

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).parent.parent.parent
ENCODED = [
    ("h264", "mp4"),
    ("av1", "mkv"),
    pytest.param("hevc", "mp4", marks=pytest.mark.slow),
    pytest.param("vp9", "webm", marks=pytest.mark.slow),
]
FLAC: dict[str, Any] = {"type": "audio", "audio": {"codec": "flac"}}


@asynccontextmanager
async def service_in(
    folder: Path,
    *,
    memory_bytes: int = 2 << 30,
    ops: str = "tests.transcoder.stand_in_ops",
    fsync: Callable[[int], None] = os.fsync,
    **changes: Any,
) -> AsyncIterator[Service]:
    settings = settings_for(folder, **changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        async with Service(
            settings,
            supervisor=Supervisor(ops=ops, sandbox=SandboxPolicy("auto", memory_bytes)),
            devices=[software(2)],
            storage=Storage(settings.data_dir, max_upload_bytes=settings.max_upload_bytes, fsync=fsync),
        ) as service:
            yield service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    async with service_in(tmp_path_factory.mktemp("service"), memory_bytes=8 << 30) as running:
        yield running


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_audio(tmp_path_factory.mktemp("sound") / "a.wav", seconds=Fraction(1, 5)).read_bytes()


async def submit(service: Service, content: bytes, *, output: dict[str, Any] = FLAC, **spec: Any) -> str:
    upload = await give_upload(service, content)
    asked = FileJob.model_validate({"input": {"upload": upload.id}, "outputs": [output], **spec})
    job, _ = await service.submit(asked)
    return job.id


async def run(service: Service, content: bytes, **spec: Any) -> Job:
    return await ended(service, await submit(service, content, **spec), seconds=60)


async def assert_unharmed(service: Service, sound: bytes) -> None:
    job = await run(service, sound)
    assert job.status is JobStatus.COMPLETED, job.error
    assert (await service.healthy()).ready
    assert [device.busy for device in service.devices()] == [0]
    assert list((service.storage.data_dir / "work").iterdir()) == []


@pytest.mark.slow
async def test_child_that_aborts_poisons_its_job_after_three_attempts_and_no_other(
    service: Service, sound: bytes
) -> None:
    poison = await submit(service, sound, metadata={"fault": "abort"})
    others = [await submit(service, sound) for _ in range(4)]
    job = await ended(service, poison, seconds=60)

    assert (job.status, job.error and job.error.code) == (JobStatus.FAILED, "poisoned")
    assert [attempt.error and attempt.error.code for attempt in job.attempts][:2] == ["crashed", "crashed"]
    assert len(job.attempts) == 3
    for other in others:
        assert (await ended(service, other, seconds=60)).status is JobStatus.COMPLETED
    await assert_unharmed(service, sound)


@pytest.mark.slow
async def test_child_that_hangs_is_stalled_while_others_run(tmp_path: Path, sound: bytes) -> None:
    async with service_in(tmp_path, stall_seconds=3.0) as service:
        hanging = await submit(service, sound, metadata={"fault": "hang"})
        assert (await run(service, sound)).status is JobStatus.COMPLETED
        job = await ended(service, hanging, seconds=30)

        assert (job.status, job.error and job.error.code) == (JobStatus.FAILED, "stalled")
        await assert_unharmed(service, sound)


@pytest.mark.slow
async def test_child_that_hangs_is_ended_at_the_deadline_of_its_job(service: Service, sound: bytes) -> None:
    began = time.monotonic()
    job = await run(service, sound, metadata={"fault": "hang"}, timeout_seconds=1)

    assert job.error is not None
    assert job.error.code == "timeout"
    assert time.monotonic() - began < 5
    await assert_unharmed(service, sound)


async def test_child_that_hangs_is_cancelled_within_a_second(service: Service, sound: bytes) -> None:
    job_id = await submit(service, sound, metadata={"fault": "hang"})
    async with service.events.subscribe(job_id) as events:
        while (await service.get(job_id)).status is not JobStatus.RUNNING:
            await anext(events)
    began = time.monotonic()
    job = await service.cancel(job_id)

    assert job.status is JobStatus.CANCELLED
    assert time.monotonic() - began < 1
    await assert_unharmed(service, sound)


@pytest.mark.slow
async def test_memory_beyond_the_limit_is_oom(tmp_path: Path, sound: bytes) -> None:
    large = make_video(tmp_path / "large.mkv", size=(3840, 2160), audio=(), seconds=Fraction(1, 5)).read_bytes()
    async with service_in(tmp_path, memory_bytes=220 << 20) as service:
        job = await run(service, large, output={"type": "mp4", "video": {"speed": "ultrafast"}})

        assert (job.status, job.error and job.error.code) == (JobStatus.FAILED, "oom"), job.error
        assert len(job.attempts) == 1
        await assert_unharmed(service, sound)


@pytest.mark.parametrize(
    "fault",
    [
        "link",
        "claim upwards",
        "claim absolute",
        "claim a folder",
        "claim nothing",
        "claim the planted link",
        "claim below a link",
    ],
)
async def test_child_that_lies_about_its_outputs_publishes_nothing(
    service: Service, sound: bytes, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links are planted by the parent here, as children can make none."""
    (service.storage.data_dir / "uploads" / "secret").write_text("secret")
    execute = service.supervisor.execute

    async def with_links(task: Any, **more: Any) -> dict[str, Any]:
        (Path(task.payload["folder"]) / "planted.mp4").symlink_to("/etc/hostname")
        (Path(task.payload["folder"]) / "linked").symlink_to("/etc")
        return await execute(task, **more)

    monkeypatch.setattr(service.supervisor, "execute", with_links)
    job = await run(service, sound, metadata={"fault": fault})
    monkeypatch.undo()

    assert job.status is JobStatus.FAILED, fault
    assert job.outputs == ()
    assert not service.storage.depot.output_folder(job.id, 1).parent.exists()
    assert (service.storage.data_dir / "uploads" / "secret").read_text() == "secret"
    await assert_unharmed(service, sound)


@pytest.mark.slow
async def test_output_whose_sync_fails_is_never_called_completed(tmp_path: Path, sound: bytes) -> None:
    """At whichever call it fails."""
    fail_at = 0
    calls = 0

    def fsync(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == fail_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fsync(descriptor)

    async with service_in(tmp_path, fsync=fsync, max_attempts=1) as service:
        upload = await give_upload(service, sound)
        asked = FileJob.model_validate({"input": {"upload": upload.id}, "outputs": [FLAC]})
        calls = 0
        job, _ = await service.submit(asked)
        assert (await ended(service, job.id, seconds=30)).status is JobStatus.COMPLETED
        needed = calls
        assert needed >= 3

        for nth in range(1, needed + 1):
            fail_at, calls = nth, 0
            job, _ = await service.submit(asked)
            failed = await ended(service, job.id, seconds=30)
            assert (failed.status, failed.error and failed.error.code) == (JobStatus.FAILED, "output_failed")
            assert not service.storage.depot.output_folder(job.id, 1).parent.exists()
        fail_at = 0
        await assert_unharmed(service, sound)


@pytest.mark.slow
@pytest.mark.parametrize(("codec", "kind"), ENCODED)
async def test_every_encoder_works_in_the_sandbox(
    service: Service, tmp_path: Path, sound: bytes, codec: str, kind: str
) -> None:
    clip = make_video(tmp_path / "a.mkv", size=(320, 180), seconds=1).read_bytes()
    job = await run(service, clip, output={"type": kind, "video": {"codec": codec}})

    assert job.status is JobStatus.COMPLETED, job.error
    await assert_unharmed(service, sound)
