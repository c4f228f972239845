"""Tidying the data folder: what a dead service left, what no row knows, uploads whose time is over."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from sqlalchemy.exc import SQLAlchemyError

from transcoder.clock import utc_now
from transcoder.depot import Place
from transcoder.errors import ServiceError
from transcoder.storage import Storage
from transcoder.store import JobStore
from transcoder.uploads.uploads import EXPIRED_AT_ONCE, UploadStore

SWEEP_SECONDS = 600.0
STRAYS_EVERY_SECONDS = 6 * 3600.0
STRAY_SECONDS = 3600.0
"""How old an upload without a row has to be."""
_IDS_AT_ONCE = 500

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sweeper:
    """`upload_ttl_seconds`: how long an upload that no queued or running job uses is kept.

    `job_ttl_seconds`: how long an ended job is kept with its outputs; None: until someone deletes it.
    """

    storage: Storage
    store: JobStore
    uploads: UploadStore
    upload_ttl_seconds: float
    job_ttl_seconds: float | None = None

    async def sweep_at_start(self) -> None:
        """Removes scratch, half uploads, and files whose rows are gone. Only before anything runs."""
        await asyncio.to_thread(self.storage.clear_scratch)
        depot = self.storage.depot
        here = await asyncio.to_thread(self.storage.jobs_here)
        if not depot.swept_from_afar:
            here |= await depot.stored_jobs()
            for upload_id in await _unknown(await depot.stored_uploads(), self.uploads.existing):
                await self.storage.delete_upload(upload_id)
        for job_id in await _unknown(here, self.store.existing):
            await self.storage.delete_job(job_id)

    async def sweep_strays(self) -> None:
        """Removes what nobody will ask for any more, while nodes work: of jobs and uploads that are gone, and what
        attempts published that did not complete. An upload's row comes a moment after its file."""
        depot = self.storage.depot
        for job_id in await _unknown(await depot.stored_jobs(), self.store.existing):
            await depot.delete_job(job_id)
        before = utc_now() - timedelta(seconds=STRAY_SECONDS)
        for upload_id in await _unknown(await depot.stored_uploads(before), self.uploads.existing):
            await depot.delete_upload(upload_id)
        places = await depot.stored_places()
        wanted: set[Place] = set()
        for some in _parts(sorted({place.job_id for place in places})):
            wanted |= {Place(*each) for each in await self.store.attempts_that_count(some)}
        for place in places - wanted:
            await depot.discard(place)

    async def expire_uploads(self) -> None:
        before = utc_now() - timedelta(seconds=self.upload_ttl_seconds)
        while True:
            expired = await self.uploads.expire(before)
            for upload_id in expired:
                await self.storage.delete_upload(upload_id)
            if len(expired) < EXPIRED_AT_ONCE:
                return

    async def expire_jobs(self) -> None:
        if self.job_ttl_seconds is None:
            return
        before = utc_now() - timedelta(seconds=self.job_ttl_seconds)
        while True:
            expired = await self.store.expire(before)
            for job_id in expired:
                await self.storage.delete_job(job_id)
            if len(expired) < EXPIRED_AT_ONCE:
                return

    async def expire_pieces(self) -> None:
        """Pieces of jobs that completed, or can't be tried again any more: uploads are not kept for longer either."""
        before = utc_now() - timedelta(seconds=self.upload_ttl_seconds)
        for some in _parts(sorted(await asyncio.to_thread(self.storage.pieces.jobs))):
            for job_id in await self.store.ended_before(some, before):
                await self.storage.pieces.delete_job(job_id)

    async def keep_sweeping(self) -> None:
        """Until cancelled."""
        strays_at = time.monotonic()
        while True:
            try:
                await self.expire_uploads()
                await self.expire_jobs()
                await self.expire_pieces()
                if self.storage.depot.swept_from_afar and time.monotonic() >= strays_at:
                    await self.sweep_strays()
                    strays_at = time.monotonic() + STRAYS_EVERY_SECONDS
            except ServiceError as error:
                logger.warning("what is stored can't be swept; trying again: %s", error.message)
            except SQLAlchemyError:
                logger.warning("uploads and jobs can't be swept; trying again", exc_info=True)
            shortest = min(self.upload_ttl_seconds, self.job_ttl_seconds or self.upload_ttl_seconds)
            await asyncio.sleep(min(SWEEP_SECONDS, max(1.0, shortest / 4)))


async def _unknown(ids: set[str], existing: Callable[[Sequence[str]], Awaitable[set[str]]]) -> list[str]:
    """Those of `ids` that have no row."""
    unknown = []
    for some in _parts(sorted(ids)):
        known = await existing(some)
        unknown += [each for each in some if each not in known]
    return unknown


def _parts(ids: Iterable[str]) -> Iterable[list[str]]:
    walk = iter(ids)
    while part := list(islice(walk, _IDS_AT_ONCE)):
        yield part
