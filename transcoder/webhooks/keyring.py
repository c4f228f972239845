"""The secrets that webhooks are signed with: one for each tenant, and for a while the one before it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.database import Database
from transcoder.tables import webhook_secrets
from transcoder.webhooks.secret import new_secret

_OF = (webhook_secrets.c.secret, webhook_secrets.c.previous, webhook_secrets.c.previous_until)


@dataclass(frozen=True)
class Keys:
    """`previous` signs as well until `previous_until`: receivers change over when it suits them."""

    secret: str
    previous: str | None = None
    previous_until: datetime | None = None

    @property
    def all(self) -> tuple[str, ...]:
        return (self.secret,) if self.previous is None else (self.secret, self.previous)


@dataclass(frozen=True)
class Keyring:
    database: Database

    async def of(self, tenant: str, now: datetime) -> Keys:
        """The tenant's, made at the first call."""
        async with self.database.read() as connection:
            known = await _read(connection, tenant)
        if known is None:
            try:
                async with self.database.write() as connection:
                    fresh = {"tenant": tenant, "secret": new_secret(), "created_at": now}
                    await connection.execute(insert(webhook_secrets).values(**fresh))
            except IntegrityError:
                # another caller was quicker
                pass
            async with self.database.read() as connection:
                known = await _read(connection, tenant)
        assert known is not None
        return _now(known, now)

    async def rotate(self, tenant: str, now: datetime, overlap_seconds: float) -> Keys:
        """A new secret; the present one signs as well for so long, one before that no more."""
        await self.of(tenant, now)
        until = now + timedelta(seconds=overlap_seconds)
        async with self.database.write() as connection:
            known = await _read(connection, tenant)
            assert known is not None
            values = {"secret": new_secret(), "created_at": now, "previous": known.secret, "previous_until": until}
            mine = webhook_secrets.c.tenant == tenant
            await connection.execute(update(webhook_secrets).where(mine).values(**values))
            changed = await _read(connection, tenant)
        assert changed is not None
        return _now(changed, now)


async def _read(connection: AsyncConnection, tenant: str) -> Keys | None:
    """As they were set, whatever the time."""
    query = select(*_OF).where(webhook_secrets.c.tenant == tenant)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else Keys(*row)


def _now(keys: Keys, now: datetime) -> Keys:
    over = keys.previous_until is None or keys.previous_until <= now
    return Keys(keys.secret) if over else keys
