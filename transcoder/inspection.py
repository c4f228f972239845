"""Looking at an input without a job: what it is, and what would be done with it. In a child, as jobs are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pipelines.devices import Device, Verdict
from pipelines.errors import DeviceUnsuitable
from pipelines.estimates.work import Pace
from pipelines.limits import Limits
from pipelines.opening.beside import files_beside
from pipelines.rendition import Plan, Refusal
from pipelines.source import SourceInfo
from pipelines.spec import FileJob, Input
from transcoder.children.executor import Executor
from transcoder.children.watch import ChildTask
from transcoder.errors import NoDevice
from transcoder.inputs import Inputs, more_payload
from transcoder.storage import Storage

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
        async with self._input((source,), tenant) as payload:
            asked = {"subtitles": [each.model_dump(mode="json") for each in source.subtitles]}
            return SourceInfo.model_validate(await self._execute("probe", payload | asked))

    async def plan(
        self,
        spec: FileJob,
        tenant: str,
        devices: Sequence[Device],
        verdicts: Callable[[str], Sequence[Verdict]],
        pace: Callable[[Device], Pace],
    ) -> Plan:
        """The plan for the first of `devices` that has something to do; it has the refusals of those before.

        `spec` has its outputs.
        """
        refusals: list[Refusal] = []
        await self.inputs.find_beside(files_beside(spec), tenant)
        async with self._input(spec.all_inputs, tenant) as payload:
            for device in devices:
                asked = {
                    "spec": spec.model_dump(mode="json"),
                    "device": device.model_dump(mode="json", include=set(Device.model_fields)),
                    "pace": pace(device).model_dump(mode="json"),
                    "verdicts": [verdict.model_dump(mode="json") for verdict in verdicts(device.id)],
                }
                try:
                    made = Plan.model_validate(await self._execute("plan", payload | asked))
                except DeviceUnsuitable as unsuitable:
                    if device is devices[-1]:
                        raise
                    refusals += map(Refusal.model_validate, unsuitable.facts.get("refusals", ()))
                else:
                    return made.model_copy(update={"refusals": (*refusals, *made.refusals)})
        raise NoDevice("no device is ready to plan for", policy=spec.device.policy)

    @asynccontextmanager
    async def _input(self, sources: Sequence[Input], tenant: str) -> AsyncGenerator[dict[str, Any], None]:
        await self.inputs.check_all(sources)
        texts = tuple({each.key: each for source in sources for each in source.subtitles}.values())
        await self.inputs.check_beside(texts)
        async with self._turns, self.storage.scratch() as scratch:
            file, *more = await self.inputs.bring_all(sources, tenant, scratch, total_seconds=self.fetch_seconds)
            file = await self.inputs.with_beside(file, texts, tenant, scratch, total_seconds=self.fetch_seconds)
            told = {"path": str(file.path), "name": file.name, "limits": self.limits.model_dump(mode="json")}
            yield {**told, "beside": {key: str(path) for key, path in file.beside.items()}, **more_payload(more)}

    async def _execute(self, op: Literal["probe", "plan"], payload: dict[str, Any]) -> dict[str, Any]:
        more = (each["path"] for each in payload.get("more", ()))
        task = ChildTask(
            op=op,
            payload=payload,
            deadline_seconds=self.timeout_seconds,
            readable=tuple(map(Path, (payload["path"], *payload["beside"].values(), *more))),
        )
        return await self.executor.execute(task)
