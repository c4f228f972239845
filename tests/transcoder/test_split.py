"""Jobs in pieces, through the service: cut, encoded on several slots, put together."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipelines.devices import software_device
from tests.measure import assert_dts_rising, decode_audio, decode_video, psnr
from tests.media import make_video
from tests.transcoder.stubs import ended, give_upload, job_for, settings_for
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service

VIDEO: dict[str, Any] = {"codec": "h264", "speed": "veryfast", "gop_seconds": 1}
LOWERED: dict[str, Any] = {"split": "slots", "split_least_seconds": 4, "split_piece_seconds": 2}


@asynccontextmanager
async def cutting_service(folder: Path, *, slots: int = 2, **changes: Any) -> AsyncGenerator[Service, None]:
    settings = settings_for(folder, **{**LOWERED, **changes})
    async with Service(settings, devices=[software_device(slots)]) as service:
        yield service


async def transcoded(service: Service, clip: Path, *, video: dict[str, Any] | None = None, **changes: Any) -> Job:
    outputs = [{"type": changes.pop("container", "mp4"), "video": {**VIDEO, **(video or {})}}]
    upload = await give_upload(service, clip.read_bytes())
    job, _ = await service.submit(job_for(upload, outputs=outputs, **changes))
    return await ended(service, job.id, seconds=120)


def output_of(service: Service, job: Job) -> Path:
    assert job.status is JobStatus.COMPLETED, (job.error, job.attempts)
    return service.storage.depot.output_path(job.id, job.published_attempt, job.outputs[0].files[0].path)


def by_task(job: Job) -> dict[int, list[str]]:
    tasks: dict[int, list[str]] = {}
    for attempt in job.attempts:
        tasks.setdefault(attempt.task, []).append(attempt.status)
    return tasks


async def test_a_long_job_is_cut_encoded_on_all_slots_and_put_together(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mp4", seconds=8, gop=24, b_frames=2)
    seen: list[float] = []
    async with cutting_service(tmp_path) as service:
        whole = await transcoded(service, clip, split="never")
        upload = await give_upload(service, clip.read_bytes())
        job, _ = await service.submit(job_for(upload, outputs=[{"type": "mp4", "video": VIDEO}]))
        async with service.events.subscribe(job.id) as events:
            async for event in events:
                if event.kind == "progress" and event.data["fraction"] is not None:
                    seen.append(event.data["fraction"])
                if event.kind == "status" and event.data["status"] == "completed":
                    break
        job = await service.get(job.id)
        one, many = output_of(service, whole), output_of(service, job)
        first, second, source = decode_video(one), decode_video(many), decode_video(clip)
        assert second.times == first.times
        assert abs(psnr(source, second) - psnr(source, first)) < 0.3
        assert abs(many.stat().st_size / one.stat().st_size - 1) < 0.05
        assert (decode_audio(many).samples == decode_audio(one).samples).all()
        assert_dts_rising(many)
        assert by_task(whole) == {0: ["completed"]}
        assert by_task(job) == {0: ["completed", "completed"], **{n: ["completed"] for n in (1, 2, 3, 4)}}
        assert job.attempts[0].reason.endswith("cut into 4 pieces")
        assert job.progress == 1.0
        assert seen == sorted(seen)
        assert not service.storage.pieces.jobs()
        assert [path.name for path in (service.settings.data_dir / "work").iterdir()] == []
    times = sorted((each.started_at, each.finished_at) for each in job.attempts if each.task)
    assert any(later[0] < earlier[1] for earlier, later in pairwise(times)), times
