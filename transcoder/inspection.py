"""Looking at an input without a job: what it is, and what would be done with it. In a child, as jobs are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pipelines.devices import Device
from pipelines.limits import Limits
from pipelines.rendition import Plan
from pipelines.source import SourceInfo
from pipelines.spec import FileJob, Input
from transcoder.attempts import Executor
from transcoder.inputs import Inputs
from transcoder.storage import Storage
from transcoder.watch import ChildTask

AT_ONCE = 4


@dataclass(frozen=True)
class Inspector:
    """At most AT_ONCE look-ups at a time, beside the slots; the others wait their turn."""

    storage: Storage
    inputs: Inputs
    executor: Executor
    limits: Limits
    timeout_seconds: float
    fetch_seconds: float
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def probe(self, source: Input, tenant: str) -> SourceInfo:
        async with self._input(source, tenant) as payload:
            return SourceInfo.model_validate(await self._execute("probe", payload))

    async def plan(self, spec: FileJob, tenant: str, device: Device) -> Plan:
        """`spec` has its outputs."""
        async with self._input(spec.input, tenant) as payload:
            asked = {"spec": spec.model_dump(mode="json"), "device": device.model_dump(mode="json")}
            return Plan.model_validate(await self._execute("plan", payload | asked))

    @asynccontextmanager
    async def _input(self, source: Input, tenant: str) -> AsyncGenerator[dict[str, Any], None]:
        await self.inputs.check(source)
        async with self._turns, self.storage.scratch() as scratch:
            file = await self.inputs.bring(source, tenant, scratch, total_seconds=self.fetch_seconds)
            yield {"path": str(file.path), "name": file.name, "limits": self.limits.model_dump(mode="json")}

    async def _execute(self, op: Literal["probe", "plan"], payload: dict[str, Any]) -> dict[str, Any]:
        task = ChildTask(
            op=op, payload=payload, deadline_seconds=self.timeout_seconds, readable=(Path(payload["path"]),)
        )
        return await self.executor.execute(task)
