"""What the kernel counts of a process's work on a GPU, for each open file of a DRM driver (drm-usage-stats).

i915 counts nanoseconds for each class of engines, xe cycles beside the cycles that went by. Linux 5.19 and later.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.hardware.discovery import ENGINE_CLASSES

DRM_NODES = "/dev/dri/"

_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}
_MEMORY_KEYS = ("drm-resident-", "drm-memory-", "drm-total-")
"""Memory that is there now, as drivers have called it over time; the first that a driver has."""


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


class GpuClock:
    """GPU time of this process's own DRM clients, from when it was made. `proc` is the process's folder there."""

    def __init__(self, proc: Path = Path("/proc/self"), now_ns: int | None = None) -> None:
        self._proc = proc
        self._before = self._read()
        self._began_ns = time.monotonic_ns() if now_ns is None else now_ns
        # cycles that went by are the engine's, whichever client tells them
        self._totals = {
            (client.device, name): busy.total
            for client in self._before.values()
            for name, busy in client.engines.items()
            if busy.total is not None
        }

    def seconds(self, now_ns: int | None = None) -> dict[str, float]:
        """By class of engines; empty where the kernel does not tell. Ask while the GPU is still open."""
        passed_ns = (time.monotonic_ns() if now_ns is None else now_ns) - self._began_ns
        spent: dict[str, float] = {}
        for key, client in self._read().items():
            known = self._before[key].engines if key in self._before else {}
            for name, busy in client.engines.items():
                worked = max(0, busy.worked - (known[name].worked if name in known else 0))
                seconds = self._seconds(worked, busy.total, self._totals.get((client.device, name)), passed_ns)
                spent[name] = spent.get(name, 0.0) + seconds
        return {name: round(seconds, 3) for name, seconds in sorted(spent.items())}

    @staticmethod
    def _seconds(worked: int, total: int | None, total_before: int | None, passed_ns: int) -> float:
        """`worked` is nanoseconds, or cycles of which `total` went by since the machine's start."""
        if total is None:
            return worked / 1e9
        if total_before is None or total <= total_before:
            return 0.0
        return worked / (total - total_before) * passed_ns / 1e9

    def _read(self) -> dict[tuple[str, str], Client]:
        clients = (parse_fdinfo(text) for text in read_fdinfo(self._proc))
        return {(client.device, client.id): client for client in clients if client is not None}


def read_fdinfo(process: Path) -> Iterator[str]:
    """What the kernel tells of each DRM file that a process has open; nothing where it may not be looked into."""
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        # another user's, or gone
        return
    for descriptor in descriptors:
        try:
            if str(descriptor.readlink()).startswith(DRM_NODES):
                yield (process / "fdinfo" / descriptor.name).read_text()
        except OSError:
            continue
