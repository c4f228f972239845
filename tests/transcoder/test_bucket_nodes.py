"""Nodes with folders of their own: a database and a bucket is all they share, and each may die at any moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests.transcoder.bucket_peer import Bucket
from tests.transcoder.fixtures_api import Api, serving_api
from tests.transcoder.node_processes import NodeProcess, node_process
from tests.transcoder.stubs import CONTENT, running_service

MEDIA = bytes(range(251)) * 999
ENDS = frozenset({"completed", "failed", "cancelled"})
HELD_SECONDS = 600.0
LEASE_SECONDS = 3.0

pytestmark = pytest.mark.slow


@pytest.fixture
async def front(tmp_path: Path, cluster_url: str, bucket: Bucket) -> AsyncGenerator[Api, None]:
    """An API node without work."""
    settings = bucket.settings(database_url=cluster_url, node="front", role="api", lease_seconds=LEASE_SECONDS)
    async with serving_api(tmp_path / "front" / "data", **settings) as running:
        yield running


@contextmanager
def worker(folder: Path, url: str, bucket: Bucket, name: str, *, seconds: float) -> Iterator[NodeProcess]:
    """A process whose folder nobody else sees. Its runs take `seconds`, or until `finish`."""
    env = {f"TRANSCODER_{key.upper()}": value for key, value in bucket.settings().items()}
    with node_process(folder / name, url, name, lease_seconds=LEASE_SECONDS, seconds=seconds, env=env) as node:
        yield node


async def begin(api: Api) -> str:
    """An upload through this node, and a job that reads it, once the node has heard of a worker."""
    async with asyncio.timeout(30):
        while not (await api.http.get("/v1/devices")).json()["items"]:
            await asyncio.sleep(0.05)
    uploaded = await api.http.put("/v1/uploads/clip.mov", content=MEDIA)
    assert uploaded.is_success, uploaded.text
    body = {"input": {"upload": uploaded.json()["id"]}, "outputs": [{"type": "mp4"}]}
    made = await api.http.post("/v1/jobs", json=body)
    assert made.is_success, made.text
    return str(made.json()["id"])


async def statuses(api: Api, job_id: str) -> list[str]:
    """What the job's events say of its status, from now to the end of the stream."""
    found = []
    # for a node that is started meanwhile it is silent for as long as that takes
    async with api.http.stream("GET", f"/v1/jobs/{job_id}/events", timeout=None) as response:
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: ") and kind == "status":
                found.append(str(json.loads(line.removeprefix("data: "))["status"]))
    return found


async def job_of(api: Api, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await api.http.get(f"/v1/jobs/{job_id}")).json()
    return found


async def result(api: Api, job_id: str) -> httpx2.Response:
    return await api.http.get(f"/v1/jobs/{job_id}/outputs/output.mp4")


def attempts(job: dict[str, Any]) -> list[tuple[int, str, str]]:
    return [(each["number"], each["device"], each["status"]) for each in job["attempts"]]


def outputs_in(bucket: Bucket) -> dict[str, bytes]:
    return {key: content for key, content in bucket.objects().items() if key.startswith("outputs/")}


async def test_a_job_comes_in_at_one_node_runs_on_another_and_is_fetched_at_the_first(
    tmp_path: Path, cluster_url: str, bucket: Bucket, front: Api
) -> None:
    with worker(tmp_path, cluster_url, bucket, "back", seconds=0.1) as node:
        job_id = await begin(front)
        async with asyncio.timeout(60):
            assert (await statuses(front, job_id))[-1] == "completed"
        done = await job_of(front, job_id)
        assert attempts(done) == [(1, "software@back", "completed")]
        fetched = await result(front, job_id)
        assert (fetched.status_code, fetched.content) == (200, CONTENT)
        part = await front.http.get(f"/v1/jobs/{job_id}/outputs/output.mp4", headers={"range": "bytes=2-4"})
        assert (part.status_code, part.content) == (206, CONTENT[2:5])
        assert "attempt 1 completed" in (await front.http.get(f"/v1/jobs/{job_id}/log")).text
        # nothing is left in the folders of either
        for folder in (tmp_path / "front" / "data", node.data):
            left = [path for kind in ("uploads", "outputs", "work") for path in (folder / kind).rglob("*.*")]
            assert left == []


async def test_a_worker_that_is_killed_amid_a_job_leaves_it_to_one_that_never_saw_its_folder(
    tmp_path: Path, cluster_url: str, bucket: Bucket, front: Api
) -> None:
    with worker(tmp_path, cluster_url, bucket, "first", seconds=HELD_SECONDS) as first:
        job_id = await begin(front)
        following = asyncio.create_task(statuses(front, job_id))
        await asyncio.to_thread(first.until, first.children)
        with worker(tmp_path, cluster_url, bucket, "second", seconds=0.1):
            first.kill()
            async with asyncio.timeout(60):
                seen = await following
        assert [status for status in seen if status in ENDS] == ["completed"]
        done = await job_of(front, job_id)
        assert attempts(done) == [(1, "software@first", "lost"), (2, "software@second", "completed")]
        assert (await result(front, job_id)).content == CONTENT
        assert outputs_in(bucket) == {f"outputs/{job_id}/attempt-2/output.mp4": CONTENT}


async def test_results_whose_node_dies_before_the_record_are_never_seen_and_swept(
    tmp_path: Path, cluster_url: str, bucket: Bucket, front: Api
) -> None:
    with worker(tmp_path, cluster_url, bucket, "first", seconds=HELD_SECONDS) as first:
        job_id = await begin(front)
        following = asyncio.create_task(statuses(front, job_id))
        await asyncio.to_thread(first.until, first.children)
        stray = f"outputs/{job_id}/attempt-1/output.mp4"
        async with await psycopg.AsyncConnection.connect(cluster_url) as recorder:
            # what the attempt publishes can't be recorded while this lasts
            await recorder.execute("LOCK TABLE attempts IN SHARE MODE")
            first.finish()
            await asyncio.to_thread(first.until, lambda: stray in bucket.objects())
            running = await job_of(front, job_id)
            assert (running["status"], running["outputs"]) == ("running", [])
            assert (await result(front, job_id)).status_code == 404
            first.kill()
        with worker(tmp_path, cluster_url, bucket, "second", seconds=HELD_SECONDS) as second:
            await asyncio.to_thread(second.until, second.children)
            assert (await result(front, job_id)).status_code == 404
            second.finish()
            async with asyncio.timeout(60):
                seen = await following
    assert [status for status in seen if status in ENDS] == ["completed"]
    assert attempts(await job_of(front, job_id)) == [(1, "software@first", "lost"), (2, "software@second", "completed")]
    assert (await result(front, job_id)).content == CONTENT
    settings = bucket.settings(database_url=cluster_url, node="sweeper")
    async with running_service(tmp_path / "sweeper", slots=0, **settings) as service:
        await service._sweeper.sweep_strays()
    assert outputs_in(bucket) == {f"outputs/{job_id}/attempt-2/output.mp4": CONTENT}


async def test_results_that_wait_for_their_record_are_not_swept(
    tmp_path: Path, cluster_url: str, bucket: Bucket, front: Api
) -> None:
    settings = bucket.settings(database_url=cluster_url, node="sweeper", lease_seconds=60)
    with worker(tmp_path, cluster_url, bucket, "back", seconds=HELD_SECONDS) as node:
        job_id = await begin(front)
        following = asyncio.create_task(statuses(front, job_id))
        await asyncio.to_thread(node.until, node.children)
        async with running_service(tmp_path / "sweeper", slots=0, **settings) as service:
            async with await psycopg.AsyncConnection.connect(cluster_url) as recorder:
                await recorder.execute("LOCK TABLE attempts IN SHARE MODE")
                node.finish()
                await asyncio.to_thread(node.until, lambda: outputs_in(bucket))
                await service._sweeper.sweep_strays()
            async with asyncio.timeout(60):
                assert (await following)[-1] == "completed"
    assert (await result(front, job_id)).content == CONTENT
