"""What a tenant's outputs hold, and the quota on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, text

from tests.transcoder.stubs import CONTENT, ended, give_upload, job_for, running_service
from transcoder.database import Database, migrations_config
from transcoder.errors import TenantOutputsFull
from transcoder.jobs import JobStatus
from transcoder.service import Service
from transcoder.stored_outputs import output_bytes


async def made(service: Service, tenant: str = "default") -> str:
    job, _ = await service.submit(job_for(await give_upload(service, tenant=tenant)), tenant=tenant)
    assert (await ended(service, job.id, tenant)).status is JobStatus.COMPLETED
    return job.id


async def held(database: Database, tenant: str) -> int:
    async with database.read() as connection:
        return (await output_bytes(connection, [tenant])).get(tenant, 0)


@pytest.mark.slow
async def test_a_tenant_whose_outputs_are_full_gets_no_new_jobs_until_it_deletes_some(tmp_path: Path) -> None:
    async with running_service(tmp_path, max_stored_output_bytes=2 * len(CONTENT)) as service:
        first, _ = await made(service), await made(service)
        with pytest.raises(TenantOutputsFull) as refused:
            await made(service)
        assert refused.value.facts == {"limit_bytes": 2 * len(CONTENT)}
        await made(service, "other")
        await service.delete(first)
        await made(service)


@pytest.mark.slow
async def test_what_outputs_hold_follows_the_jobs(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        first, _ = await made(service), await made(service)
        assert await held(service.database, "default") == 2 * len(CONTENT)
        await service.delete(first)
        assert await held(service.database, "default") == len(CONTENT)
        assert await held(service.database, "other") == 0


def old_jobs(connection: Connection) -> None:
    config = migrations_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "0011")
    for job_id, status, outputs in (
        ("a", "completed", '[{"name": "o", "type": "mp4", "files": [{"path": "o.mp4", "size": 5}, {"size": 7}]}]'),
        ("b", "failed", None),
    ):
        connection.execute(
            text(
                "INSERT INTO jobs"
                " (id, tenant, kind, status, queue, priority, cancel_requested, created_at, spec, outputs)"
                " VALUES (:id, 't', 'file', :status, 'default', 0, FALSE, CURRENT_TIMESTAMP, '{}', :outputs)"
            ),
            {"id": job_id, "status": status, "outputs": outputs},
        )


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'transcoder.db'}"
    return str(request.getfixturevalue("cluster_url"))


async def test_outputs_from_before_there_was_a_quota_count(url: str) -> None:
    database = Database(url)
    async with database.write() as connection:
        await connection.run_sync(old_jobs)
    await database.migrate()
    assert await held(database, "t") == 12
