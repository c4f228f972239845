"""Jobs in a real SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from pipelines.spec import FileJob
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.errors import Conflict, IdempotencyConflict, InputUploadNotFound, InvalidCursor, JobNotFound
from transcoder.ids import ID_PATTERN, new_id
from transcoder.jobs import JobStatus, Upload
from transcoder.queueing.queues import QueueSettings, QueueStore
from transcoder.store import Added, Idempotency, JobStore, NewJob
from transcoder.tables import metadata
from transcoder.uploads.uploads import UploadStore


def spec(**changes: object) -> FileJob:
    return FileJob.model_validate({"input": {"path": "/media/a.mp4"}, "outputs": [{"type": "mp4"}], **changes})


def new_job(tenant: str = "default", key: Idempotency | None = None, **changes: object) -> NewJob:
    return NewJob(new_id(), tenant, spec(**changes), None, "any", utc_now(), key)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database, None]:
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'transcoder.db'}")
    await database.migrate()
    yield database
    await database.close()


@pytest.fixture
def store(database: Database) -> JobStore:
    return JobStore(database)


@pytest.fixture
async def queues(database: Database) -> None:
    """Some to choose from."""
    for name in ("films", "a", "b"):
        await QueueStore(database).put(name, QueueSettings(), utc_now())


async def add(store: JobStore, *jobs: NewJob) -> list[str]:
    added = await store.add(jobs)
    assert all(isinstance(each, Added) for each in added)
    return [each.job_id for each in added if isinstance(each, Added)]


async def set_status(database: Database, status: JobStatus, *job_ids: str) -> None:
    async with database.write() as connection:
        for job_id in job_ids:
            await connection.execute(
                text("UPDATE jobs SET status = :s WHERE id = :i"), {"s": status.value, "i": job_id}
            )


async def test_migrations_make_the_tables_and_run_again_without_harm(database: Database) -> None:
    await database.migrate()
    async with database.read() as connection:
        difference = await connection.run_sync(lambda c: compare_metadata(MigrationContext.configure(c), metadata))
    assert difference == []


async def test_commits_survive_a_power_cut_and_references_are_checked(database: Database) -> None:
    async with database.read() as connection:
        values = [(await connection.execute(text(f"PRAGMA {name}"))).scalar() for name in _PRAGMAS]
    assert dict(zip(_PRAGMAS, values, strict=True)) == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


_PRAGMAS = ("journal_mode", "synchronous", "foreign_keys")


async def test_readers_do_not_wait_for_a_writer(database: Database, store: JobStore) -> None:
    (job_id,) = await add(store, new_job())
    async with database.write() as connection:
        await connection.execute(text("UPDATE jobs SET queue = 'other'"))
        async with asyncio.timeout(2):
            assert (await store.get(job_id, "default")).queue == "default"


async def test_failed_transaction_leaves_nothing(database: Database, store: JobStore) -> None:
    (job_id,) = await add(store, new_job())

    async def fail() -> None:
        async with database.write() as connection:
            await connection.execute(text("DELETE FROM jobs"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert (await store.get(job_id, "default")).id == job_id


@pytest.mark.usefixtures("queues")
async def test_a_job_reads_as_it_was_added(store: JobStore) -> None:
    new = new_job(metadata={"title": "ü"}, priority=7, queue="films")
    await add(store, new)
    job = await store.get(new.id, "default")
    assert job == new.as_job()
    assert (job.status, job.spec, job.created_at) == (JobStatus.QUEUED, new.spec, new.created_at)
    assert (job.metadata, job.priority, job.queue) == ({"title": "ü"}, 7, "films")


async def test_other_tenants_jobs_do_not_exist(store: JobStore) -> None:
    (job_id,) = await add(store, new_job("a"))
    now = utc_now()
    for call in (
        store.get(job_id, "b"),
        store.request_cancel(job_id, "b", now),
        store.requeue(job_id, "b", now),
        store.set_priority(job_id, 1, "b"),
        store.delete(job_id, "b"),
    ):
        with pytest.raises(JobNotFound):
            await call
    assert (await store.page(tenant="b", status=None, queue=None, limit=10, cursor=None)).items == ()
    assert (await store.get(job_id, "a")).status is JobStatus.QUEUED


@pytest.mark.parametrize("limit", [1, 3, 7, 24, 25, 100])
async def test_pages_together_are_the_list_newest_first(store: JobStore, limit: int) -> None:
    added = await add(store, *(new_job() for _ in range(25)))
    seen: list[str] = []
    cursor = None
    while True:
        page = await store.page(tenant="default", status=None, queue=None, limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        seen += [job.id for job in page.items]
        # jobs that come meanwhile shift nothing
        await add(store, new_job())
        if page.next is None:
            break
        cursor = page.next
    assert seen == added[::-1]


@pytest.mark.usefixtures("queues")
async def test_lists_are_filtered_by_status_and_queue(database: Database, store: JobStore) -> None:
    ids = await add(store, *(new_job(queue=queue) for queue in ("a", "b") for _ in range(4)))
    await set_status(database, JobStatus.COMPLETED, *ids[::2])
    for status in (None, JobStatus.QUEUED, JobStatus.COMPLETED):
        for queue in (None, "a", "b"):
            page = await store.page(tenant="default", status=status, queue=queue, limit=50, cursor=None)
            expected = [
                job_id
                for position, job_id in enumerate(ids)
                if (queue is None or (position < 4) == (queue == "a"))
                and (status is None or (position % 2 == 0) == (status is JobStatus.COMPLETED))
            ]
            assert [job.id for job in page.items] == expected[::-1]


@pytest.mark.parametrize("cursor", ["", "x", "j-", "j-' OR 1=1", f"j-{'0' * 34}x", "j-" + "g" * 34])
async def test_a_cursor_that_no_page_gave_is_refused(store: JobStore, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        await store.page(tenant="default", status=None, queue=None, limit=10, cursor=cursor)


def test_ids_rise_and_can_not_be_guessed() -> None:
    ids = [new_id() for _ in range(2000)]
    assert ids == sorted(set(ids))
    assert all(ID_PATTERN.fullmatch(each) for each in ids)
    assert len({each[14:] for each in ids}) == 2000


async def test_the_same_key_and_body_is_the_same_job(store: JobStore) -> None:
    key = Idempotency("k", "0" * 64)
    first, again = await store.add([new_job(key=key)]), await store.add([new_job(key=key)])
    assert isinstance(first[0], Added)
    assert first[0].created
    assert again == [Added(first[0].job_id)]


async def test_the_same_key_with_another_body_is_a_conflict_and_harms_no_one_in_its_batch(store: JobStore) -> None:
    key = Idempotency("k", "0" * 64)
    first, conflict, other, foreign = await store.add(
        [new_job(key=key), new_job(key=replace(key, body_sha256="1" * 64)), new_job(), new_job("b", key=key)]
    )
    assert isinstance(conflict, IdempotencyConflict)
    created = [each for each in (first, other, foreign) if isinstance(each, Added) and each.created]
    assert len({each.job_id for each in created}) == 3


async def test_a_key_is_free_again_when_its_job_is_deleted(store: JobStore) -> None:
    key = Idempotency("k", "0" * 64)
    (job_id,) = await add(store, new_job(key=key))
    await store.delete(job_id, "default")
    (again,) = await store.add([new_job(key=key)])
    assert isinstance(again, Added)
    assert again.created


async def test_unknown_upload_refuses_its_own_job_only(database: Database, store: JobStore) -> None:
    upload = Upload(id=new_id(), name="a.mp4", size=1, sha256="0" * 64, created_at=datetime.now(UTC))
    await UploadStore(database).add(upload, "a")
    good, missing, foreign = await store.add(
        [
            new_job("a", input={"upload": upload.id}),
            new_job("a", input={"upload": "nothing"}),
            new_job("b", input={"upload": upload.id}),
        ]
    )
    assert isinstance(good, Added)
    assert isinstance(missing, InputUploadNotFound)
    assert isinstance(foreign, InputUploadNotFound)


ALLOWED = {
    "cancel": {JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.CANCELLED},
    "retry": {JobStatus.FAILED, JobStatus.CANCELLED},
    "priority": {JobStatus.QUEUED},
    "delete": {JobStatus.QUEUED, JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED},
}


@pytest.mark.slow
@pytest.mark.parametrize("status", JobStatus)
@pytest.mark.parametrize("action", ALLOWED)
async def test_what_a_job_s_state_does_not_allow_is_a_conflict(
    database: Database, store: JobStore, action: str, status: JobStatus
) -> None:
    (job_id,) = await add(store, new_job())
    await set_status(database, status, job_id)
    now = utc_now()
    calls = {
        "cancel": lambda: store.request_cancel(job_id, "default", now),
        "retry": lambda: store.requeue(job_id, "default", now),
        "priority": lambda: store.set_priority(job_id, 5, "default"),
        "delete": lambda: store.delete(job_id, "default"),
    }
    if status in ALLOWED[action]:
        await calls[action]()
    else:
        with pytest.raises(Conflict):
            await calls[action]()
        assert (await store.get(job_id, "default")).status is status


async def test_priority_shows_in_the_spec_too(store: JobStore) -> None:
    (job_id,) = await add(store, new_job(priority=1))
    await store.set_priority(job_id, 9, "default")
    job = await store.get(job_id, "default")
    assert (job.priority, job.spec.priority) == (9, 9)


async def test_deleted_job_leaves_no_rows(database: Database, store: JobStore) -> None:
    (job_id,) = await add(store, new_job(key=Idempotency("k", "0" * 64)))
    await store.delete(job_id, "default")
    async with database.read() as connection:
        counts = [
            (await connection.execute(text(f"SELECT count(*) FROM {table}"))).scalar()
            for table in ("jobs", "tasks", "attempts", "idempotency")
        ]
    assert counts == [0, 0, 0, 0]


@pytest.mark.usefixtures("queues")
async def test_counts_are_of_what_waits_and_runs(database: Database, store: JobStore) -> None:
    ids = await add(store, *(new_job(queue=queue) for queue in ("a", "a", "b", "b", "b")))
    await set_status(database, JobStatus.RUNNING, ids[0])
    await set_status(database, JobStatus.FAILED, ids[4])
    assert await store.active_counts() == {
        ("a", JobStatus.RUNNING): 1,
        ("a", JobStatus.QUEUED): 1,
        ("b", JobStatus.QUEUED): 2,
    }


async def test_uploads_expire_unless_a_job_needs_them(database: Database, store: JobStore) -> None:
    uploads = UploadStore(database)
    old = datetime.now(UTC) - timedelta(days=2)
    kept, unused, fresh = (
        Upload(id=new_id(), name="a.mp4", size=1, sha256="0" * 64, created_at=moment)
        for moment in (old, old, datetime.now(UTC))
    )
    for upload in (kept, unused, fresh):
        await uploads.add(upload, "default")
    (job_id,) = await add(store, new_job(input={"upload": kept.id}))
    with pytest.raises(Conflict):
        await uploads.delete(kept.id, "default")
    assert await uploads.expire(old + timedelta(days=1)) == [unused.id]
    await set_status(database, JobStatus.COMPLETED, job_id)
    assert await uploads.expire(old + timedelta(days=1)) == [kept.id]
    assert await uploads.get(fresh.id, "default") == fresh


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("SELECT * FROM jobs WHERE tenant = 't' AND id < 'x' ORDER BY id DESC LIMIT 50", "jobs_by_tenant"),
        ("SELECT * FROM jobs WHERE tenant = 't' AND status = 's' ORDER BY id DESC LIMIT 50", "jobs_by_status"),
        ("SELECT * FROM jobs WHERE tenant = 't' AND queue = 'q' ORDER BY id DESC LIMIT 50", "jobs_by_queue"),
        ("SELECT queue, status, count(*) FROM jobs WHERE status IN ('a', 'b') GROUP BY status, queue", "jobs_active"),
        (
            "SELECT * FROM tasks WHERE state = 's' AND queue = 'q' AND requirement = 'r' "
            "ORDER BY priority DESC, ready_by, queued_at, id LIMIT 4",
            "tasks_pick",
        ),
        ("SELECT min(available_at) FROM tasks WHERE state = 'queued' AND available_at > 'x'", "tasks_available"),
    ],
)
async def test_hot_queries_walk_an_index_and_sort_nothing(database: Database, query: str, index: str) -> None:
    async with database.read() as connection:
        steps = [row.detail for row in (await connection.execute(text(f"EXPLAIN QUERY PLAN {query}"))).all()]
    assert any(index in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps
