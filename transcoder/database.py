"""The database: connections, transactions, migrations.

SQLite runs in WAL mode with synchronous=FULL: what was committed survives a power cut. Writers take the write lock
when they begin (BEGIN IMMEDIATE), so a transaction never fails half way because another one wrote meanwhile.

PostgreSQL is made to behave the same: a write transaction begins with an advisory lock, so what it reads stays true
until it commits. A process that is stopped within one loses its connection, and with it the lock, after a while.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, PoolProxiedConnection, Select, create_engine, event, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from transcoder.clock import utc_now
from transcoder.prepared import Asked, Prepared, Raw

T = TypeVar("T")

BUSY_TIMEOUT_SECONDS = 10

WRITERS_LOCK, MIGRATION_LOCK = 7701, 7702
"""Advisory locks of PostgreSQL."""

_POSTGRES = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
    "options": "-c idle_in_transaction_session_timeout=10s -c lock_timeout=30s -c timezone=UTC",
}
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
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            self._engine = create_async_engine(parsed)
        else:
            if parsed.drivername == "postgresql":
                parsed = parsed.set(drivername="postgresql+psycopg")
            self._engine = create_async_engine(
                parsed, pool_pre_ping=True, pool_size=5, max_overflow=15, connect_args=_POSTGRES
            )
        # SQLite has one writer; waiting here is fair, waiting in the database polls
        self._writing: asyncio.Lock | None = None
        self._looking: Engine | None = None
        self._glancing: PoolProxiedConnection | None = None
        if self.is_sqlite:
            self._writing = asyncio.Lock()
            self._looking = create_engine(parsed.set(drivername="sqlite"), pool_size=4)
            _speak_sqlite(self._engine.sync_engine)
            _speak_sqlite(self._looking)

    @property
    def is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[AsyncConnection, None]:
        async with self._engine.connect() as connection, connection.begin():
            yield connection

    async def look(self, read: Callable[[Connection], T]) -> T:
        """What `read` finds in one transaction. For what is asked often: on SQLite each step of an asynchronous one is
        a turn of a thread, here all of them together are one."""
        looking = self._looking
        if looking is None:
            async with self.read() as connection:
                return await connection.run_sync(read)

        def looked() -> T:
            with looking.connect() as connection, connection.begin():
                return read(connection)

        return await asyncio.to_thread(looked)

    def prepare(self, query: Select[Any]) -> Prepared:
        return Prepared(query, self._engine.dialect)

    async def glance(self, *asked: Asked) -> list[tuple[Raw, ...]]:
        """Rows of a few prepared queries in one transaction. For single rows by their keys, which are asked for all
        the time: on SQLite they are read here and now, in a fraction of what a turn of a thread costs."""
        if self._looking is not None:
            try:
                return self._glance(self._looking, asked)
            except sqlite3.Error:
                # such as a log that is just being recovered: there is time to wait for it elsewhere
                self._forget_glancing()
        return await self.look(lambda connection: [query.rows(connection, values) for query, values in asked])

    def _glance(self, engine: Engine, asked: tuple[Asked, ...]) -> list[tuple[Raw, ...]]:
        if self._glancing is None:
            self._glancing = engine.raw_connection()
            # nobody waits on the thread that serves everyone
            self._glancing.cursor().execute("PRAGMA busy_timeout = 0")
        cursor = self._glancing.cursor()
        cursor.execute("BEGIN")
        try:
            return [tuple(cursor.execute(query.sql, query.arguments(values))) for query, values in asked]
        finally:
            cursor.execute("COMMIT")

    def _forget_glancing(self) -> None:
        if self._glancing is not None:
            self._glancing.invalidate()
            self._glancing = None

    def write(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """The only writer at a time."""
        return self._write(_BEGIN_WRITE)

    @asynccontextmanager
    async def touch(self) -> AsyncGenerator[AsyncConnection, None]:
        """For a single statement that changes a single row, and needs nothing besides to be true."""
        if self._writing is not None:
            async with self._write(_BEGIN_WRITE) as connection:
                yield connection
            return
        async with self._engine.begin() as connection:
            yield connection

    @asynccontextmanager
    async def _write(self, begin: tuple[str, ...]) -> AsyncGenerator[AsyncConnection, None]:
        if self._writing is None:
            async with self._engine.begin() as connection:
                await connection.execute(select(func.pg_advisory_xact_lock(WRITERS_LOCK)))
                yield connection
            return
        async with self._writing, self._engine.connect() as plain:
            connection = await plain.execution_options(**{_BEGIN: begin})
            async with connection.begin():
                yield connection

    async def migrate(self) -> None:
        """Brings the tables to this version's, or leaves them as they are. On SQLite the caller holds the folder."""
        async with self._write(_BEGIN_MIGRATION) as connection:
            if not self.is_sqlite:
                await connection.execute(select(func.pg_advisory_xact_lock(MIGRATION_LOCK)))
            await connection.run_sync(_upgrade)
        # the connection that does not check foreign keys goes
        await self._engine.dispose()

    async def close(self) -> None:
        await self._engine.dispose()
        self._forget_glancing()
        if self._looking is not None:
            self._looking.dispose()

    @property
    def dsn(self) -> str:
        """What libpq calls the address; with the password."""
        return self._engine.url.set(drivername="postgresql").render_as_string(hide_password=False)

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[AsyncConnection, None]:
        """A connection of its own, each statement a transaction; ended, not given back, when left."""
        async with self._engine.connect() as plain:
            connection = await plain.execution_options(isolation_level="AUTOCOMMIT")
            try:
                yield connection
            finally:
                await connection.invalidate()


async def current_time(connection: AsyncConnection) -> datetime:
    """The time that all who share the database agree on."""
    if connection.dialect.name == "sqlite":
        return utc_now()
    moment: datetime = (await connection.execute(select(func.clock_timestamp()))).scalar_one()
    return moment


async def raw_connection(connection: AsyncConnection) -> Any:
    """The driver's own connection, in the same transaction."""
    return (await connection.get_raw_connection()).driver_connection


def migrations_config() -> Config:
    config = Config()
    config.set_main_option("script_location", "transcoder:migrations")
    return config


def _upgrade(connection: Connection) -> None:
    config = migrations_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _speak_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, record: Any) -> None:
        # the driver begins no transactions by itself: _on_begin does
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in _PRAGMAS:
            cursor.execute(pragma)
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        for statement in connection.get_execution_options().get(_BEGIN, _BEGIN_READ):
            connection.exec_driver_sql(statement)
