"""Delivers what the outbox holds: a few at a time, fewer to one host, so that nobody waits for a slow receiver."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from transcoder.clock import utc_now
from transcoder.errors import Conflict
from transcoder.settings import Settings
from transcoder.webhooks.deliveries import DeliveryStore, Due, Made
from transcoder.webhooks.keyring import Keys
from transcoder.webhooks.message import signed_headers
from transcoder.webhooks.schedule import Outcome, Unanswered, decide
from transcoder.webhooks.send import Sender

T = TypeVar("T")

AT_ONCE = 32
TO_ONE_TENANT = 16
TO_ONE_HOST = 2

LOOK_SECONDS = 60.0
"""Longest wait without looking: another process may have written something."""

DATABASE_PAUSE_SECONDS = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CourierSettings:
    pauses_seconds: Sequence[float]
    """Between tries; one more try than pauses."""
    keep_seconds: float
    """How long the log of a delivery is kept after its end."""
    secret: str | None
    """In place of one for each tenant."""


class Courier:
    """Runs while `keep_delivering` does; `wake` tells it of something new."""

    def __init__(
        self,
        store: DeliveryStore,
        sender: Sender,
        settings: CourierSettings,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._store = store
        self._sender = sender
        self._settings = settings
        self._clock = clock
        self._changed = asyncio.Event()
        self._under_way: dict[str, tuple[Due, asyncio.Task[None]]] = {}
        self._forget_at: datetime | None = None

    def wake(self) -> None:
        self._changed.set()

    async def keys(self, tenant: str) -> Keys:
        if self._settings.secret is not None:
            return Keys(self._settings.secret)
        return await self._store.keyring.of(tenant, self._clock())

    async def secret(self, tenant: str) -> str:
        return (await self.keys(tenant)).secret

    async def rotate(self, tenant: str, overlap_seconds: float) -> Keys:
        """Conflict where the service has one secret for all."""
        if self._settings.secret is not None:
            raise Conflict("TRANSCODER_WEBHOOK_SECRET is the secret of all tenants: it is changed there")
        return await self._store.keyring.rotate(tenant, self._clock(), overlap_seconds)

    async def keep_delivering(self) -> None:
        """Until cancelled. A try that is cut off then is made again at the next start, with the same id."""
        try:
            while True:
                self._changed.clear()
                try:
                    pause = await _uncut(self.dispatch())
                except SQLAlchemyError:
                    logger.exception("webhooks can't be read; trying again")
                    pause = DATABASE_PAUSE_SECONDS
                try:
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
                except TimeoutError:
                    continue
        finally:
            tasks = [task for _, task in self._under_way.values()]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def dispatch(self) -> float:
        """Starts what is due and has room; seconds until something may be due without being told of."""
        now = self._clock()
        await self._forget(now)
        room = AT_ONCE - len(self._under_way)
        if room > 0:
            due = await self._store.due(
                now,
                farthest=now + timedelta(seconds=2 * max(self._settings.pauses_seconds, default=0.0) + 1),
                besides=tuple(self._under_way),
                to_host=TO_ONE_HOST,
                # more than there is room for: some of their hosts are busy
                to_tenant=4 * TO_ONE_TENANT,
                limit=10 * AT_ONCE,
            )
            for each in _fitting(due, [busy for busy, _ in self._under_way.values()]):
                task = asyncio.create_task(self._deliver(each), name=f"webhook {each.id}")
                self._under_way[each.id] = (each, task)
        following = await self._store.next_due(now)
        if following is None:
            return LOOK_SECONDS
        return min(LOOK_SECONDS, max(0.0, (following - now).total_seconds()))

    async def idle(self) -> None:
        """Waits until no try is under way."""
        while self._under_way:
            await asyncio.wait([task for _, task in self._under_way.values()])

    async def _deliver(self, due: Due) -> None:
        try:
            await self._settle(await self._try(due))
        finally:
            del self._under_way[due.id]
            self.wake()

    async def _try(self, due: Due) -> Made:
        now, started = self._clock(), time.monotonic()
        outcome: Outcome
        try:
            headers = signed_headers((await _uncut(self.keys(due.tenant))).all, due.id, due.body, now)
            outcome = await self._sender.post(due.url, due.body.encode(), headers)
        except Exception:
            # a delivery that stayed as it was would be tried without a pause
            logger.exception("webhook %s failed inside the service", due.id)
            outcome = Unanswered("internal")
        return Made(due, now, round(time.monotonic() - started, 3), outcome)

    async def _settle(self, made: Made) -> None:
        decision = decide(made.outcome, made.due.tries + 1, self._settings.pauses_seconds)
        while True:
            try:
                await _uncut(self._store.settle(made, decision, self._clock()))
            except SQLAlchemyError:
                logger.exception("webhook %s can't be settled; trying again", made.due.id)
                await asyncio.sleep(DATABASE_PAUSE_SECONDS)
            else:
                return

    async def _forget(self, now: datetime) -> None:
        if self._forget_at is None or not now < self._forget_at < now + timedelta(hours=2):
            self._forget_at = now + timedelta(hours=1)
            await self._store.forget(now - timedelta(seconds=self._settings.keep_seconds))


async def _uncut(work: Coroutine[Any, Any, T]) -> T:
    """`work`, which goes to its end also when this is cancelled: a database call that is cut leaves its connection."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


def courier_for(settings: Settings, store: DeliveryStore) -> Courier:
    secret = settings.webhook_secret
    return Courier(
        store,
        Sender(settings.allowed_networks, settings.webhook_timeout_seconds),
        CourierSettings(
            settings.webhook_retry_seconds,
            settings.webhook_keep_seconds,
            None if secret is None else secret.get_secret_value(),
        ),
    )


def _fitting(due: Sequence[Due], busy: Sequence[Due]) -> list[Due]:
    """Those of `due`, in order, that have room beside what is under way."""
    hosts = Counter((each.tenant, each.host) for each in busy)
    tenants = Counter(each.tenant for each in busy)
    total, chosen = len(busy), []
    for each in due:
        host = (each.tenant, each.host)
        if total < AT_ONCE and tenants[each.tenant] < TO_ONE_TENANT and hosts[host] < TO_ONE_HOST:
            chosen.append(each)
            total += 1
            tenants[each.tenant] += 1
            hosts[host] += 1
    return chosen
