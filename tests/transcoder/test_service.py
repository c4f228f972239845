"""The service's calls, as the API makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pipelines.errors import PipelineError
from pipelines.presets import UnknownPreset
from pipelines.spec import FileJob, Input
from tests.media import make_video
from tests.transcoder.stubs import (
    StubExecutor,
    ended,
    give_upload,
    job_for,
    running_service,
    settings_for,
    software,
)
from transcoder.errors import (
    AlreadyRunning,
    Conflict,
    IdempotencyConflict,
    InputNotFound,
    InputUploadNotFound,
    JobNotFound,
    NoDevice,
    PathNotAllowed,
    ServiceUnavailable,
    UploadNotFound,
)
from transcoder.events import Event
from transcoder.jobs import Job, JobStatus
from transcoder.observer import Unobserved
from transcoder.service import Service
from transcoder.store import Idempotency


def path_job(path: Path | str) -> FileJob:
    return FileJob.model_validate({"input": {"path": str(path)}, "outputs": [{"type": "mp4"}]})


async def test_twenty_concurrent_submits_of_one_key_are_one_job(tmp_path: Path) -> None:
    executor = StubExecutor()
    async with running_service(tmp_path, executor) as service:
        spec, key = job_for(await give_upload(service)), Idempotency("order-17", "a" * 64)
        results = await asyncio.gather(*(service.submit(spec, idempotency=key) for _ in range(20)))
        assert len({job.id for job, _ in results}) == 1
        assert [created for _, created in results].count(True) == 1
        await ended(service, results[0][0].id)
        with pytest.raises(IdempotencyConflict):
            await service.submit(spec, idempotency=Idempotency("order-17", "b" * 64))
        assert len((await service.list()).items) == 1
    assert executor.runs == 1


async def test_preset_is_resolved_when_the_job_is_made(tmp_path: Path) -> None:
    async with running_service(tmp_path, slots=0) as service:
        upload = await give_upload(service)
        spec = FileJob.model_validate({"input": {"upload": upload.id}, "preset": "web-mp4"})
        job, _ = await service.submit(spec)
        assert (job.preset, job.spec.preset) == ("web-mp4", None)
        assert job.spec.outputs == service.presets["web-mp4"].outputs
        assert await service.get(job.id) == job
        unknown = FileJob.model_validate({"input": {"upload": upload.id}, "preset": "web-mp5"})
        with pytest.raises(UnknownPreset):
            await service.submit(unknown)


@pytest.mark.parametrize("device", [{"policy": "hardware"}, {"id": "gpu9"}])
async def test_job_that_no_device_can_run_is_refused_at_once(tmp_path: Path, device: dict[str, str]) -> None:
    async with running_service(tmp_path) as service:
        spec = job_for(await give_upload(service), device=device)
        with pytest.raises(NoDevice):
            await service.submit(spec)
        assert (await service.list()).items == ()


async def test_uploads_of_others_do_not_exist(tmp_path: Path) -> None:
    async with running_service(tmp_path, slots=0) as service:
        upload = await give_upload(service, tenant="a")
        with pytest.raises(InputUploadNotFound) as refused:
            await service.submit(job_for(upload), tenant="b")
        assert (refused.value.code, refused.value.http_status) == ("upload_not_found", 422)
        with pytest.raises(UploadNotFound) as missing:
            await service.get_upload(upload.id, "b")
        assert missing.value.http_status == 404
        job, _ = await service.submit(job_for(upload), tenant="a")
        with pytest.raises(Conflict):
            await service.delete_upload(upload.id, "a")
        await service.cancel(job.id, "a")
        await service.delete_upload(upload.id, "a")
        assert not service.storage.depot.upload_path(upload.id).exists()
        with pytest.raises(InputUploadNotFound):
            await service.retry(job.id, "a")


def link_out(root: Path, outside: Path) -> Path:
    (root / "link").symlink_to(outside)
    return root / "link" / "secret.mp4"


HOSTILE: dict[str, Callable[[Path, Path], Path | str]] = {
    "outside": lambda root, outside: outside / "secret.mp4",
    "dots": lambda root, outside: f"{root}/../{outside.name}/secret.mp4",
    "relative dots": lambda root, outside: f"../{outside.name}/secret.mp4",
    "link": link_out,
    "sibling with the same prefix": lambda root, outside: f"{root}-not/a.mp4",
    "device": lambda root, outside: "/dev/zero",
    "proc": lambda root, outside: "/proc/self/environ",
    "not there, outside": lambda root, outside: outside / "nothing",
    "nul": lambda root, outside: f"{root}/a\0.mp4",
    "empty": lambda root, outside: "",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_paths_outside_the_media_roots_are_refused(tmp_path: Path, name: str) -> None:
    root, outside = tmp_path / "media", tmp_path / "private"
    for folder in (root, outside):
        folder.mkdir()
    (outside / "secret.mp4").write_bytes(b"x")
    path = HOSTILE[name](root, outside)
    async with running_service(tmp_path, slots=0, media_roots=str(root)) as service:
        with pytest.raises((PathNotAllowed, InputNotFound)) as refused:
            await service.submit(path_job(path))
        assert isinstance(refused.value, PathNotAllowed) or name == "empty"


async def test_without_media_roots_no_path_is_allowed(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        with pytest.raises(PathNotAllowed):
            await service.submit(path_job("/etc/hostname"))


async def test_paths_in_a_media_root_run(tmp_path: Path) -> None:
    root = tmp_path / "media"
    (root / "deep").mkdir(parents=True)
    (root / "deep" / "a.mp4").write_bytes(b"x")
    (root / "inner").symlink_to(root / "deep")
    executor = StubExecutor()
    async with running_service(tmp_path, executor, media_roots=str(root)) as service:
        for path in (root / "deep" / "a.mp4", root / "inner" / "a.mp4", Path("deep/a.mp4")):
            job, _ = await service.submit(path_job(path))
            assert (await ended(service, job.id)).status is JobStatus.COMPLETED
        with pytest.raises(InputNotFound):
            await service.submit(path_job(root / "deep" / "b.mp4"))
    assert {task.payload["path"] for task in executor.tasks} == {str(root / "deep" / "a.mp4")}


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://user:pw@host/a", "http://a\r\nb/", "gopher://a/"])
async def test_urls_that_are_never_opened_are_refused_at_once(tmp_path: Path, url: str) -> None:
    async with running_service(tmp_path) as service:
        spec = FileJob.model_validate({"input": {"url": url}, "outputs": [{"type": "mp4"}]})
        with pytest.raises(PipelineError) as refused:
            await service.submit(spec)
        assert refused.value.code == "blocked_address"


@pytest.mark.slow
async def test_deleted_job_is_gone_with_its_files(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        await ended(service, job.id)
        assert service.storage.depot.output_folder(job.id, 1).exists()
        assert service.storage.log_path(job.id).exists()
        await service.delete(job.id)
        with pytest.raises(JobNotFound):
            await service.get(job.id)
        assert not service.storage.depot.output_folder(job.id, 1).parent.exists()
        assert not service.storage.log_path(job.id).exists()


async def test_running_job_is_not_deleted(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    async with running_service(tmp_path, executor) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        await executor.entered.wait()
        with pytest.raises(Conflict):
            await service.delete(job.id)


async def test_progress_is_live_and_soon_in_the_database(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    async with running_service(tmp_path, executor) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        await executor.entered.wait()
        live = await service.get(job.id)
        assert (live.progress, live.stats and live.stats.frames, live.plan) == (0.5, 1, {"device": "software"})
        (listed,) = (await service.list()).items
        assert listed.progress == 0.5
        async with asyncio.timeout(5):
            while (await service.store.get(job.id, "default")).progress != 0.5:
                await asyncio.sleep(0.05)


async def test_events_tell_a_jobs_life_in_order(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    assert executor.gate is not None
    async with running_service(tmp_path, executor, slots=0) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        seen: list[Event] = []
        async with service.events.subscribe(job.id) as events:
            await service.update_device("software", slots=1, draining=None)
            executor.gate.set()
            async for event in events:
                seen.append(event)
                if event.kind == "status" and JobStatus(event.data["status"]).ended:
                    break
    statuses = [event.data["status"] for event in seen if event.kind == "status"]
    assert statuses == ["running", "completed"]
    assert [event.data["status"] for event in seen if event.kind == "attempt"] == ["running", "completed"]
    assert [event.data["fraction"] for event in seen if event.kind == "progress"] == [0.5]
    assert next(event.data["text"] for event in seen if event.kind == "log") == "attempt 1 starts on software"
    Job.model_validate(seen[-1].data)


@dataclass
class Recorder(Unobserved):
    told: list[tuple[object, ...]] = field(default_factory=list)

    def job_finished(self, job: Job) -> None:
        self.told.append(("job", job.status))

    def attempt_started(self, device: str) -> None:
        self.told.append(("start", device))

    def attempt_finished(self, device: str, status: str, seconds: float) -> None:
        assert seconds >= 0
        self.told.append(("end", device, status))


async def test_what_happens_is_measured(tmp_path: Path) -> None:
    recorder = Recorder()
    settings = settings_for(tmp_path)
    async with Service(settings, supervisor=StubExecutor(), devices=[software(1)], observer=recorder) as service:
        upload = await give_upload(service)
        done, _ = await service.submit(job_for(upload))
        await ended(service, done.id)
        await service.update_device("software", slots=0, draining=None)
        waiting, _ = await service.submit(job_for(upload))
        await service.cancel(waiting.id)
    assert recorder.told == [
        ("start", "software"),
        ("end", "software", "completed"),
        ("job", JobStatus.COMPLETED),
        ("job", JobStatus.CANCELLED),
    ]


@pytest.mark.slow
async def test_two_services_never_share_a_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transcoder.cluster.sites.LOCK_SECONDS", 0.1)
    async with running_service(tmp_path) as service:
        assert (await service.healthy()).ready
        with pytest.raises(AlreadyRunning):
            await Service(settings_for(tmp_path), supervisor=StubExecutor()).__aenter__()
        assert (await service.healthy()).ready
    async with running_service(tmp_path) as service:
        assert (await service.healthy()).ready


async def test_stopped_service_takes_no_jobs(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        spec = job_for(await give_upload(service))
    with pytest.raises(ServiceUnavailable):
        await service.submit(spec)


@pytest.mark.slow
async def test_start_removes_files_that_no_row_knows(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        upload = await give_upload(service)
        job, _ = await service.submit(job_for(upload))
        await ended(service, job.id)
        data = service.storage.data_dir
    orphans = [data / "uploads" / "orphan", data / "logs" / "orphan.log", data / "outputs" / "orphan" / "a.mp4"]
    for orphan in orphans:
        orphan.parent.mkdir(exist_ok=True)
        orphan.write_bytes(b"x")
    async with running_service(tmp_path) as service:
        assert not any(orphan.exists() for orphan in orphans)
        assert service.storage.depot.upload_path(upload.id).exists()
        assert (await service.get(job.id)).outputs[0].files[0].path == "output.mp4"
        assert service.storage.depot.output_path(job.id, 1, "output.mp4").exists()


@pytest.mark.slow
async def test_uploads_are_swept_when_their_time_is_over(tmp_path: Path) -> None:
    async with running_service(tmp_path, slots=0, upload_ttl_seconds=0.5) as service:
        used, unused = await give_upload(service), await give_upload(service)
        await service.submit(job_for(used))
        async with asyncio.timeout(10):
            while service.storage.depot.upload_path(unused.id).exists():
                await asyncio.sleep(0.05)
        assert service.storage.depot.upload_path(used.id).exists()
        assert await service.get_upload(used.id) == used


@pytest.mark.slow
async def test_ended_jobs_are_swept_when_their_time_is_over(tmp_path: Path) -> None:
    async with running_service(tmp_path, job_ttl_seconds=0.5) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        done = await ended(service, job.id)
        published = service.storage.depot.output_path(job.id, 1, done.outputs[0].files[0].path)
        assert published.exists()
        async with asyncio.timeout(10):
            while published.exists():
                await asyncio.sleep(0.05)
        with pytest.raises(JobNotFound):
            await service.get(job.id)
        assert not service.storage.log_path(job.id).exists()


async def test_real_children_probe_plan_and_transcode(tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    make_video(clip, seconds=1)
    async with Service(settings_for(tmp_path)) as service:
        upload = await give_upload(service, clip.read_bytes())
        source = await service.probe(Input(upload=upload.id))
        assert len(source.video) == 1
        plan = await service.plan(job_for(upload))
        assert (plan.device, plan.outputs[0].path) == ("software", "output.mp4")
        job, _ = await service.submit(job_for(upload))
        done = await ended(service, job.id, seconds=60)
        broken = await give_upload(service, b"<html>no video</html>")
        with pytest.raises(PipelineError) as refused:
            await service.probe(Input(upload=broken.id))
        assert refused.value.code == "bad_input"
        assert list((service.storage.data_dir / "work").iterdir()) == []
    assert done.status is JobStatus.COMPLETED
    assert done.outputs[0].files[0].size > 0
