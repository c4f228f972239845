"""Databases from before there were queues: every name that jobs have is a queue, and what waits goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, text

from tests.transcoder.queue_sim import CPU
from transcoder.clock import utc_now
from transcoder.database import Database, migrations_config
from transcoder.queueing.admission import FreeSlots, claim
from transcoder.queueing.queues import QueueStore
from transcoder.store import JobStore

SPEC = '{"kind": "file", "input": {"path": "/a.mp4"}, "outputs": [{"type": "mp4"}], "queue": "films", "metadata": {}}'


def before(connection: Connection) -> None:
    config = migrations_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "0003")
    for number, status in enumerate(("queued", "completed")):
        connection.execute(
            text(
                "INSERT INTO jobs (id, tenant, kind, status, queue, priority, cancel_requested, created_at, spec)"
                " VALUES (:id, 't', 'file', :status, 'films', 3, FALSE, CURRENT_TIMESTAMP, :spec)"
            ),
            {"id": f"{number:034x}", "status": status, "spec": SPEC},
        )
        connection.execute(
            text(
                "INSERT INTO tasks (id, job_id, number, state, requirement, priority, queued_at, available_at, attempt,"
                " budget_from) VALUES (:id, :job, 0, :state, 'any', 3, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, :n, 0)"
            ),
            {"id": f"{number:034x}-0", "job": f"{number:034x}", "state": status, "n": number},
        )
    connection.execute(
        text(
            "INSERT INTO attempts (task_id, number, job_id, task, device, status, reason, started_at)"
            " VALUES (:task, 1, :job, 0, 'software', 'completed', '', CURRENT_TIMESTAMP)"
        ),
        {"task": f"{1:034x}-0", "job": f"{1:034x}"},
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'transcoder.db'}"
    return str(request.getfixturevalue("cluster_url"))


async def test_a_database_of_the_version_before_is_brought_up_to_date(url: str) -> None:
    database = Database(url)
    async with database.write() as connection:
        await connection.run_sync(before)
    await database.migrate()
    assert [queue.name for queue in await QueueStore(database).all()] == ["default", "films"]
    done = await JobStore(database).get(f"{1:034x}", "t")
    assert [attempt.status for attempt in done.attempts] == ["completed"]
    async with database.write() as connection:
        (started,) = await claim(connection, [FreeSlots(CPU, 2)], utc_now())
    assert (started.job_id, started.tenant, started.kind) == (f"{0:034x}", "t", "file")
    await database.close()
