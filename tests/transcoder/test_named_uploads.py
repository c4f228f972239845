"""Uploads beside a job's input, such as images: there when it is added, and kept while it may need them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.transcoder.test_store import add, new_job, set_status
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.errors import Conflict, InputUploadNotFound
from transcoder.ids import new_id
from transcoder.jobs import JobStatus, Upload
from transcoder.store import Added, JobStore, NewJob
from transcoder.uploads.uploads import UploadStore


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[Database, None]:
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'transcoder.db'}")
    await database.migrate()
    yield database
    await database.close()


@pytest.fixture
def store(database: Database) -> JobStore:
    return JobStore(database)


def with_logo(upload: str, tenant: str = "default") -> NewJob:
    overlay: dict[str, Any] = {"type": "overlay", "image": {"upload": upload}}
    return new_job(tenant, outputs=[{"type": "mp4", "video": {"filters": [overlay]}}])


async def logo(uploads: UploadStore, tenant: str = "default") -> str:
    upload = Upload(id=new_id(), name="logo.png", size=10, sha256="0" * 64, created_at=utc_now())
    await uploads.add(upload, tenant)
    return upload.id


async def test_a_job_with_an_image_that_is_not_there_is_refused(database: Database, store: JobStore) -> None:
    foreign = await logo(UploadStore(database), "other")
    for upload in ("nothing", foreign):
        (refused,) = await store.add([with_logo(upload)])
        assert isinstance(refused, InputUploadNotFound)
        assert refused.facts["upload"] == upload


@pytest.mark.parametrize("status", [JobStatus.QUEUED, JobStatus.RUNNING])
async def test_an_image_stays_while_a_job_may_need_it(
    database: Database,
    store: JobStore,
    status: JobStatus,
) -> None:
    uploads = UploadStore(database)
    image = await logo(uploads)
    (job,) = await add(store, with_logo(image))
    await set_status(database, status, job)
    with pytest.raises(Conflict):
        await uploads.delete(image, "default")
    assert await uploads.expire(utc_now() + timedelta(days=1)) == []
    await set_status(database, JobStatus.COMPLETED, job)
    await uploads.delete(image, "default")


@pytest.mark.slow
async def test_a_job_whose_image_is_gone_is_not_tried_again(database: Database, store: JobStore) -> None:
    uploads = UploadStore(database)
    image = await logo(uploads)
    (job,) = await add(store, with_logo(image))
    await set_status(database, JobStatus.FAILED, job)
    await uploads.delete(image, "default")
    with pytest.raises(InputUploadNotFound):
        await store.requeue(job, "default", utc_now())


async def test_a_job_that_is_deleted_forgets_its_images(database: Database, store: JobStore) -> None:
    uploads = UploadStore(database)
    image = await logo(uploads)
    (job,) = await add(store, with_logo(image))
    await set_status(database, JobStatus.CANCELLED, job)
    await store.delete(job, "default")
    await uploads.delete(image, "default")
    assert isinstance((await store.add([new_job()]))[0], Added)
