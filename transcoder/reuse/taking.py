"""Takes the result of a job that did the same."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from pipelines.opening.beside import files_beside
from pipelines.spec import FileJob
from transcoder.attempts.settlement import Completed
from transcoder.attempts.stopping import unless_stopped
from transcoder.database import Database
from transcoder.depot import Place
from transcoder.engine import Stop
from transcoder.errors import UploadNotFound
from transcoder.inputs import LocalInput
from transcoder.jobs import Job
from transcoder.queueing.admission import Claim
from transcoder.receipts.tables import receipts
from transcoder.records import attempts_of, job_from
from transcoder.reuse.key import hashed, placed, work_key
from transcoder.reuse.roles import Follow, Work, seek
from transcoder.storage import Storage
from transcoder.tables import jobs
from transcoder.uploads.partfile import hash_file
from transcoder.uploads.uploads import UploadStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Taking:
    """`on`: whether anything is taken at all."""

    database: Database
    storage: Storage
    uploads: UploadStore
    on: bool

    def _concerns(self, claim: Claim, spec: FileJob) -> bool:
        """Not a job that names files which may change beside its input; an upload is the same for ever."""
        lasting = all(file.upload is not None for file in files_beside(spec))
        # a key is of one source
        return self.on and spec.reuse and lasting and claim.number == 0 and spec.inputs is None

    async def before(self, claim: Claim, spec: FileJob) -> Completed | Follow | None:
        """For an upload, whose bytes are known by their hash before they are brought. None: it is to be done."""
        if not self._concerns(claim, spec) or spec.input.upload is None:
            return None
        try:
            upload = await self.uploads.get(spec.input.upload, claim.tenant)
        except UploadNotFound:
            return None
        return await self._found(claim, work_key(spec, hashed(upload.sha256)))

    async def after(
        self, claim: Claim, spec: FileJob, source: LocalInput, stop: Stop
    ) -> tuple[LocalInput, Completed | Follow | None]:
        """The same for other inputs, which are here now: a download by its hash, which the input has from now on."""
        if not self._concerns(claim, spec) or spec.input.upload is not None:
            return source, None
        if spec.input.path is not None:
            key = work_key(spec, await asyncio.to_thread(placed, source.path))
        else:
            sha256 = await unless_stopped(asyncio.to_thread(_sha256, source.path), stop)
            source = replace(source, sha256=sha256)
            key = work_key(spec, hashed(sha256))
        return source, await self._found(claim, key)

    async def _found(self, claim: Claim, key: str) -> Completed | Follow | None:
        work = Work(claim.job_id, claim.tenant, key)
        failed: set[str] = set()
        while True:
            try:
                async with self.database.write() as connection:
                    found = await seek(connection, work, without=failed)
            except SQLAlchemyError:
                # the job is not to fail by the database: it is done
                logger.warning("whether others do what job %s does can't be read", claim.job_id, exc_info=True)
                return None
            if not isinstance(found, str):
                return found
            taken = await self._take(claim, found)
            if taken is not None:
                return taken
            failed.add(found)

    async def _take(self, claim: Claim, donor_id: str) -> Completed | None:
        """None when the donor, or what it published, is gone."""
        donor, receipt = await self._read(donor_id)
        if donor is None:
            return None
        files = [file for output in donor.outputs for file in output.files]
        place = Place(claim.job_id, claim.attempt)
        try:
            await self.storage.depot.adopt(Place(donor.id, donor.published_attempt), place, files)
        except FileNotFoundError:
            await self.storage.depot.discard(place)
            logger.info("the result of job %s is gone; the work is done anew", donor.id)
            return None
        way = f"job {donor.id} did the same: its result was taken"
        return Completed(donor.outputs, donor.warnings, receipt, way, reused_from=donor.id, plan=donor.plan)

    async def _read(self, job_id: str) -> tuple[Job | None, dict[str, Any] | None]:
        async with self.database.read() as connection:
            row = (await connection.execute(select(jobs).where(jobs.c.id == job_id))).mappings().one_or_none()
            if row is None:
                return None, None
            tries = await attempts_of(connection, [job_id])
            body = await connection.execute(select(receipts.c.body).where(receipts.c.job_id == job_id))
            return job_from(row, tries.get(job_id, ())), body.scalar()


def _sha256(path: Path) -> str:
    return hash_file(path, path.stat().st_size).hexdigest()
