"""A service that is killed loses no job and completes none twice."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.measure import decode_video
from tests.media import make_video
from tests.transcoder.stubs import CONTENT, give_upload, job_for, running_service
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.jobs import Job, JobStatus
from transcoder.store import JobStore


@contextmanager
def service_process(data: Path, kind: str, seconds: float = 0.0) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.transcoder.run_service", str(data), kind, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return (line.strip() for line in process.stdout)


async def queue_jobs(folder: Path, count: int, content: bytes = b"media", **changes: object) -> list[str]:
    async with running_service(folder, slots=0) as service:
        upload = await give_upload(service, content)
        return [(await service.submit(job_for(upload, **changes)))[0].id for _ in range(count)]


async def read_jobs(folder: Path, ids: list[str]) -> list[Job]:
    async with running_service(folder, slots=0) as service:
        return [await service.get(job_id) for job_id in ids]


def outcomes(job: Job) -> list[str]:
    return [attempt.status for attempt in job.attempts]


@pytest.mark.slow
async def test_killed_service_runs_its_job_again_and_completes_it_once(tmp_path: Path) -> None:
    (job_id,) = await queue_jobs(tmp_path, 1)
    data = tmp_path / "data"
    with service_process(data, "stub", 60) as first:
        assert any(line.startswith("run ") for line in lines(first))
        first.kill()
    assert list((data / "work").rglob("attempt-1"))
    with service_process(data, "stub", 0.01) as second:
        assert "done" in lines(second)
    (job,) = await read_jobs(tmp_path, [job_id])
    assert (job.status, outcomes(job)) == (JobStatus.COMPLETED, ["lost", "completed"])
    assert job.attempts[0].error is not None
    assert job.attempts[0].error.code == "lost"
    assert (data / "outputs" / job_id / "attempt-2" / "output.mp4").read_bytes() == CONTENT
    assert list((data / "work").iterdir()) == []


@pytest.mark.slow
async def test_cancel_wish_outlives_the_service(tmp_path: Path) -> None:
    (job_id,) = await queue_jobs(tmp_path, 1)
    data = tmp_path / "data"
    with service_process(data, "stub", 60) as first:
        assert any(line.startswith("run ") for line in lines(first))
        first.kill()
    database = Database(f"sqlite+aiosqlite:///{data / 'transcoder.db'}")
    await JobStore(database).request_cancel(job_id, "default", utc_now())
    await database.close()
    (job,) = await read_jobs(tmp_path, [job_id])
    assert (job.status, outcomes(job)) == (JobStatus.CANCELLED, ["lost"])


@pytest.mark.slow
async def test_kills_at_any_moment_lose_and_double_nothing(tmp_path: Path) -> None:
    random = Random(5)
    ids = await queue_jobs(tmp_path, 40)
    data = tmp_path / "data"
    for _ in range(8):
        with service_process(data, "stub", 0.05) as process:
            assert next(lines(process)) == "ready"
            # any moment will do, so the clock chooses it
            time.sleep(random.uniform(0.0, 0.4))  # noqa: ASYNC251
            process.kill()
    with service_process(data, "stub", 0.01) as last:
        assert "done" in lines(last)
    jobs = await read_jobs(tmp_path, ids)
    assert Counter(job.status for job in jobs) == {JobStatus.COMPLETED: 40}
    assert all(outcomes(job).count("completed") == 1 for job in jobs)
    assert any("lost" in outcomes(job) for job in jobs)
    assert sorted(path.name for path in (data / "outputs").iterdir()) == sorted(ids)
    assert list((data / "work").iterdir()) == []


@pytest.mark.slow
async def test_killed_service_with_a_real_transcode_makes_the_whole_file_afterwards(tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    make_video(clip, seconds=10, size=(640, 360))
    outputs = [{"type": "mp4", "video": {"codec": "h264", "speed": "slower"}}]
    (job_id,) = await queue_jobs(tmp_path, 1, clip.read_bytes(), outputs=outputs)
    data = tmp_path / "data"
    with service_process(data, "real") as first:
        assert "ready" in lines(first)
        deadline = time.monotonic() + 30
        while not any(path.stat().st_size for path in (data / "work").rglob("out/*")):
            assert time.monotonic() < deadline
            time.sleep(0.02)  # noqa: ASYNC251
        first.kill()
    with service_process(data, "real") as second:
        assert "done" in lines(second)
    (job,) = await read_jobs(tmp_path, [job_id])
    assert (job.status, outcomes(job)) == (JobStatus.COMPLETED, ["lost", "completed"])
    made = decode_video(data / "outputs" / job_id / "attempt-2" / "output.mp4")
    assert len(made.frames) == len(decode_video(clip).frames)
