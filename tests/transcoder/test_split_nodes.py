"""Pieces of one job on several nodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pipelines.errors import BadInput
from tests.transcoder.split_stubs import SplitExecutor, by_task, number_of, splitting_service, submit_split
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service


def holding_pieces() -> SplitExecutor:
    return SplitExecutor(hold=lambda task: task.op == "piece")


@asynccontextmanager
async def two_nodes(
    folder: Path, url: str, executors: tuple[SplitExecutor, SplitExecutor]
) -> AsyncGenerator[tuple[Service, Service], None]:
    async with (
        splitting_service(folder, executors[0], slots=1, database_url=url, node="one", split_least_seconds=0) as one,
        splitting_service(folder, executors[1], slots=1, database_url=url, node="two", split_least_seconds=0) as two,
    ):
        async with asyncio.timeout(20):
            while len(one.devices()) < 2 or len(two.devices()) < 2:
                await asyncio.sleep(0.02)
        yield one, two


async def over(service: Service, job_id: str) -> Job:
    async with asyncio.timeout(30):
        while not (job := await service.get(job_id)).status.ended:
            await asyncio.sleep(0.02)
    return job


@pytest.mark.slow
async def test_nodes_share_the_pieces_of_a_job_that_leaves_it_to_the_service(tmp_path: Path, cluster_url: str) -> None:
    executors = (
        SplitExecutor(hold=lambda task: task.op == "piece"),
        SplitExecutor(hold=lambda task: task.op == "piece"),
    )
    async with two_nodes(tmp_path, cluster_url, executors) as (one, _):
        job = await submit_split(one, split="auto")
        async with asyncio.timeout(20):
            for executor in executors:
                await executor.held.get()
        for executor in executors:
            assert executor.gate is not None
            executor.gate.set()
        done = await over(one, job.id)
    assert done.status is JobStatus.COMPLETED, done.error
    assert {number: ends[-1] for number, ends in by_task(done).items()} == dict.fromkeys(range(5), "completed")
    assert {each.device for each in done.attempts if each.task} == {"software@one", "software@two"}


@pytest.mark.slow
async def test_a_job_is_cancelled_on_all_nodes_together(tmp_path: Path, cluster_url: str) -> None:
    executors = (
        SplitExecutor(hold=lambda task: task.op == "piece"),
        SplitExecutor(hold=lambda task: task.op == "piece"),
    )
    async with two_nodes(tmp_path, cluster_url, executors) as (one, _):
        job = await submit_split(one)
        async with asyncio.timeout(20):
            for executor in executors:
                await executor.held.get()
        began = time.monotonic()
        cancelled = await one.cancel(job.id)
        took = time.monotonic() - began
    assert cancelled.status is JobStatus.CANCELLED
    assert by_task(cancelled) == {0: ["completed"], 1: ["cancelled"], 2: ["cancelled"]}
    assert took < 2


@pytest.mark.slow
async def test_a_piece_that_fails_stops_those_of_other_nodes(tmp_path: Path, cluster_url: str) -> None:
    executors = tuple(
        SplitExecutor(
            hold=lambda task: task.op == "piece",
            fail=lambda task: BadInput("broken", stage="decode") if number_of(task) == 3 else None,
        )
        for _ in range(2)
    )
    async with two_nodes(tmp_path, cluster_url, (executors[0], executors[1])) as (one, _):
        job = await submit_split(one)
        async with asyncio.timeout(20):
            for executor in executors:
                await executor.held.get()
        # the first node goes on to the third piece, which fails there while the second one works on another
        assert executors[0].gate is not None
        executors[0].gate.set()
        failed = await over(one, job.id)
    assert failed.status is JobStatus.FAILED
    assert failed.error is not None
    assert failed.error.code == "bad_input"
    assert sorted(ends[-1] for number, ends in by_task(failed).items() if number) == [
        "cancelled",
        "completed",
        "failed",
    ]
