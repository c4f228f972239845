"""The machine's devices: found at the start, measured in children when they are new, kept in the data folder.

A device that was measured before with the same driver and the same libraries is ready when the service is. Another is
shown as `measuring`, and takes tasks as soon as it is known what it can do.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pipelines.capabilities import (
    Support,
    checks,
    described,
    measured,
    speed_checks,
    support,
    unmeasured,
    unopened,
    with_speeds,
)
from pipelines.devices import Device, software_device
from pipelines.errors import PipelineError
from pipelines.hardware.discovery import Found, find
from pipelines.trials.checks import Check, CheckResult, OpenCheck
from pipelines.trials.speed import SOFTWARE_TRIALS, SpeedCheck
from transcoder.children.watch import ChildTask
from transcoder.errors import Conflict, DeviceNotFound
from transcoder.gpus.cache import DeviceCache
from transcoder.settings import Settings

OPEN_SECONDS = 5.0
CHECK_SECONDS = 30.0
"""Longest time of one check; a driver that hangs is ended then."""

SLOTS_PER_ENGINE = 2
MIN_SLOTS = 2

SOFTWARE_ID = "software"

logger = logging.getLogger(__name__)


class Runner(Protocol):
    """What runs children: `transcoder.children.supervise.Supervisor`."""

    async def execute(self, task: ChildTask) -> dict[str, Any]: ...


class Tell(Protocol):
    """Is told when a device changes: `LocalEngine.set_device`."""

    def __call__(self, device: Device, *, measuring: bool) -> None: ...


def cpu_name() -> str:
    """What the machine's CPU is called, with how many of it may be used."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return f"{next(names, 'CPU')} x{len(os.sched_getaffinity(0))}"


def default_slots(found: Found, wanted: int | None) -> int:
    """What is wanted, else two for each video engine: one task alone leaves gaps in an engine's work."""
    return wanted or max(MIN_SLOTS, SLOTS_PER_ENGINE * found.engines.get("video", 0))


@dataclass(frozen=True)
class _Entry:
    device: Device
    measuring: bool = False
    measurable: bool = False
    """Whether its driver can be tried at all."""


@dataclass
class Devices:
    """GPUs first, then the CPU: the order of preference."""

    runner: Runner
    cache: DeviceCache
    support: Support = field(default_factory=support)
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _tell: Tell | None = None
    _timed: bool = False
    """Whether the CPU's speed is tried."""
    _wanted: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    @classmethod
    def found(cls, settings: Settings, runner: Runner) -> Devices:
        """Those that the kernel and the settings name; a GPU with a problem is listed, and not used."""
        able = support()
        devices = cls(runner, DeviceCache(settings.data_dir / "devices.json"), able)
        for gpu in find(settings.devices, settings.hardware_root):
            device = unmeasured(gpu, default_slots(gpu, settings.device_slots), able)
            can_try = device.problem is None
            devices._entries[device.id] = _Entry(device, measuring=can_try, measurable=can_try)
        devices._add_fixed((software_device(settings.software_slots),))
        devices._timed = True
        return devices

    @classmethod
    def fixed(cls, devices: Sequence[Device], runner: Runner) -> Devices:
        """Devices as given: nothing is looked for or measured."""
        made = cls(runner, DeviceCache(None))
        made._add_fixed(devices)
        return made

    def _add_fixed(self, devices: Sequence[Device]) -> None:
        self._entries |= {device.id: _Entry(device) for device in devices}

    @property
    def all(self) -> tuple[Device, ...]:
        return tuple(entry.device for entry in self._entries.values())

    @property
    def usable(self) -> tuple[Device, ...]:
        """Those that take tasks, now or when they are measured."""
        return tuple(device for device in self.all if device.problem is None)

    @property
    def ready(self) -> tuple[Device, ...]:
        """Those of which is known what they can do."""
        return tuple(e.device for e in self._entries.values() if e.device.problem is None and not e.measuring)

    async def start(self, tell: Tell) -> None:
        """Opens each GPU's driver, briefly: what was measured with it before holds; the others are put in line."""
        self._tell = tell
        waiting = [device_id for device_id, entry in self._entries.items() if entry.measuring]
        for device_id in waiting:
            self._set(self._entries[device_id].device, measuring=True)
        for device_id, known in zip(waiting, await asyncio.gather(*map(self._recall, waiting)), strict=True):
            if not known:
                self._wanted.put_nowait(device_id)

    async def keep_measuring(self) -> None:
        """Measures devices as they come, one at a time; after the first ones how fast the CPU is."""
        while not self._wanted.empty():
            await self.measure(self._wanted.get_nowait())
        await self.time_cpu()
        while True:
            await self.measure(await self._wanted.get())

    async def time_cpu(self) -> None:
        """Tries how fast the CPU is, unless that is known of it. It takes tasks meanwhile."""
        entry = self._entries.get(SOFTWARE_ID)
        if not self._timed or entry is None:
            return
        name = await asyncio.to_thread(cpu_name)
        known = await asyncio.to_thread(self.cache.recall, entry.device, name)
        if known is None:
            known = with_speeds(entry.device, await self._trials(entry.device, SOFTWARE_TRIALS))
            await asyncio.to_thread(self.cache.keep, known.model_copy(update={"driver": name}))
        self._set(entry.device.model_copy(update={"speeds": known.speeds}), measuring=False)

    async def _trials(self, device: Device, trials: Sequence[SpeedCheck]) -> dict[SpeedCheck, CheckResult]:
        results = {}
        for trial in trials:
            results[trial] = await self._check(device, trial, CHECK_SECONDS)
            if not results[trial].works:
                logger.info("%s can't %s: %s", device.id, described(trial), results[trial].reason)
        return results

    async def measure_all(self, *, anew: bool) -> None:
        """Measures what is not known, or everything `anew`, and returns when it is done."""
        for device_id, entry in self._entries.items():
            if entry.measuring and (anew or not await self._recall(device_id)):
                await self.measure(device_id)

    def request(self, device_id: str) -> None:
        """Puts a device in line to be measured anew; nothing starts on it until then.

        DeviceNotFound; Conflict for the CPU, and for a GPU whose driver can't be tried at all.
        """
        entry = self._entries.get(device_id)
        if entry is None:
            raise DeviceNotFound(f"there is no device {device_id!r}", device=device_id)
        if not entry.measurable:
            reason = entry.device.problem or "it is known what it can do"
            raise Conflict(f"{device_id} is not measured: {reason}", device=device_id)
        if not entry.measuring:
            self._set(entry.device.model_copy(update={"problem": None}), measuring=True)
            self._wanted.put_nowait(device_id)

    async def measure(self, device_id: str) -> None:
        """Runs all checks on a device, each in a child; what crashes or hangs counts as not working."""
        device = self._entries[device_id].device
        started = time.monotonic()
        opened = await self._check(device, OpenCheck(), OPEN_SECONDS)
        if not opened.works:
            self._set(unopened(device, opened.reason), measuring=False)
            return
        results: dict[Check, CheckResult] = {}
        broken: list[str] = []
        for check in checks(self.support):
            results[check], code = await self._answer(device, check)
            if code is not None:
                broken.append(f"it failed badly at: {described(check)} ({code})")
            if not results[check].works:
                logger.info("%s does not %s: %s", device.id, described(check), results[check].reason)
        known = measured(device, opened.driver, results)
        known = with_speeds(known, await self._trials(device, speed_checks(results)))
        known = known.model_copy(update={"notes": (*known.notes, *broken)})
        if known.problem is None:
            await asyncio.to_thread(self.cache.keep, known)
        logger.info(
            "%s (%s, %s): %d kinds of codecs and %d filters work, measured in %.1f s",
            *(device.id, device.name, opened.driver, len(known.capabilities), len(known.filters)),
            time.monotonic() - started,
        )
        self._set(known, measuring=False)

    async def _answer(self, device: Device, check: Check) -> tuple[CheckResult, str | None]:
        """What comes of a check; the code of the failure too where its child did not end well."""
        try:
            return await self._run(device, check, CHECK_SECONDS), None
        except PipelineError as error:
            logger.info("%s is tried again to %s: %s", device.id, described(check), error.message)
        # it may have been a moment's trouble, and the answer is kept
        try:
            return await self._run(device, check, CHECK_SECONDS), None
        except PipelineError as error:
            return CheckResult(works=False, reason=f"{error.code}: {error.message}"), error.code

    async def _recall(self, device_id: str) -> bool:
        """Whether nothing is left to measure: it is known from before, or can't be opened."""
        device = self._entries[device_id].device
        opened = await self._check(device, OpenCheck(), OPEN_SECONDS)
        if not opened.works:
            self._set(unopened(device, opened.reason), measuring=False)
            return True
        known = await asyncio.to_thread(self.cache.recall, device, opened.driver)
        if known is None:
            return False
        self._set(known, measuring=False)
        return True

    async def _check(self, device: Device, check: Check, seconds: float) -> CheckResult:
        try:
            return await self._run(device, check, seconds)
        except PipelineError as error:
            return CheckResult(works=False, reason=f"{error.code}: {error.message}")

    async def _run(self, device: Device, check: Check, seconds: float) -> CheckResult:
        payload = {"check": check.model_dump(mode="json"), "node": device.path}
        task = ChildTask(op="check", payload=payload, deadline_seconds=seconds, gpu=device.path)
        return CheckResult.model_validate(await self.runner.execute(task))

    def _set(self, device: Device, *, measuring: bool) -> None:
        if device.problem is not None:
            logger.warning("%s (%s) is not used: %s", device.id, device.name, device.problem)
        self._entries[device.id] = _Entry(device, measuring, self._entries[device.id].measurable)
        if self._tell is not None:
            self._tell(device, measuring=measuring)
