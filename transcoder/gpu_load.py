"""How busy GPUs are, from what the kernel counts for each open file of a DRM driver (drm-usage-stats, Linux 5.19).

i915 counts nanoseconds for each class of engines, xe cycles beside the cycles that went by. One client may have many
descriptors in many processes: it is counted once.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from pipelines.devices import Device
from pipelines.discovery import ENGINE_CLASSES

S = TypeVar("S", bound=Device)

LOOK_SECONDS = 5.0

_NODES = "/dev/dri/"
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}
_MEMORY_KEYS = ("drm-resident-", "drm-memory-", "drm-total-")
"""Memory that is there now, as drivers have called it over time; the first that a driver has."""


class Load(BaseModel):
    """`engines`: the share of their time that the engines of a class were busy, 0 to 1, since the look before."""

    model_config = ConfigDict(frozen=True)

    engines: dict[str, float]
    memory_bytes: int | None


@dataclass(frozen=True)
class Busy:
    """How long a class of engines has worked for a client: nanoseconds, or cycles of `total`."""

    worked: int
    total: int | None = None
    capacity: int = 1


@dataclass(frozen=True)
class Client:
    """One open DRM file: what it has used of a GPU so far."""

    device: str
    """The PCI address."""
    id: str
    engines: Mapping[str, Busy] = field(default_factory=dict)
    memory_bytes: int | None = None


def parse_fdinfo(text: str) -> Client | None:
    """The client that an fdinfo tells of; None where it is of another kind, or too old to say."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.startswith("drm-"):
            fields[name] = value.strip()
    if "drm-pdev" not in fields or "drm-client-id" not in fields:
        return None
    return Client(fields["drm-pdev"], fields["drm-client-id"], _engines(fields), _memory(fields))


def _engines(fields: Mapping[str, str]) -> dict[str, Busy]:
    found: dict[str, Busy] = {}
    for key, value in fields.items():
        for prefix in ("drm-engine-", "drm-cycles-"):
            name = key.removeprefix(prefix)
            if name == key or key.startswith("drm-engine-capacity-") or not _is_number(value):
                continue
            total = fields.get(f"drm-total-cycles-{name}") if prefix == "drm-cycles-" else None
            if prefix == "drm-cycles-" and total is None:
                # cycles beside nanoseconds, as some drivers have them: they tell a frequency
                continue
            capacity = max(1, _number(fields.get(f"drm-engine-capacity-{name}", "1")))
            passed = None if total is None else _number(total)
            found[ENGINE_CLASSES.get(name, name)] = Busy(_number(value), passed, capacity)
    return found


def _memory(fields: Mapping[str, str]) -> int | None:
    for prefix in _MEMORY_KEYS:
        sizes = [
            _bytes(value)
            for key, value in fields.items()
            if key.startswith(prefix) and not key.startswith("drm-total-cycles-")
        ]
        if sizes:
            return sum(sizes)
    return None


def _is_number(value: str) -> bool:
    return value.partition(" ")[0].isdecimal()


def _number(value: str) -> int:
    return int(value.partition(" ")[0]) if _is_number(value) else 0


def _bytes(value: str) -> int:
    return _number(value) * _UNITS.get(value.partition(" ")[2].strip(), 1)


def read_clients(proc: Path = Path("/proc")) -> dict[tuple[str, str], Client]:
    """All clients of the processes that this one may look into, by GPU and id."""
    clients = (parse_fdinfo(text) for text in _drm_files(proc))
    return {(client.device, client.id): client for client in clients if client is not None}


def _drm_files(proc: Path) -> Iterator[str]:
    for process in proc.glob("[0-9]*"):
        try:
            descriptors = list((process / "fd").iterdir())
        except OSError:
            # another user's, or gone
            continue
        for descriptor in descriptors:
            try:
                if str(descriptor.readlink()).startswith(_NODES):
                    yield (process / "fdinfo" / descriptor.name).read_text()
            except OSError:
                continue


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
