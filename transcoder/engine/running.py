"""Attempts that run in this process, and how they are stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transcoder.engine import RunAttempt, Stop, StopReason
from transcoder.queueing.admission import Claim


@dataclass(frozen=True)
class Running:
    claim: Claim
    stop: Stop
    done: asyncio.Task[None]


class RunningAttempts:
    """By task. `on_end` is told of each claim whose attempt has ended."""

    def __init__(self, run: RunAttempt, on_end: Callable[[Claim], None]) -> None:
        self._run, self._on_end = run, on_end
        self._running: dict[str, Running] = {}

    def __len__(self) -> int:
        return len(self._running)

    @property
    def all(self) -> tuple[Running, ...]:
        return tuple(self._running.values())

    def of_task(self, task_id: str) -> Running | None:
        return self._running.get(task_id)

    def of_job(self, job_id: str) -> tuple[Running, ...]:
        return tuple(running for running in self.all if running.claim.job_id == job_id)

    def start(self, claim: Claim) -> None:
        stop = Stop()
        task = asyncio.create_task(self._run_one(claim, stop), name=f"attempt {claim.task_id}/{claim.attempt}")
        self._running[claim.task_id] = Running(claim, stop, task)

    async def _run_one(self, claim: Claim, stop: Stop) -> None:
        try:
            await self._run(claim, stop)
        finally:
            del self._running[claim.task_id]
            self._on_end(claim)

    async def stop(self, running: Sequence[Running], reason: StopReason, *, wait_seconds: float) -> None:
        """Asks them to end, and waits for it within a bound."""
        self.tell(running, reason)
        await self.ended(running, wait_seconds)

    def tell(self, running: Sequence[Running], reason: StopReason) -> None:
        """Asks them to end."""
        for each in running:
            each.stop.request(reason)

    async def ended(self, running: Sequence[Running], seconds: float) -> None:
        if running:
            await asyncio.wait({each.done for each in running}, timeout=seconds)

    async def close(self, *, grace_seconds: float, stop_seconds: float) -> int:
        """Lets all end within the grace, then stops them; how many did not even end then.

        Streams don't end by themselves: they are stopped at once, and have the grace for it.
        """
        for each in self.all:
            if each.claim.kind == "stream":
                each.stop.request("shutdown")
        await self.ended(self.all, grace_seconds)
        await self.stop(self.all, "shutdown", wait_seconds=stop_seconds)
        return len(self)
