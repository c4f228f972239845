"""softva's log as values: what was done on which GPU, and which pixels the CPU touched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Event:
    """One line. `name`: the words before the first fact, such as `encode`, `context create`, `fault encode`."""

    seconds: float
    pid: int
    device: str
    """The render node's name; `-` for an X display."""
    name: str
    facts: dict[str, str]

    @classmethod
    def parse(cls, line: str) -> Event:
        seconds, pid, device, *words = line.split()
        facts = {key: value for key, sign, value in (word.partition("=") for word in words) if sign}
        first = next((number for number, word in enumerate(words) if "=" in word), len(words))
        return cls(
            float(seconds), int(pid.removeprefix("pid=")), device.removeprefix("dev="), " ".join(words[:first]), facts
        )


class Log:
    """What happened since `clear`. Every look reads the file anew: processes may still be writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = 0
        self.clear()

    def clear(self) -> None:
        """Starts anew. The file is never cut: others append to it."""
        self._start = self.path.stat().st_size if self.path.exists() else 0

    def __iter__(self) -> Iterator[Event]:
        if not self.path.exists():
            return
        with self.path.open() as file:
            file.seek(self._start)
            yield from (Event.parse(line) for line in file if line.endswith("\n"))

    def events(self, name: str, device: str | None = None, **facts: str) -> list[Event]:
        """Those of this name, device and facts."""
        return [
            event
            for event in self
            if event.name == name and device in (None, event.device) and facts.items() <= event.facts.items()
        ]

    def pictures(self, kind: str, device: str | None = None, **facts: str) -> int:
        """How many pictures were done by `decode`, `vpp` or `encode`, whether they worked or not."""
        return len(self.events(kind, device, **facts))

    def contexts(self, kind: str, device: str | None = None) -> int:
        """How many contexts of `decode`, `vpp` or `encode` were made."""
        return len(self.events("context create", device, kind=kind))

    def downloads(self, device: str | None = None) -> int:
        """Pictures whose pixels the CPU read."""
        mapped = [event for event in self.events("map derived", device) if "r" in event.facts["access"]]
        return len(mapped) + len(self.events("getimage", device))

    def uploads(self, device: str | None = None) -> int:
        """Pictures whose pixels the CPU wrote."""
        mapped = [event for event in self.events("map derived", device) if "w" in event.facts["access"]]
        return len(mapped) + len(self.events("putimage", device))

    def leaks(self) -> list[Event]:
        """What callers hadn't destroyed when they closed a device."""
        return self.events("leak")
