"""API keys in the database. Rows are never deleted: a service that had a key once never falls open again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import RowMapping, insert, select, update

from transcoder.auth.errors import KeyNotFound
from transcoder.auth.keys import ApiKey, Token
from transcoder.auth.tables import api_keys
from transcoder.database import Database


@dataclass(frozen=True)
class StoredKey:
    key: ApiKey
    secret_sha256: str


class KeyStore:
    """Each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: ApiKey, token: Token) -> None:
        values = key.model_dump() | {
            "scopes": list(key.scopes),
            "queues": None if key.queues is None else [*key.queues],
        }
        async with self._database.write() as connection:
            await connection.execute(insert(api_keys).values(**values, secret_sha256=token.digest()))

    async def any(self) -> bool:
        """Whether a key was ever made."""
        async with self._database.read() as connection:
            return (await connection.execute(select(api_keys.c.id).limit(1))).first() is not None

    async def find(self, key_id: str) -> StoredKey | None:
        async with self._database.read() as connection:
            found = await connection.execute(select(api_keys).where(api_keys.c.id == key_id))
            row = found.mappings().one_or_none()
        return None if row is None else StoredKey(_key_from(row), row["secret_sha256"])

    async def all(self) -> tuple[ApiKey, ...]:
        """Oldest first, with those that have ended."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id))
            return tuple(map(_key_from, rows.mappings()))

    async def revoke(self, key_id: str, now: datetime) -> None:
        """For good; again changes nothing. KeyNotFound for an unknown id."""
        async with self._database.write() as connection:
            mine = api_keys.c.id == key_id
            if (await connection.execute(select(api_keys.c.id).where(mine))).one_or_none() is None:
                raise KeyNotFound(f"there is no key {key_id!r}", key=key_id)
            await connection.execute(
                update(api_keys).where(mine, api_keys.c.revoked_at.is_(None)).values(revoked_at=now)
            )

    async def touch(self, key_id: str, now: datetime) -> None:
        """Notes that the key was used."""
        async with self._database.write() as connection:
            await connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(last_used_at=now))


def _key_from(row: RowMapping) -> ApiKey:
    return ApiKey.model_validate({name: row[name] for name in ApiKey.model_fields})
