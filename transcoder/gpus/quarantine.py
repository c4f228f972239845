"""Keeps jobs from GPUs that fail: breakers by kind of work, quarantine of whole devices, canaries that lift both.

What it knows is in memory: after a start every device is taken to be well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy.exc import SQLAlchemyError

from pipelines.devices import Device, Verdict
from pipelines.errors import PipelineError
from pipelines.limits import Limits
from pipelines.rendition import Plan
from pipelines.trials.canary import Canary, CanaryResult
from transcoder.attempts import settlement
from transcoder.attempts.fallback import CASUALTIES, is_software
from transcoder.children.watch import ChildTask
from transcoder.database import Database
from transcoder.engine import Engine
from transcoder.gpus.breaker import Breaker, Circuit, circuits_in, circuits_of
from transcoder.jobs import Attempt, ErrorInfo
from transcoder.storage import Storage

MAX_PAUSE_SECONDS = 600.0

logger = logging.getLogger(__name__)


class Runner(Protocol):
    """What runs children: `transcoder.children.supervise.Supervisor`."""

    async def execute(self, task: ChildTask) -> dict[str, Any]: ...


@dataclass(frozen=True)
class GuardSettings:
    """`failures`: jobs in a row that open a breaker. Canaries wait `pause_seconds`, then twice as long each time."""

    failures: int
    pause_seconds: float
    canary_seconds: float
    """Longest time of one canary."""


class DeviceGuard:
    """Is told of every attempt's end. `engine` has the devices, and starts nothing on those that are held."""

    def __init__(
        self,
        runner: Runner,
        storage: Storage,
        limits: Limits,
        settings: GuardSettings,
        database: Database,
        engine: Callable[[], Engine],
    ) -> None:
        self._runner, self._storage, self._limits, self._settings = runner, storage, limits, settings
        self._database, self._engine = database, engine
        self._breaker = Breaker(settings.failures)
        self._flying: dict[object, asyncio.Task[None]] = {}

    def verdicts(self, device_id: str) -> tuple[Verdict, ...]:
        """What no job is to be planned for on the device now."""
        return self._breaker.verdicts(device_id)

    @property
    def quarantined(self) -> tuple[str, ...]:
        return tuple(key for key in self._flying if isinstance(key, str))

    def completed(self, job_id: str, before: Sequence[Attempt], plan: Plan | None) -> None:
        """The job was completed, after the attempts `before`; `plan` is of what ran on a GPU."""
        for circuit in (circuit for attempt in before for circuit in circuits_of(attempt)):
            if self._breaker.failed(circuit, job_id):
                logger.warning("%s on %s is not planned until a test passes", circuit, circuit.device)
                self._start(circuit, self._close(circuit))
        for circuit in circuits_in(plan) if plan is not None else ():
            self._breaker.succeeded(circuit)

    async def failed(self, device_id: str, error: ErrorInfo) -> None:
        """An attempt failed on the device: one that is lost, hangs or brings its process down is quarantined.

        From the return on nothing starts on it.
        """
        if error.code not in CASUALTIES or is_software(device_id) or device_id in self._flying:
            return
        reason = f"it failed ({error.code}: {error.message}) and is tested before it gets the next job"
        logger.warning("%s is quarantined: %s", device_id, reason)
        self._start(device_id, self._release(device_id, reason))
        await self._engine().hold(device_id, reason)
        await self.unpin(device_id)

    async def unpin(self, device_id: str) -> None:
        """Lets tasks that only fell back to a device go elsewhere: it takes none now."""
        try:
            async with self._database.write() as connection:
                await settlement.unpin(connection, device_id)
        except SQLAlchemyError:
            logger.exception("tasks that wait for %s go on waiting", device_id)
        self._engine().wake()

    async def close(self) -> None:
        """Ends all canaries; what is held stays so."""
        flying = list(self._flying.values())
        for task in flying:
            task.cancel()
        if flying:
            await asyncio.wait(flying)

    def _start(self, key: object, work: Coroutine[Any, Any, None]) -> None:
        if key in self._flying:
            work.close()
            return
        task = asyncio.create_task(work, name=f"canary {key}")
        self._flying[key] = task
        task.add_done_callback(lambda _: self._flying.pop(key, None))

    async def _close(self, circuit: Circuit) -> None:
        canary = Canary(stage=circuit.stage, codec=circuit.codec, bit_depth=circuit.bit_depth, api=circuit.api)
        if await self._well(circuit.device, canary, None):
            self._breaker.succeeded(circuit)
            logger.info("%s works again on %s", circuit, circuit.device)
        else:
            self._breaker.half_close(circuit)

    async def _release(self, device_id: str, reason: str) -> None:
        await self._well(device_id, Canary(), reason)
        await self._engine().hold(device_id, None)
        logger.info("%s works again", device_id)

    async def _well(self, device_id: str, canary: Canary, reason: str | None) -> bool:
        """Returns when the device has passed: False where it could not be tried."""
        pause = self._settings.pause_seconds
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
            device = next((device for device in self._engine().devices() if device.id == device_id), None)
            if device is None:
                return False
            try:
                return await self._fly(device, canary)
            except PipelineError as error:
                logger.warning("a test of %s failed (%s): %s", device_id, error.code, error.message)
                if reason is not None:
                    await self._engine().hold(
                        device_id, f"{reason}; the last test failed ({error.code}: {error.message})"
                    )

    async def _fly(self, device: Device, canary: Canary) -> bool:
        async with self._storage.scratch() as folder:
            task = ChildTask(
                op="canary",
                payload={
                    "canary": canary.model_dump(mode="json"),
                    "device": device.model_dump(mode="json", include=set(Device.model_fields)),
                    "folder": str(folder),
                    "limits": self._limits.model_dump(mode="json"),
                },
                deadline_seconds=self._settings.canary_seconds,
                writable=(folder,),
                gpu=device.path,
            )
            return CanaryResult.model_validate(await self._runner.execute(task)).tried
