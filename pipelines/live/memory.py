"""What a stream knows of itself after a restart: when its clock began, and how far it came."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path

from pipelines.live.clock import OutputClock
from pipelines.live.folder import write_whole

NAME = ".stream.json"


@dataclass(frozen=True)
class Memory:
    folder: Path

    def clock(self) -> OutputClock:
        """The clock of the runs before, going on; a fresh one for a new stream."""
        try:
            told = json.loads((self.folder / NAME).read_text(encoding="utf-8"))
            return OutputClock.resumed(datetime.fromisoformat(told["epoch"]), Fraction(told["newest"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return OutputClock.fresh()

    def save(self, clock: OutputClock) -> None:
        told = {"epoch": clock.epoch.isoformat(), "newest": str(clock.newest)}
        write_whole(self.folder / NAME, json.dumps(told).encode())
