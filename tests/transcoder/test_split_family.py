"""The tasks of a job in pieces live and end together."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import BadInput, OutputFailed, PiecesDiffer, PipelineError, UnsupportedSpec
from pipelines.result import Progress
from tests.transcoder.split_stubs import (
    PIECES,
    SPLIT,
    SplitExecutor,
    by_task,
    number_of,
    splitting_service,
    submit_split,
)
from tests.transcoder.stubs import CONTENT, ended, give_upload, job_for
from transcoder.children.watch import ChildTask
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service
from transcoder.split.values import Share, combined

ALL_MADE: dict[int, list[str]] = {number: ["completed"] for number in range(1, PIECES + 1)}


async def completed(service: Service, job: Job) -> Job:
    done = await ended(service, job.id)
    assert done.status is JobStatus.COMPLETED, (done.error, done.attempts)
    path = service.storage.depot.output_path(job.id, done.published_attempt, done.outputs[0].files[0].path)
    assert path.read_bytes() == CONTENT
    return done


@pytest.mark.slow
async def test_a_job_is_cut_its_pieces_made_and_put_together(tmp_path: Path) -> None:
    executor = SplitExecutor()
    async with splitting_service(tmp_path, executor) as service:
        done = await completed(service, await submit_split(service))
        assert by_task(done) == {0: ["completed", "completed"], **ALL_MADE}
        assert executor.ops == ["cut", *["piece"] * PIECES, "stitch"]
        assert (done.progress, done.published_attempt) == (1.0, 2)
        assert service.storage.pieces.jobs() == set()
        assert list((tmp_path / "data" / "work").iterdir()) == []
        await service.delete(done.id)


@pytest.mark.slow
async def test_what_the_job_does_not_ask_to_be_cut_starts_one_child(tmp_path: Path) -> None:
    executor = SplitExecutor()
    async with splitting_service(tmp_path, executor) as service:
        for split in ("auto", "never"):
            done = await completed(service, await submit_split(service, split=split))
            assert by_task(done) == {0: ["completed"]}
    assert executor.ops == ["run", "run"]


@pytest.mark.slow
async def test_a_job_in_one_machine_is_cut_for_a_free_slot_where_the_setting_says_so(tmp_path: Path) -> None:
    executor = SplitExecutor()
    async with splitting_service(tmp_path, executor, slots=2, split="slots") as service:
        await completed(service, await submit_split(service, split="auto"))
    async with splitting_service(tmp_path, executor, slots=1, split="slots") as service:
        await completed(service, await submit_split(service, split="auto"))
    assert executor.ops == ["cut", *["piece"] * PIECES, "stitch", "run"]


@pytest.mark.parametrize(
    "outputs",
    [
        [{"type": "mp4", "video": {"codec": "h264"}}, {"type": "mkv", "video": {"codec": "h264"}}],
        [{"type": "copy"}],
        [{"type": "hls", "video": [{"height": 120, "codec": "h264"}]}],
        [{"type": "mp4", "video": {"codec": "h264", "rate_control": {"mode": "cbr", "bitrate": 100_000}}}],
    ],
)
async def test_a_job_that_can_not_be_made_of_pieces_and_asks_for_it_is_refused(
    tmp_path: Path, outputs: list[dict[str, Any]]
) -> None:
    async with splitting_service(tmp_path, SplitExecutor()) as service:
        upload = await give_upload(service)
        with pytest.raises(UnsupportedSpec):
            await service.submit(job_for(upload, outputs=outputs, split="always"))


@pytest.mark.slow
async def test_cancelling_stops_the_pieces_that_run_and_calls_off_the_others(tmp_path: Path) -> None:
    executor = SplitExecutor(hold=lambda task: task.op == "piece")
    async with splitting_service(tmp_path, executor) as service:
        job = await submit_split(service)
        await executor.held.get()
        await executor.held.get()
        began = time.monotonic()
        cancelled = await service.cancel(job.id)
        assert time.monotonic() - began < 1
        assert cancelled.status is JobStatus.CANCELLED
        assert by_task(cancelled) == {0: ["completed"], 1: ["cancelled"], 2: ["cancelled"]}
        await asyncio.sleep(0)
        assert executor.ops.count("piece") == 2


async def test_a_job_whose_pieces_all_wait_is_cancelled_too(tmp_path: Path) -> None:
    executor = SplitExecutor(hold=lambda task: task.op == "cut")
    async with splitting_service(tmp_path, executor) as service:
        job = await submit_split(service)
        await executor.held.get()
        await service.update_device("software", slots=0, draining=None)
        assert executor.gate is not None
        executor.gate.set()
        async with asyncio.timeout(10), service.events.subscribe(job.id) as events:
            while (await service.get(job.id)).status is not JobStatus.QUEUED:
                await anext(events)
        assert (await service.cancel(job.id)).status is JobStatus.CANCELLED
        await service.update_device("software", slots=2, draining=None)
        assert "piece" not in executor.ops


@pytest.mark.slow
async def test_a_piece_that_fails_for_good_stops_the_others_and_a_retry_makes_only_what_is_missing(
    tmp_path: Path,
) -> None:
    broken = True

    def fail(task: ChildTask) -> PipelineError | None:
        return BadInput("no pictures", stage="decode") if broken and number_of(task) == 3 else None

    executor = SplitExecutor(fail=fail, hold=lambda task: broken and number_of(task) == 2)
    async with splitting_service(tmp_path, executor) as service:
        job = await submit_split(service)
        failed = await ended(service, job.id)
        assert failed.status is JobStatus.FAILED
        assert failed.error is not None
        assert failed.error.code == "bad_input"
        assert by_task(failed) == {0: ["completed"], 1: ["completed"], 2: ["cancelled"], 3: ["failed"]}
        assert failed.finished_at is not None
        broken = False
        await service.retry(job.id)
        done = await completed(service, job)
    assert by_task(done) == {
        0: ["completed", "completed"],
        1: ["completed"],
        2: ["cancelled", "completed"],
        3: ["failed", "completed"],
        4: ["completed"],
    }


@pytest.mark.slow
async def test_a_piece_that_fails_in_passing_is_made_again(tmp_path: Path) -> None:
    failures = [OutputFailed("the disk hiccups", stage="mux")]
    executor = SplitExecutor(fail=lambda task: failures.pop() if number_of(task) == 2 and failures else None)
    async with splitting_service(tmp_path, executor) as service:
        done = await completed(service, await submit_split(service))
    assert by_task(done) == {0: ["completed", "completed"], **ALL_MADE, 2: ["failed", "completed"]}


@pytest.mark.slow
async def test_a_stopped_service_goes_on_with_the_pieces_that_are_left(tmp_path: Path) -> None:
    executor = SplitExecutor(hold=lambda task: number_of(task) == 3)
    async with splitting_service(tmp_path, executor, slots=1) as service:
        job = await submit_split(service)
        await executor.held.get()
    again = SplitExecutor()
    async with splitting_service(tmp_path, again) as service:
        done = await completed(service, job)
    assert by_task(done) == {0: ["completed", "completed"], **ALL_MADE, 3: ["lost", "completed"]}
    assert again.ops == ["piece", "piece", "stitch"]


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["gone", "cut short", "differ", "changed"])
async def test_pieces_that_do_not_go_together_make_the_job_in_one_in_the_same_attempt(
    tmp_path: Path, trouble: str
) -> None:
    def fail(task: ChildTask) -> PipelineError | None:
        if task.op == "stitch" and trouble == "differ":
            return PiecesDiffer("piece 2 was made with other parameters", stage="mux")
        return None

    executor = SplitExecutor(fail=fail, hold=lambda task: number_of(task) == 4)
    async with splitting_service(tmp_path, executor, slots=1) as service:
        job = await submit_split(service)
        await executor.held.get()
        path = service.storage.pieces.path(job.id, 2, 1)
        if trouble == "gone":
            path.unlink()
        if trouble == "cut short":
            path.write_bytes(path.read_bytes()[:-1])
        if trouble == "changed":
            assert job.spec.input.upload is not None  # type: ignore[union-attr]
            service.storage.depot.upload_path(job.spec.input.upload).write_bytes(b"another")  # type: ignore[union-attr]
        assert executor.gate is not None
        executor.gate.set()
        done = await completed(service, job)
        log = service.storage.log_path(job.id).read_text()
    assert by_task(done) == {0: ["completed", "completed"], **ALL_MADE}
    assert executor.ops[-1] == "run"
    assert "in one" in done.attempts[1].reason
    assert "can't be put together" in log


@pytest.mark.slow
async def test_progress_is_of_all_pieces_and_never_goes_back(tmp_path: Path) -> None:
    executor = SplitExecutor(hold=lambda task: number_of(task) == 4)
    async with splitting_service(tmp_path, executor, slots=1) as service:
        job = await submit_split(service)
        await executor.held.get()
        between = await service.get(job.id)
        assert between.progress == pytest.approx(0.9 * 0.75, abs=0.12)
        assert between.status is JobStatus.RUNNING
        assert executor.gate is not None
        executor.gate.set()
        await completed(service, job)


def test_progress_adds_up_by_length() -> None:
    def told(fraction: float, **more: Any) -> Progress:
        return Progress(fraction=fraction, **more)

    shares = [
        Share(60, "completed", told(1.0, frames=1500, out_time=60, speed=9)),
        Share(60, "running", told(0.5, frames=750, out_time=30, speed=2, fps=50)),
        Share(60, "running", told(0.25, frames=375, out_time=15, speed=1, fps=25)),
        Share(20, "queued", told(0.9, frames=450)),
    ]
    whole = combined(shares)
    assert whole.fraction == pytest.approx(0.9 * (60 + 30 + 15) / 200)
    assert (whole.frames, whole.out_time, whole.fps, whole.speed) == (2625, 105, 75, 3)
    assert whole.eta_seconds == pytest.approx((200 - 105) / 3)


@pytest.mark.slow
async def test_deleting_a_job_removes_its_pieces_and_old_ones_are_swept(tmp_path: Path) -> None:
    executor = SplitExecutor(fail=lambda task: BadInput("broken") if number_of(task) == 4 else None)
    async with splitting_service(tmp_path, executor, slots=1, upload_ttl_seconds=1000) as service:
        first = await ended(service, (await submit_split(service)).id)
        second = await ended(service, (await submit_split(service)).id)
        assert service.storage.pieces.jobs() == {first.id, second.id}
        await service.delete(first.id)
        assert service.storage.pieces.jobs() == {second.id}
        await service._sweeper.expire_pieces()
        assert service.storage.pieces.jobs() == {second.id}
    async with splitting_service(tmp_path, executor, upload_ttl_seconds=0.001) as service:
        await service._sweeper.expire_pieces()
        assert service.storage.pieces.jobs() == set()


@pytest.mark.slow
async def test_webhooks_tell_of_the_job_and_not_of_its_pieces(tmp_path: Path) -> None:
    webhook = {"url": "http://127.0.0.1:9/", "events": ["job.started", "job.completed"]}
    executor = SplitExecutor()
    async with splitting_service(tmp_path, executor, allowed_networks="127.0.0.0/8") as service:
        done = await completed(service, await submit_split(service, **SPLIT, webhook=webhook))
        told = await service.deliveries.of_job(done.id, "default")
    assert sorted(each.event for each in told) == ["job.completed", "job.started"]
