"""The engine of a single process: slots in memory, one dispatcher that everything wakes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy.exc import SQLAlchemyError

from pipelines.devices import Device
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.engine import DeviceState, RunAttempt, State
from transcoder.engine.running import RunningAttempts
from transcoder.errors import DeviceNotFound
from transcoder.queueing.admission import Claim, FreeSlots, Rules, claim, next_available

CANCEL_SECONDS = 5.0
"""How long `cancel` waits for attempts to end; it takes a fraction of a second unless the machine is in trouble."""

STOP_SECONDS = 10.0
DATABASE_PAUSE_SECONDS = 1.0

logger = logging.getLogger(__name__)


@dataclass
class _Slots:
    device: Device
    count: int
    draining: bool = False
    measuring: bool = False
    held: str | None = None
    busy: int = 0
    files: int = 0
    """Of the busy ones, those that jobs of files take."""

    def offer(self, live_slots: int) -> FreeSlots:
        """What it can take, with `live_slots` kept for streams."""
        for_files = max(0, self.count - live_slots - self.files)
        return FreeSlots(self.device, self.free, for_files, self.count)

    def hold(self, claimed: Claim, sign: Literal[1, -1]) -> None:
        """Counts a claim in, or out again."""
        self.busy += sign * claimed.held
        if claimed.kind == "file":
            self.files += sign * claimed.held

    @property
    def free(self) -> int:
        return max(0, self.count - self.busy) if self.condition == "ready" else 0

    @property
    def condition(self) -> State:
        if self.device.problem is not None:
            return "unusable"
        if self.held is not None:
            return "quarantined"
        if self.measuring:
            return "measuring"
        return "draining" if self.draining else "ready"

    @property
    def state(self) -> DeviceState:
        return DeviceState(
            **{name: getattr(self.device, name) for name in Device.model_fields if name not in ("slots", "problem")},
            problem=self.held or self.device.problem,
            slots=self.count,
            busy=self.busy,
            state=self.condition,
        )


class LocalEngine:
    """Devices in the order of preference. Only one engine may work on a database.

    `tenant_running`: most tasks of a tenant at once; `live_slots`: slots of each device that are kept for streams.
    """

    def __init__(
        self,
        database: Database,
        run: RunAttempt,
        devices: Sequence[Device],
        *,
        tenant_running: int | None = None,
        live_slots: int = 0,
    ) -> None:
        self._database = database
        self._tenant_running, self._live_slots = tenant_running, live_slots
        self._slots = {device.id: _Slots(device, device.slots) for device in devices}
        self._running = RunningAttempts(run, self._free)
        self._changed = asyncio.Event()
        # held while slots are promised, so that their number changes before or after, not meanwhile
        self._placing = asyncio.Lock()
        self._closing = False
        self._dispatcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._dispatcher = asyncio.create_task(self._dispatch_until_closed(), name="dispatcher")

    async def close(self, *, grace_seconds: float) -> None:
        self._closing = True
        self.wake()
        if self._dispatcher is not None:
            # never cancelled: what it claimed, it starts, and below it is stopped in order
            await asyncio.wait({self._dispatcher})
        left = await self._running.close(grace_seconds=grace_seconds, stop_seconds=STOP_SECONDS)
        if left:
            logger.error("%d attempts did not end in time; they are queued again at the next start", left)

    def wake(self) -> None:
        self._changed.set()

    def alive(self) -> bool:
        return self._dispatcher is not None and not self._dispatcher.done() and not self._closing

    async def cancel(self, job_id: str) -> None:
        async with self._placing:
            running = self._running.of_job(job_id)
        await self._running.stop(running, "cancel", wait_seconds=CANCEL_SECONDS)

    async def call_off(self, job_id: str) -> None:
        async with self._placing:
            running = self._running.of_job(job_id)
        self._running.tell(running, "cancel")

    def devices(self) -> tuple[DeviceState, ...]:
        return tuple(slots.state for slots in self._slots.values())

    def set_device(self, device: Device, *, measuring: bool) -> None:
        slots = self._slots.setdefault(device.id, _Slots(device, device.slots))
        slots.device, slots.measuring = device, measuring
        self.wake()

    async def hold(self, device_id: str, reason: str | None) -> None:
        async with self._placing:
            slots = self._slots.get(device_id)
            if slots is not None:
                slots.held = reason
        self.wake()

    async def update_device(self, device_id: str, *, slots: int | None, draining: bool | None) -> DeviceState:
        async with self._placing:
            changed = self._slots.get(device_id)
            if changed is None:
                raise DeviceNotFound(f"there is no device {device_id!r}", device=device_id)
            if slots is not None:
                changed.count = slots
            if draining is not None:
                changed.draining = draining
            state = changed.state
        self.wake()
        return state

    async def _dispatch_until_closed(self) -> None:
        while not self._closing:
            self._changed.clear()
            try:
                pause = await self._dispatch()
            except SQLAlchemyError:
                # such as a full disk: jobs stay queued until the database is well again
                logger.exception("the queue can't be read; trying again")
                pause = DATABASE_PAUSE_SECONDS
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _dispatch(self) -> float | None:
        """Starts what may start; seconds until something more may without anything else happening."""
        async with self._placing:
            free = [slots.offer(self._live_slots) for slots in self._slots.values() if slots.free > 0]
            if not free:
                return None
            now = utc_now()
            # what drains or is measured will not be free soon
            hardware = any(
                slots.device.kind != "software" and slots.condition == "ready" and slots.count > 0
                for slots in self._slots.values()
            )
            rules = Rules(hardware, self._tenant_running)
            async with self._database.write() as connection:
                claims = await claim(connection, free, now, rules)
                following = await next_available(connection, now, hops=hardware)
            for claimed in claims:
                self._start(claimed)
        return None if following is None else max(0.0, (following - utc_now()).total_seconds())

    def _start(self, claimed: Claim) -> None:
        self._slots[claimed.device.id].hold(claimed, 1)
        self._running.start(claimed)

    def _free(self, claimed: Claim) -> None:
        self._slots[claimed.device.id].hold(claimed, -1)
        self.wake()
