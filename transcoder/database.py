"""The database: connections, transactions, migrations.

SQLite runs in WAL mode with synchronous=FULL: what was committed survives a power cut. Writers take the write lock
when they begin (BEGIN IMMEDIATE), so a transaction never fails half way because another one wrote meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, event
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

BUSY_TIMEOUT_SECONDS = 10
_BEGIN = "sqlite_begin"
_BEGIN_READ = ("BEGIN",)
_BEGIN_WRITE = ("BEGIN IMMEDIATE",)
# altering a table in SQLite is copying and dropping it, which would cascade to the rows that refer to it
_BEGIN_MIGRATION = ("PRAGMA foreign_keys = OFF", "BEGIN IMMEDIATE")

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_SECONDS * 1000}",
    "PRAGMA foreign_keys = ON",
    "PRAGMA wal_autocheckpoint = 1000",
)


class Database:
    """Transactions on one database. `read` and `write` commit when left without an error, and roll back otherwise."""

    def __init__(self, url: str) -> None:
        self._engine = create_async_engine(url, pool_pre_ping=make_url(url).get_backend_name() != "sqlite")
        # SQLite has one writer; waiting here is fair, waiting in the database polls
        self._writing: asyncio.Lock | None = None
        if self.is_sqlite:
            self._writing = asyncio.Lock()
            _speak_sqlite(self._engine)

    @property
    def is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncConnection, None]:
        async with self._engine.connect() as connection, connection.begin():
            yield connection

    def write(self) -> AbstractAsyncContextManager[AsyncConnection]:
        return self._write(_BEGIN_WRITE)

    @asynccontextmanager
    async def _write(self, begin: tuple[str, ...]) -> AsyncGenerator[AsyncConnection, None]:
        if self._writing is None:
            async with self._engine.begin() as connection:
                yield connection
            return
        async with self._writing, self._engine.connect() as plain:
            connection = await plain.execution_options(**{_BEGIN: begin})
            async with connection.begin():
                yield connection

    async def migrate(self) -> None:
        """Brings the tables to this version's, or leaves them as they are. The caller holds the service's lock."""
        async with self._write(_BEGIN_MIGRATION) as connection:
            await connection.run_sync(_upgrade)
        # the connection that does not check foreign keys goes
        await self._engine.dispose()

    async def close(self) -> None:
        await self._engine.dispose()


def migrations_config() -> Config:
    config = Config()
    config.set_main_option("script_location", "transcoder:migrations")
    return config


def _upgrade(connection: Connection) -> None:
    config = migrations_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _speak_sqlite(engine: AsyncEngine) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def _on_connect(connection: Any, record: Any) -> None:
        # the driver begins no transactions by itself: _on_begin does
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in _PRAGMAS:
            cursor.execute(pragma)
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _on_begin(connection: Connection) -> None:
        for statement in connection.get_execution_options().get(_BEGIN, _BEGIN_READ):
            connection.exec_driver_sql(statement)
