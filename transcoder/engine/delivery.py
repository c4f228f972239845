"""Claims on their way to nodes: messages of the library Procrastinate, in PostgreSQL.

A message is written in the transaction that makes the claim, and the node's worker hears of it at once (LISTEN/NOTIFY).
It only hands the claim over: how long an attempt takes, and how it ends, is no matter of the engine's tables, so an
attempt goes on while the database is away.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import procrastinate
import psycopg
from procrastinate.exceptions import ProcrastinateException
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.database import Database, raw_connection
from transcoder.queueing.admission import Claim

TASK = "attempt"
POLL_SECONDS = 5.0
"""How often workers look without having been told."""

RESTART_SECONDS = 1.0
FAILURES = (ProcrastinateException, psycopg.Error, OSError)

Handle = Callable[[str, int], Awaitable[None]]
"""Is handed a task's id and an attempt's number."""

logger = logging.getLogger(__name__)


def queue_of(device_id: str) -> str:
    """The engine's queue of a device: short, since it becomes the name of a channel."""
    return f"device-{hashlib.sha256(device_id.encode()).hexdigest()[:20]}"


async def prepare(database: Database) -> None:
    """Makes the engine's tables when they are not there. After our own migrations."""
    async with database.write() as connection:
        found = await connection.execute(text("SELECT to_regclass('procrastinate_jobs')"))
        if found.scalar() is None:
            schema = procrastinate.App(connector=procrastinate.PsycopgConnector()).schema_manager.get_schema()
            await (await raw_connection(connection)).execute(schema)


class Delivery:
    """Sends claims, and has a worker for each device of this node."""

    def __init__(self, database: Database, handle: Handle) -> None:
        self._database, self._handle = database, handle
        self._app: procrastinate.App | None = None
        self._workers: dict[str, asyncio.Task[None]] = {}

    async def open(self, devices: int) -> None:
        """With room for the workers of so many devices: each keeps a connection of its own."""
        connector = procrastinate.PsycopgConnector(
            conninfo=self._database.dsn, min_size=1, max_size=2 * devices + 6, timeout=10.0
        )
        app = procrastinate.App(connector=connector)

        async def attempt(task_id: str, attempt: int) -> None:
            await self._handle(task_id, attempt)

        app.task(name=TASK)(attempt)
        await app.open_async()
        self._app = app

    async def close(self) -> None:
        await self.stop()
        if self._app is not None:
            await self._app.close_async()

    async def stop(self) -> None:
        """Takes nothing more."""
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.wait(workers)
        self._workers.clear()

    async def send(self, connection: AsyncConnection, claim: Claim) -> None:
        """In the transaction of `connection`, which made the claim."""
        assert self._app is not None
        deferrer = self._app.configure_task(
            TASK, queue=queue_of(claim.device.id), connection=await raw_connection(connection)
        )
        await deferrer.defer_async(task_id=claim.task_id, attempt=claim.attempt)

    def listen(self, device_id: str) -> None:
        """Starts the device's worker, which is started again whenever it ends."""
        if device_id not in self._workers:
            self._workers[device_id] = asyncio.create_task(self._keep_working(device_id), name=f"worker {device_id}")

    def working(self) -> bool:
        return all(not worker.done() for worker in self._workers.values())

    async def _keep_working(self, device_id: str) -> None:
        options: dict[str, Any] = {"concurrency": 16, "delete_jobs": "always", "install_signal_handlers": False}
        assert self._app is not None
        while True:
            try:
                await self._app.run_worker_async(
                    name=device_id, queues=[queue_of(device_id)], fetch_job_polling_interval=POLL_SECONDS, **options
                )
            except FAILURES:
                logger.warning("the worker of %s lost the database; it starts again", device_id, exc_info=True)
            await asyncio.sleep(RESTART_SECONDS)
