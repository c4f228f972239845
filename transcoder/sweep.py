"""Tidying the data folder: what a dead service left, what no row knows, uploads whose time is over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from sqlalchemy.exc import SQLAlchemyError

from transcoder.clock import utc_now
from transcoder.storage import Storage
from transcoder.store import JobStore
from transcoder.uploads import EXPIRED_AT_ONCE, UploadStore

SWEEP_SECONDS = 600.0
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
        for job_id in await _unknown(await asyncio.to_thread(self.storage.stored_jobs), self.store.existing):
            await self.storage.delete_job(job_id)
        for upload_id in await _unknown(await asyncio.to_thread(self.storage.stored_uploads), self.uploads.existing):
            await self.storage.delete_upload(upload_id)

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
        while True:
            try:
                await self.expire_uploads()
                await self.expire_jobs()
                await self.expire_pieces()
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
