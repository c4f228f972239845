"""Everything is killed at random while clients submit: no job that was acknowledged is lost, and none ends twice.

TEST_KILLS says how many kills; 20 otherwise.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random

import httpx2
import pytest

from tests.transcoder.node_processes import NodeProcess, node_process
from tests.transcoder.processes import is_running
from tests.transcoder.stubs import CONTENT, running_service
from transcoder.jobs import Job, JobStatus
from transcoder.service import Service

KILLS = int(os.environ.get("TEST_KILLS", "20"))
LEASE_SECONDS = 5.0
SEED = 11

pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def submit(port: int, upload: str, key: str) -> str:
    """The job's id, as soon as the service has acknowledged it; again and again until then."""
    body = {"input": {"upload": upload}, "outputs": [{"type": "mp4"}], "metadata": {"key": key}}
    while True:
        with suppress(httpx2.HTTPError):
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
                response = await http.post("/v1/jobs", json=body, headers={"Idempotency-Key": key})
                if response.is_success:
                    return str(response.json()["id"])
                assert response.status_code >= 500, response.text
        await asyncio.sleep(0.2)


async def client(port: int, upload: str, name: str, stop: asyncio.Event) -> dict[str, str]:
    """Acknowledged jobs by key."""
    acknowledged: dict[str, str] = {}
    while not stop.is_set():
        key = f"{name}-{len(acknowledged)}"
        acknowledged[key] = await submit(port, upload, key)
        await asyncio.sleep(0.3)
    return acknowledged


async def upload_one(port: int) -> str:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
        response = await http.put("/v1/uploads/clip.mov", content=b"media")
        assert response.is_success, response.text
        return str(response.json()["id"])


def hit(node: NodeProcess, random: Random) -> str:
    """Kills the node, or one of its children, or lets it sleep through its lease."""
    what = random.choice(["node", "node", "child", "sleep"] if node.port is None else ["node"])
    living = [pid for pid in node.children() if is_running(pid)]
    if what == "child" and living:
        os.kill(random.choice(living), signal.SIGKILL)
        return "child"
    if what == "sleep":
        node.signal(signal.SIGSTOP)
        time.sleep(LEASE_SECONDS * 1.5)
        node.signal(signal.SIGCONT)
        return "sleep"
    node.kill()
    time.sleep(random.uniform(0, 1))
    # most often it comes up before the next kill, else clients would never be heard
    node.start(wait=random.random() < 0.7)
    return "node"


async def test_kills_at_any_moment_lose_and_double_nothing(tmp_path: Path, cluster_url: str) -> None:
    random = Random(SEED)
    port = free_port()
    with ExitStack() as stack:

        def node(name: str, at: int | None = None) -> NodeProcess:
            made = node_process(tmp_path, cluster_url, name, lease_seconds=LEASE_SECONDS, seconds=0.3, port=at)
            return stack.enter_context(made)

        nodes = [node("api", port), node("one"), node("two"), node("three")]
        upload = await upload_one(port)
        stop = asyncio.Event()
        clients = [asyncio.create_task(client(port, upload, f"client-{number}", stop)) for number in range(3)]
        hits: Counter[str] = Counter()
        while hits.total() < KILLS:
            await asyncio.sleep(random.uniform(0.2, 1.5))
            hits[await asyncio.to_thread(hit, random.choice(nodes), random)] += 1
        stop.set()
        async with asyncio.timeout(120):
            acknowledged = dict(pair for each in await asyncio.gather(*clients) for pair in each.items())
        async with running_service(tmp_path, slots=0, database_url=cluster_url, node="watcher") as service:
            jobs = [await ended(service, job_id) for job_id in acknowledged.values()]
            everything = (await service.list(limit=500)).items
    assert Counter(job.status for job in jobs) == {JobStatus.COMPLETED: len(acknowledged)}, hits
    assert len(acknowledged) >= KILLS / 2
    # one job for each key, however often it was sent
    assert len({job.id for job in everything}) == len({job.metadata["key"] for job in everything})
    for job in jobs:
        assert [attempt.status for attempt in job.attempts].count("completed") == 1, job.attempts
        number = job.published_attempt
        folder = tmp_path / "data" / "outputs" / job.id
        assert (folder / f"attempt-{number}" / "output.mp4").read_bytes() == CONTENT
        assert number == max(attempt.number for attempt in job.attempts)


async def ended(service: Service, job_id: str) -> Job:
    async with asyncio.timeout(180):
        while not (job := await service.get(job_id)).status.ended:
            await asyncio.sleep(0.1)
        return job
