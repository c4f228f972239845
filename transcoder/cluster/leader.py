"""One of many: work that only one node is to do at a time, such as sending webhooks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.database import Database

LEADER_LOCK = 7703
TRY_SECONDS = 2.0
SILENCE_SECONDS = 10
"""The server ends the session of a leader that was stopped, and with it its lock."""

logger = logging.getLogger(__name__)


async def keep_leading(database: Database, duties: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Runs `duties`, each until it is cancelled, whenever this node has the lock. Until cancelled."""
    while True:
        try:
            async with database.session() as connection:
                await connection.execute(text(f"SET idle_session_timeout = '{SILENCE_SECONDS}s'"))
                # another process has it
                while not await _lock(connection):  # noqa: ASYNC110
                    await asyncio.sleep(TRY_SECONDS)
                await _lead(connection, duties)
        except SQLAlchemyError:
            logger.warning("this node does not lead: the database is away", exc_info=True)
            await asyncio.sleep(TRY_SECONDS)


async def _lock(connection: AsyncConnection) -> bool:
    return bool((await connection.execute(select(func.pg_try_advisory_lock(LEADER_LOCK)))).scalar())


async def _lead(connection: AsyncConnection, duties: Sequence[Callable[[], Awaitable[None]]]) -> None:
    working = [asyncio.ensure_future(duty()) for duty in duties]
    try:
        while not any(work.done() for work in working):
            # while this is answered the lock is held
            await connection.execute(select(1))
            await asyncio.wait(working, timeout=TRY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for work in working:
            work.cancel()
        await asyncio.wait(working)
