"""The keys from outside of the service, which may run meanwhile or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from transcoder.auth.store import KeyStore
from transcoder.database import Database
from transcoder.errors import AlreadyRunning
from transcoder.lock import FolderLock
from transcoder.settings import Settings


@asynccontextmanager
async def open_keys(settings: Settings) -> AsyncGenerator[KeyStore, None]:
    """Makes the data folder and the tables when they are not there."""
    await asyncio.to_thread(settings.data_dir.mkdir, mode=0o700, parents=True, exist_ok=True)
    database = Database(settings.effective_database_url)
    lock = FolderLock(settings.data_dir / "service.lock")
    try:
        try:
            await lock.acquire(wait_seconds=0)
        except AlreadyRunning:
            # the service that runs has brought the tables up to date
            yield KeyStore(database)
            return
        try:
            await database.migrate()
        finally:
            lock.release()
        yield KeyStore(database)
    finally:
        await database.close()


async def keys_exist(settings: Settings) -> bool:
    """Whether a key was ever made. Makes nothing."""
    if settings.database_url is None and not (settings.data_dir / "transcoder.db").exists():
        return False
    async with open_keys(settings) as keys:
        return await keys.any()
