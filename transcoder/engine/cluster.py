"""The engine of many processes on one PostgreSQL: each gives free slots away, on whatever node, and runs its own.

Slots are counted in the database, within the transaction that fills them. A node keeps what it runs by beats; any node
takes away what was not heard of (see `leases`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.devices import Device
from transcoder.attempts.retry import STOPPED
from transcoder.cluster.leases import Ended, Leases
from transcoder.cluster.nodes import NodeDevice, NodeStore
from transcoder.database import Database, current_time
from transcoder.engine import DeviceState, RunAttempt, State
from transcoder.engine.delivery import FAILURES, Delivery
from transcoder.engine.running import Running, RunningAttempts
from transcoder.errors import DeviceNotFound
from transcoder.jobs import ErrorInfo
from transcoder.queueing.admission import Rules, claim, next_available
from transcoder.tables import tasks

POLL_SECONDS = 1.0
"""How often a node looks whether something may start that another one has queued, and has not given away itself."""

LOOK_SECONDS = 0.4
"""How often a node looks whether what it runs is to be stopped."""

CANCEL_SECONDS = 5.0
STOP_SECONDS = 10.0
PAUSE_SECONDS = 1.0
BEATS_IN_LEASE = 6

NOT_HEARD = ErrorInfo(code="lost", message="the node that ran this was not heard of for a whole lease", retryable=True)

logger = logging.getLogger(__name__)

OnEnded = Callable[[Ended], Awaitable[None]]
"""Is told of an attempt that was taken away."""


@dataclass
class _Local:
    """A device of this node."""

    device: Device
    measuring: bool = False
    held: str | None = None

    @property
    def condition(self) -> State:
        if self.device.problem is not None:
            return "unusable"
        if self.held is not None:
            return "quarantined"
        return "measuring" if self.measuring else "ready"

    def entry(self, position: int) -> NodeDevice:
        facts = self.device if self.held is None else self.device.model_copy(update={"problem": self.held})
        return NodeDevice(facts, position, self.condition)


class ClusterEngine:
    """`devices`: those of this node, by the ids that they have here; elsewhere they are called `id@node`."""

    def __init__(
        self,
        database: Database,
        run: RunAttempt,
        devices: Sequence[Device],
        *,
        nodes: NodeStore,
        leases: Leases,
        on_ended: OnEnded,
        tenant_running: int | None = None,
        live_slots: int = 0,
    ) -> None:
        self._database, self._nodes, self._leases, self._on_ended = database, nodes, leases, on_ended
        self._tenant_running, self._live_slots = tenant_running, live_slots
        self._node = leases.node
        self._local = {device.id: _Local(device) for device in map(self._named, devices)}
        self._running = RunningAttempts(run, lambda _: self.wake())
        self._delivery = Delivery(database, self._take)
        self._changed = asyncio.Event()
        self._told = asyncio.Event()
        self._known: tuple[DeviceState, ...] = ()
        self._loops: list[asyncio.Task[None]] = []
        self._closing = False

    async def start(self) -> None:
        await self._nodes.set_devices(self._node, self._entries())
        self._known = await self._nodes.devices()
        await self._delivery.open(max(4, len(self._local)))
        for device_id in self._local:
            self._delivery.listen(device_id)
        loops = (self._dispatch, self._watch, self._reap, self._tell)
        self._loops = [asyncio.create_task(_keep(loop), name=loop.__name__.strip("_")) for loop in loops]

    async def close(self, *, grace_seconds: float) -> None:
        self._closing = True
        await self._try(self._nodes.leave(self._node))
        dispatching, watching, reaping, telling = self._loops
        for loop in (dispatching, reaping, telling):
            loop.cancel()
        await asyncio.wait((dispatching, reaping, telling))
        await self._delivery.stop()
        # beats go on until the last one has ended
        left = await self._running.close(grace_seconds=grace_seconds, stop_seconds=STOP_SECONDS)
        watching.cancel()
        await asyncio.wait((watching,))
        if left:
            logger.error("%d attempts did not end in time; others take them up when their leases are over", left)
        else:
            await self._try(self._give_back())
        await self._delivery.close()

    async def _give_back(self) -> None:
        """What was claimed for this node and it has not begun, or could not settle."""
        for ended in await self._leases.give_back(STOPPED):
            await self._on_ended(ended)

    async def _try(self, work: Awaitable[None]) -> None:
        try:
            await work
        except SQLAlchemyError:
            logger.warning("the database is away; what this node had goes on when its leases are over", exc_info=True)

    def wake(self) -> None:
        self._changed.set()

    def alive(self) -> bool:
        return not self._closing and all(not loop.done() for loop in self._loops) and self._delivery.working()

    async def cancel(self, job_id: str) -> None:
        here = self._running.of_job(job_id)
        await self._running.stop(here, "cancel", wait_seconds=CANCEL_SECONDS)
        until = time.monotonic() + CANCEL_SECONDS
        # another process may have to end it
        while time.monotonic() < until and await self._runs(job_id):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS / 4)

    async def call_off(self, job_id: str) -> None:
        """Other nodes see it when they look."""
        self._running.tell(self._running.of_job(job_id), "cancel")

    async def _runs(self, job_id: str) -> bool:
        query = select(tasks.c.id).where(tasks.c.job_id == job_id, tasks.c.state == "running").limit(1)
        async with self._database.read() as connection:
            return (await connection.execute(query)).first() is not None

    def devices(self) -> tuple[DeviceState, ...]:
        """Of all nodes, as they were at most a moment ago."""
        return self._known

    def set_device(self, device: Device, *, measuring: bool) -> None:
        named = self._named(device)
        local = self._local.setdefault(named.id, _Local(named))
        local.device, local.measuring = named, measuring
        if self._loops:
            self._delivery.listen(named.id)
        self._told.set()

    async def hold(self, device_id: str, reason: str | None) -> None:
        local = self._local.get(device_id)
        if local is not None:
            local.held = reason
            await self._nodes.set_devices(self._node, self._entries())
        self.wake()

    async def update_device(self, device_id: str, *, slots: int | None, draining: bool | None) -> DeviceState:
        given = (("slots", slots), ("draining", draining))
        changes = {name: value for name, value in given if value is not None}
        await self._nodes.update_device(device_id, changes)
        self._known = await self._nodes.devices()
        self.wake()
        for state in self._known:
            if state.id == device_id:
                return state
        raise DeviceNotFound(f"there is no device {device_id!r}", device=device_id)

    def _named(self, device: Device) -> Device:
        return device.model_copy(update={"id": f"{device.id}@{self._node}"})

    def _entries(self) -> list[NodeDevice]:
        return [local.entry(position) for position, local in enumerate(self._local.values())]

    async def _tell(self) -> None:
        """Writes what became of this node's devices."""
        await self._told.wait()
        self._told.clear()
        try:
            await self._nodes.set_devices(self._node, self._entries())
        except SQLAlchemyError:
            self._told.set()
            raise
        self.wake()

    async def _dispatch(self) -> None:
        """Gives away what is free, then waits until something more may be."""
        self._changed.clear()
        pause = POLL_SECONDS
        async with self._database.read() as connection:
            now = await current_time(connection)
            self._known = await self._nodes.read_devices(connection, now)
            wanted = (await connection.execute(_QUEUED)).first() is not None
        if wanted and any(state.state == "ready" and state.slots > state.busy for state in self._known):
            async with self._database.write() as connection:
                pause = min(pause, await self._give_away(connection))
        try:
            async with asyncio.timeout(pause):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _give_away(self, connection: AsyncConnection) -> float:
        """Seconds until something more may start."""
        now = await current_time(connection)
        free, hardware = await self._nodes.offers(connection, now, self._live_slots)
        for claimed in await claim(connection, free, now, Rules(hardware, self._tenant_running)):
            await self._delivery.send(connection, claimed)
        following = await next_available(connection, now, hops=hardware)
        return POLL_SECONDS if following is None else max(0.0, (following - now).total_seconds())

    async def _take(self, task_id: str, attempt: int) -> None:
        """Starts what was claimed for this node."""
        while not self._closing:
            before = self._running.of_task(task_id)
            if before is not None:
                if before.claim.attempt == attempt:
                    return
                # it was taken away, and has come back to the same node
                await self._running.stop((before,), "lost", wait_seconds=STOP_SECONDS)
                continue
            try:
                devices = {local.device.id: local.device for local in self._local.values()}
                claimed = await self._leases.take((task_id, attempt), devices)
            except SQLAlchemyError:
                logger.warning("task %s can't be begun; trying again", task_id, exc_info=True)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if claimed is not None:
                self._running.start(claimed)
            return

    async def _watch(self) -> None:
        """Stops what is to be stopped, then beats: after a sleep, what was taken away ends before new work comes."""
        began = time.monotonic()
        lease = self._leases.lease_seconds
        running = self._running.all
        if running:
            found = await self._leases.look([each.claim.task_id for each in running])
            for each in running:
                self._follow(each, found.get(each.claim.task_id))
        if began - self._beaten >= lease / BEATS_IN_LEASE:
            for each in self._running.all:
                if not await self._leases.beat((each.claim.task_id, each.claim.attempt)):
                    self._lose(each)
            if not self._closing:
                await self._nodes.beat(self._node)
            self._beaten = began
        await asyncio.sleep(LOOK_SECONDS)

    _beaten = 0.0

    def _follow(self, running: Running, found: tuple[int, bool] | None) -> None:
        if found is None or found[0] != running.claim.attempt:
            self._lose(running)
        elif found[1]:
            running.stop.request("cancel")

    def _lose(self, running: Running) -> None:
        if running.stop.reason is None and not running.done.done():
            logger.info("attempt %d of job %s is no longer this node's", running.claim.attempt, running.claim.job_id)
            running.stop.request("lost")

    async def _reap(self) -> None:
        """Only after a whole lease of unbroken contact: when the database was away, nobody could beat."""
        since = time.monotonic()
        while True:
            lease = self._leases.lease_seconds
            await asyncio.sleep(min(2.0, lease / BEATS_IN_LEASE))
            if await self._leases.expired() and time.monotonic() - since >= lease:
                for ended in await self._leases.reap(NOT_HEARD):
                    logger.warning("attempt %d of job %s is lost", ended.ticket.attempt, ended.ticket.job_id)
                    await self._on_ended(ended)
                self.wake()


# one that waits may be released
_QUEUED = select(tasks.c.id).where(tasks.c.state.in_(("queued", "waiting"))).limit(1)


async def _keep(step: Callable[[], Awaitable[Any]]) -> None:
    """Again and again, also when the database goes away meanwhile."""
    while True:
        try:
            await step()
        except (SQLAlchemyError, *FAILURES):
            logger.warning("%s: the database does not answer; trying again", step.__name__.strip("_"), exc_info=True)
            await asyncio.sleep(PAUSE_SECONDS)
