"""How busy GPUs are, from what the kernel counts for each open file of a DRM driver (drm-usage-stats, Linux 5.19).

i915 counts nanoseconds for each class of engines, xe cycles beside the cycles that went by. One client may have many
descriptors in many processes: it is counted once.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from pipelines.devices import Device
from pipelines.hardware.drm_usage import Busy, Client, parse_fdinfo, read_fdinfo

S = TypeVar("S", bound=Device)

LOOK_SECONDS = 5.0


class Load(BaseModel):
    """`engines`: the share of their time that the engines of a class were busy, 0 to 1, since the look before."""

    model_config = ConfigDict(frozen=True)

    engines: dict[str, float]
    memory_bytes: int | None


def read_clients(proc: Path = Path("/proc")) -> dict[tuple[str, str], Client]:
    """All clients of the processes that this one may look into, by GPU and id."""
    clients = (parse_fdinfo(text) for process in proc.glob("[0-9]*") for text in read_fdinfo(process))
    return {(client.device, client.id): client for client in clients if client is not None}


class LoadMeter:
    """Looks again and again; `loads` is what came of the last two looks, by PCI address."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._clients: dict[tuple[str, str], Client] | None = None
        self._classes: dict[str, set[str]] = defaultdict(set)
        self._looked_ns = 0
        self.loads: Mapping[str, Load] = {}

    async def keep_looking(self) -> None:
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(LOOK_SECONDS)

    def told(self, state: S) -> S:
        """The state with the GPU's load, where it is known."""
        load = self.loads.get(state.pci_address or "")
        return state if load is None else state.model_copy(update={"load": load})

    def look(self, now_ns: int | None = None) -> None:
        """`now_ns`: on a clock that never goes back."""
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        before, seconds_ns = self._clients, now_ns - self._looked_ns
        clients = read_clients(self._proc)
        self._clients, self._looked_ns = clients, now_ns
        for client in clients.values():
            self._classes[client.device].update(client.engines)
        if before is not None and seconds_ns > 0:
            self.loads = {device: _load(device, before, clients, seconds_ns, self._classes) for device in self._classes}


def _load(
    device: str,
    before: Mapping[tuple[str, str], Client],
    now: Mapping[tuple[str, str], Client],
    passed_ns: int,
    classes: Mapping[str, set[str]],
) -> Load:
    """A GPU that nobody uses any more is idle; a client that is new has worked since the look before."""
    engines = dict.fromkeys(sorted(classes[device]), 0.0)
    memory: list[int] = []
    for key, client in now.items():
        if client.device != device:
            continue
        memory += [] if client.memory_bytes is None else [client.memory_bytes]
        earlier = before[key].engines if key in before else {}
        for name, busy in client.engines.items():
            engines[name] += _share(earlier.get(name), busy, passed_ns)
    used = any(client.device == device for client in now.values())
    shares = {name: round(min(1.0, share), 4) for name, share in engines.items()}
    return Load(engines=shares, memory_bytes=sum(memory) if memory or not used else None)


def _share(before: Busy | None, now: Busy, passed_ns: int) -> float:
    """Counters may lag behind for a moment: what has become less counts as nothing."""
    if now.total is None:
        return max(0, now.worked - (before.worked if before else 0)) / (passed_ns * now.capacity)
    if before is None or before.total is None or now.total <= before.total:
        # the cycles that went by are those since the machine's start: one look at a new client tells no share
        return 0.0
    return max(0, now.worked - before.worked) / ((now.total - before.total) * now.capacity)
