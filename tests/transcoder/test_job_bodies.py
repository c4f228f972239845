"""Jobs as clients read them: made once, given out again, and never when another process has changed something."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import insert, update

from tests.transcoder.test_store import add, new_job
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.errors import JobNotFound
from transcoder.job_bodies import JobBodies
from transcoder.jobs import Job, JobStatus
from transcoder.store import JobStore
from transcoder.tables import attempts, jobs


@dataclass
class Live:
    """Counts the jobs that were made of rows, and adds nothing to them."""

    made: list[str] = field(default_factory=list)

    def merged(self, job: Job) -> Job:
        self.made.append(job.id)
        return job

    async def shown(self, job: Job) -> Job:
        return job


@dataclass(frozen=True)
class Node:
    """A process: what it reads by has nothing in common with others' but the database."""

    database: Database
    live: Live = field(default_factory=Live)

    @property
    def store(self) -> JobStore:
        return JobStore(self.database)

    def bodies(self, kept_bytes: int = 1 << 20) -> JobBodies:
        return JobBodies(self.store, self.live.merged, self.live.shown, kept_bytes)

    async def end(self, *job_ids: str, status: JobStatus = JobStatus.COMPLETED) -> None:
        async with self.database.write() as connection:
            values = {"status": status.value, "finished_at": utc_now(), "plan": {"device": "software"}}
            await connection.execute(update(jobs).where(jobs.c.id.in_(job_ids)).values(**values))

    async def attempt(self, job_id: str) -> None:
        row = {"task_id": f"{job_id}-0", "number": 1, "job_id": job_id, "task": 0, "device": "software"}
        async with self.database.write() as connection:
            more = {"status": "completed", "reason": "", "started_at": utc_now()}
            await connection.execute(insert(attempts).values(**row, **more))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[Node, Node], None]:
    sqlite = f"sqlite+aiosqlite:///{tmp_path / 'transcoder.db'}"
    url = sqlite if request.param == "sqlite" else request.getfixturevalue("cluster_url")
    here, there = Node(Database(url)), Node(Database(url))
    await here.database.migrate()
    yield here, there
    await here.database.close()
    await there.database.close()


async def listed(bodies: JobBodies, **wanted: object) -> list[dict[str, object]]:
    page = {"tenant": "default", "status": None, "queue": None, "limit": 50, "cursor": None, **wanted}
    items: list[dict[str, object]] = json.loads(await bodies.page(**page))["items"]  # type: ignore[arg-type]
    return items


async def test_body_is_the_job_as_its_model_writes_it(nodes: tuple[Node, Node]) -> None:
    here, _ = nodes
    waiting, done = await add(here.store, new_job(metadata={"title": "Ö\u2028<"}), new_job())
    await here.end(done)
    await here.attempt(done)
    bodies = here.bodies()
    for job_id in (waiting, done) * 2:
        job = await here.store.get(job_id, "default")
        assert await bodies.one(job_id, "default") == job.model_dump_json(by_alias=True).encode()
    assert job.plan == {"device": "software"}
    assert [each.status for each in job.attempts] == ["completed"]


async def test_list_has_the_jobs_without_their_plans(nodes: tuple[Node, Node]) -> None:
    here, _ = nodes
    ids = await add(here.store, new_job(), new_job(), new_job(tenant="b"), new_job())
    await here.end(*ids)
    await here.attempt(ids[1])
    bodies = here.bodies()
    for _ in range(2):
        one = {job_id: json.loads(await bodies.one(job_id, "default")) for job_id in (ids[3], ids[1], ids[0])}
        assert await listed(bodies) == [job | {"plan": None} for job in one.values()]


async def test_job_that_has_ended_is_made_once(nodes: tuple[Node, Node]) -> None:
    here, _ = nodes
    ended, queued = await add(here.store, new_job(), new_job())
    await here.end(ended)
    bodies = here.bodies()
    for _ in range(3):
        await bodies.one(ended, "default")
        await bodies.one(queued, "default")
        await listed(bodies)
    # by itself and in the list; what waits may begin at any time
    assert here.live.made.count(ended) == 2
    assert here.live.made.count(queued) == 6


async def test_change_by_another_process_is_seen_at_once(nodes: tuple[Node, Node]) -> None:
    here, there = nodes
    (job_id,) = await add(here.store, new_job())
    await here.end(job_id, status=JobStatus.FAILED)
    bodies = here.bodies()

    async def read() -> dict[str, object]:
        job: dict[str, object] = json.loads(await bodies.one(job_id, "default"))
        assert [each | {"plan": job["plan"]} for each in await listed(bodies)] == [job]
        return job

    assert (await read())["attempts"] == []
    await there.attempt(job_id)
    assert len((await read())["attempts"]) == 1  # type: ignore[arg-type]
    await there.store.requeue(job_id, "default", utc_now())
    assert (await read())["status"] == "queued"
    await there.end(job_id)
    assert (await read())["status"] == "completed"
    await there.store.delete(job_id, "default")
    assert await listed(bodies) == []
    with pytest.raises(JobNotFound):
        await bodies.one(job_id, "default")


async def test_kept_body_is_not_told_to_other_tenants(nodes: tuple[Node, Node]) -> None:
    here, _ = nodes
    (job_id,) = await add(here.store, new_job(tenant="a"))
    await here.end(job_id)
    bodies = here.bodies()
    await bodies.one(job_id, "a")
    with pytest.raises(JobNotFound):
        await bodies.one(job_id, "b")
    assert await listed(bodies, tenant="b") == []


async def test_no_more_is_kept_than_may_be_and_what_was_read_last_stays(nodes: tuple[Node, Node]) -> None:
    here, _ = nodes
    ids = await add(here.store, *(new_job() for _ in range(10)))
    await here.end(*ids)
    size = len(await here.bodies().one(ids[0], "default"))
    bodies = here.bodies(kept_bytes=3 * size)
    for job_id in ids:
        await bodies.one(ids[0], "default")
        await bodies.one(job_id, "default")
    here.live.made.clear()
    for job_id in (ids[0], ids[-1], ids[-2], ids[1]):
        await bodies.one(job_id, "default")
    assert here.live.made == [ids[1]]


async def test_pages_follow_filters_and_cursors(nodes: tuple[Node, Node]) -> None:
    here, _ = nodes
    ids = await add(here.store, *(new_job() for _ in range(7)))
    await here.end(*ids[:5])
    bodies = here.bodies()
    seen, cursor = [], None
    while True:
        page = json.loads(
            await bodies.page(tenant="default", status=JobStatus.COMPLETED, queue="default", limit=2, cursor=cursor)
        )
        seen += [job["id"] for job in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == ids[4::-1]


async def test_connection_that_fails_is_made_anew(tmp_path: Path) -> None:
    node = Node(Database(f"sqlite+aiosqlite:///{tmp_path / 'transcoder.db'}"))
    await node.database.migrate()
    (job_id,) = await add(node.store, new_job())
    await node.store.get(job_id, "default")
    glancing = node.database._glancing
    assert glancing is not None
    glancing.driver_connection.close()  # type: ignore[union-attr]
    for _ in range(2):
        assert (await node.store.get(job_id, "default")).id == job_id
    await node.database.close()
