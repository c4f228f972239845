"""How a service takes possession of its data folder and its database when it starts."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass

from transcoder import settlement
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.lock import FolderLock
from transcoder.resumable import Resumable
from transcoder.retry import RetryPolicy
from transcoder.storage import Storage
from transcoder.sweep import Sweeper

LOCK_SECONDS = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LocalSite:
    """Alone on both. What a dead service left running is queued again, what no row knows is removed."""

    database: Database
    storage: Storage
    resumable: Resumable
    sweeper: Sweeper
    retry: RetryPolicy

    async def open(self, scope: AsyncExitStack) -> None:
        """`scope` gives everything back. AlreadyRunning when another service has the folder."""
        await asyncio.to_thread(self.storage.prepare)
        lock = FolderLock(self.storage.data_dir / "service.lock")
        await lock.acquire(wait_seconds=LOCK_SECONDS)
        scope.callback(lock.release)
        scope.push_async_callback(self.database.close)
        await self.database.migrate()
        await self._recover()
        await self.resumable.recover()
        await self.sweeper.sweep_at_start()

    async def _recover(self) -> None:
        async with self.database.write() as connection:
            settled = await settlement.recover(connection, self.retry, utc_now())
        for job_id, status in settled:
            logger.warning("job %s was running when the service died; it is %s now", job_id, status.value)
            await self.storage.discard_job_outputs(job_id)
