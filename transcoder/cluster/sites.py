"""How a service takes possession of its data folder and its database when it starts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

from transcoder.attempts import settlement
from transcoder.attempts.retry import LOST, RetryPolicy
from transcoder.clock import utc_now
from transcoder.cluster.leader import keep_leading
from transcoder.cluster.leases import Leases
from transcoder.cluster.nodes import NodeStore
from transcoder.database import Database
from transcoder.lock import FolderLock
from transcoder.settings import Role
from transcoder.storage import Storage
from transcoder.sweep import Sweeper
from transcoder.uploads.resumable import Resumable

LOCK_SECONDS = 5.0

logger = logging.getLogger(__name__)


Duty = Callable[[], Awaitable[None]]
"""Goes on until it is cancelled."""


class Site(Protocol):
    async def open(self, scope: AsyncExitStack) -> None:
        """`scope` gives everything back. AlreadyRunning when another service has the folder, or the node's name."""

    def shared(self, duties: Sequence[Duty]) -> Sequence[Duty]:
        """The same duties, done by one node at a time."""


@dataclass(frozen=True)
class LocalSite:
    """Alone on both. What a dead service left running is queued again, what no row knows is removed."""

    database: Database
    storage: Storage
    resumable: Resumable
    sweeper: Sweeper
    retry: RetryPolicy

    async def open(self, scope: AsyncExitStack) -> None:
        await asyncio.to_thread(self.storage.prepare)
        lock = FolderLock(self.storage.data_dir / "service.lock")
        await lock.acquire(wait_seconds=LOCK_SECONDS)
        scope.callback(lock.release)
        # also when it is refused: the process may end in a moment
        scope.push_async_callback(self.storage.depot.close)
        await self.storage.depot.prepare()
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

    def shared(self, duties: Sequence[Duty]) -> Sequence[Duty]:
        return duties


@dataclass(frozen=True)
class ClusterSite:
    """A node among others, whose files stay untouched. What this one left running when it died is queued again."""

    database: Database
    storage: Storage
    resumable: Resumable
    nodes: NodeStore
    leases: Leases
    role: Role
    prepare_engine: Callable[[Database], Awaitable[None]]

    async def open(self, scope: AsyncExitStack) -> None:
        await asyncio.to_thread(self.storage.prepare)
        lock = FolderLock(self.storage.data_dir / f"node-{self.leases.node}.lock")
        await lock.acquire(wait_seconds=LOCK_SECONDS)
        scope.callback(lock.release)
        # also when it is refused: the process may end in a moment
        scope.push_async_callback(self.storage.depot.close)
        await self.storage.depot.prepare()
        scope.push_async_callback(self.database.close)
        await self.database.migrate()
        await self.prepare_engine(self.database)
        await self.resumable.prepare()
        await asyncio.to_thread(self.storage.clear_scratch)
        for ended in await self.leases.give_back(LOST):
            logger.warning("job %s was running when this node died; it is %s now", ended.ticket.job_id, ended.status)
            await self.storage.discard_attempt(ended.ticket.job_id, ended.ticket.attempt, ended.ticket.number)
        await self.nodes.register(self.leases.node, self.role)

    def shared(self, duties: Sequence[Duty]) -> Sequence[Duty]:
        return (lambda: keep_leading(self.database, duties),)
