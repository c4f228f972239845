"""Jobs in pieces, through the service: cut, encoded on several slots, put together."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pipelines.devices import software_device
from tests.measure import assert_dts_rising, decode_audio, decode_video, psnr
from tests.media import make_video
from tests.transcoder.split_stubs import by_task
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


@pytest.mark.slow
async def test_a_long_job_is_cut_encoded_on_all_slots_and_put_together(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mp4", seconds=6, gop=24, b_frames=2, size=(160, 120))
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
        assert by_task(job) == {0: ["completed", "completed"], **{n: ["completed"] for n in (1, 2, 3)}}
        assert job.attempts[0].reason.endswith("cut into 3 pieces")
        assert job.progress == 1.0
        assert seen == sorted(seen)
        assert not service.storage.pieces.jobs()
        assert [path.name for path in (service.settings.data_dir / "work").iterdir()] == []
    times = sorted((each.started_at, each.finished_at) for each in job.attempts if each.task)
    assert any(later[0] < earlier[1] for earlier, later in pairwise(times)), times


VFR = [Fraction(frame, 25) + Fraction(frame % 3, 90) for frame in range(0, 200)]
HARD_CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "variable rate": ({"timestamps": VFR, "end": Fraction(8), "gop": 24, "seconds": 8}, {}, {}),
    "open groups": (
        {"seconds": 8, "gop": 20, "b_frames": 3, "options": {"open-gop": "1"}},
        {"codec": "hevc", "speed": "ultrafast"},
        {},
    ),
    "bitrate": (
        {"seconds": 44, "rate": 10, "gop": 20, "b_frames": 2},
        {"rate_control": {"mode": "vbr", "bitrate": 60_000}, "speed": "ultrafast"},
        {"split_piece_seconds": 20},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", HARD_CASES)
async def test_pieces_make_what_one_run_makes(tmp_path: Path, case: str) -> None:
    shape, video, settings = HARD_CASES[case]
    clip = make_video(tmp_path / "clip.mkv", size=(160, 120), **shape)
    async with cutting_service(tmp_path, **settings) as service:
        jobs = [await transcoded(service, clip, video=video, container="mkv", split=how) for how in ("never", "always")]
        one, many = (output_of(service, job) for job in jobs)
        assert len(by_task(jobs[1])) > 2, jobs[1].attempts
        first, second, source = decode_video(one), decode_video(many), decode_video(clip)
        assert second.times == first.times
        assert abs(psnr(source, second) - psnr(source, first)) < 0.3
        assert abs(many.stat().st_size / one.stat().st_size - 1) < 0.05
        assert (decode_audio(many).samples == decode_audio(one).samples).all()
        assert_dts_rising(many)


@pytest.mark.slow
async def test_an_input_without_keyframes_is_done_in_one_by_the_same_child(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mp4", seconds=5, gop=1000, size=(160, 120), options={"sc_threshold": "0"})
    async with cutting_service(tmp_path) as service:
        job = await transcoded(service, clip, split="always")
        assert by_task(job) == {0: ["completed"]}
        assert job.attempts[0].reason.endswith("in one: there is no keyframe where it could be cut")
        assert decode_video(output_of(service, job)).times == decode_video(clip).times


@pytest.mark.slow
async def test_after_a_kill_only_the_pieces_that_were_not_made_are_made(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mp4", seconds=10, gop=24, size=(160, 120))
    outputs = [{"type": "mp4", "video": VIDEO}]
    async with cutting_service(tmp_path, slots=0) as service:
        upload = await give_upload(service, clip.read_bytes())
        job, _ = await service.submit(job_for(upload, outputs=outputs, split="always"))
    with split_process(tmp_path / "data") as first:
        assert "made 4" in lines(first)
        first.kill()
    async with cutting_service(tmp_path, slots=0) as service:
        before = by_task(await service.get(job.id))
    assert sorted(before.values()).count(["completed"]) == 1 + 4
    with split_process(tmp_path / "data") as second:
        assert "done" in lines(second)
    async with cutting_service(tmp_path, slots=0) as service:
        done = await service.get(job.id)
        assert decode_video(output_of(service, done)).times == decode_video(clip).times
    after = by_task(done)
    made = [task for task, ends in before.items() if task and ends == ["completed"]]
    assert [after[task] for task in made] == [["completed"]] * 4
    (left,) = set(range(1, 6)) - set(made)
    assert after[left] in (["lost", "completed"], ["completed"])
    assert after[0] == ["completed", "completed"]


@contextmanager
def split_process(data: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.transcoder.run_split", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return (line.strip() for line in process.stdout)
