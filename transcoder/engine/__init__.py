"""The seam to what runs attempts: where slots are counted, and how an attempt is told to stop.

Admission decides what starts, an attempt knows what to do; an engine brings the two together on devices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from pipelines.devices import Device
from transcoder.gpus.load import Load
from transcoder.queueing.admission import Claim

StopReason = Literal["cancel", "shutdown", "lost"]
"""`lost`: another process was given the task meanwhile; whatever this one still does counts no more."""


State = Literal["ready", "draining", "measuring", "unusable", "quarantined", "offline"]


class DeviceState(Device):
    """A device as it is now. `slots` may have been changed since the start; `busy` may be above it for a while."""

    busy: int
    state: State
    """Only a ready one is given tasks. Unusable, quarantined: `problem` says why. Offline: its node is."""
    load: Load | None = None
    """What all processes that the service can see do on the GPU; None where it is not known."""


class Stop:
    """Tells a running attempt to end, and why. The first reason stays."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.reason: StopReason | None = None

    def request(self, reason: StopReason) -> None:
        if self.reason is None:
            self.reason = reason
            self.requested.set()


RunAttempt = Callable[[Claim, Stop], Awaitable[None]]
"""Runs an attempt to its settled end. It raises nothing: what goes wrong is in the settlement."""


class Engine(Protocol):
    """Starts what admission lets start, whenever something changed."""

    async def start(self) -> None: ...

    async def close(self, *, grace_seconds: float) -> None:
        """Starts nothing more; attempts that have not ended after the grace are stopped and queued again."""

    def wake(self) -> None:
        """Something may be startable: a job was queued, a priority changed."""

    async def cancel(self, job_id: str) -> None:
        """Stops the job's attempts and waits until they have ended, within a bound."""

    async def call_off(self, job_id: str) -> None:
        """Tells the job's attempts to stop, those of this process at once."""

    def alive(self) -> bool:
        """Whether the engine does its work."""

    def devices(self) -> tuple[DeviceState, ...]: ...

    def set_device(self, device: Device, *, measuring: bool) -> None:
        """Tells anew what a device can do; while it is measured nothing starts on it."""

    async def hold(self, device_id: str, reason: str | None) -> None:
        """Starts nothing on the device, which is quarantined for this reason; None: it is no more."""

    async def update_device(self, device_id: str, *, slots: int | None, draining: bool | None) -> DeviceState:
        """Changes what is given. Fewer slots stop nothing that runs. DeviceNotFound for an unknown id."""
