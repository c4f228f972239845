"""Decides whether a key is valid, from what the database says; what it said holds for a second."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from transcoder.auth.errors import Unauthorized
from transcoder.auth.keys import ApiKey, parse_token
from transcoder.auth.store import KeyStore, StoredKey
from transcoder.clock import utc_now

CACHE_SECONDS = 1.0
"""How long a key that was revoked, or the first one that was made, may go unnoticed."""

TOUCH_INTERVAL = timedelta(minutes=1)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Known:
    stored: StoredKey
    until: float


class Authority:
    """Only keys that exist are remembered, so nobody can fill the memory with guesses."""

    def __init__(
        self,
        store: KeyStore,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._store, self._clock, self._now = store, clock, now
        self._known: dict[str, _Known] = {}
        self._required = False
        self._asked_at = -CACHE_SECONDS
        self._touched: dict[str, datetime] = {}

    async def required(self) -> bool:
        """Whether calls need a key: as soon as one was ever made, and from then on."""
        if not self._required and self._clock() - self._asked_at >= CACHE_SECONDS:
            self._required = await self._store.any()
            self._asked_at = self._clock()
        return self._required

    async def authenticate(self, text: str) -> ApiKey:
        """The key that a client's token names; Unauthorized unless it is valid now."""
        token = parse_token(text)
        stored = None if token is None else await self._find(token.key_id)
        if token is None or stored is None or not token.matches(stored.secret_sha256):
            raise Unauthorized("this key is not known", presented=True)
        key = self._valid(stored.key)
        await self._touch(key)
        return key

    async def holder(self, key_id: str) -> ApiKey:
        """The key that made a link; Unauthorized unless it is valid now."""
        stored = await self._find(key_id)
        if stored is None:
            raise Unauthorized("the key that made this link is not known", presented=True)
        return self._valid(stored.key)

    async def _find(self, key_id: str) -> StoredKey | None:
        known = self._known.get(key_id)
        if known is not None and self._clock() < known.until:
            return known.stored
        until = self._clock() + CACHE_SECONDS
        stored = await self._store.find(key_id)
        if stored is not None:
            self._known[key_id] = _Known(stored, until)
        return stored

    async def _touch(self, key: ApiKey) -> None:
        now = self._now()
        before = self._touched.get(key.id, key.last_used_at)
        if before is not None and timedelta() <= now - before < TOUCH_INTERVAL:
            return
        self._touched[key.id] = now
        try:
            await self._store.touch(key.id, now)
        except SQLAlchemyError:
            # such as a full disk: the call itself may well succeed
            logger.warning("the use of key %s can't be noted", key.id, exc_info=True)

    def _valid(self, key: ApiKey) -> ApiKey:
        reason = key.ended(self._now())
        if reason is not None:
            raise Unauthorized(f"this key is {reason}", presented=True)
        return key
