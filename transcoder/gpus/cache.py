"""What devices were measured to do, in a file of the data folder."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines.capabilities import SCHEMA, build
from pipelines.devices import Device

_MEASURED = ("driver", "capabilities", "filters", "notes", "speeds")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeviceCache:
    """By device id, for one driver and one build of the libraries each. `path` None: nothing is kept."""

    path: Path | None

    def recall(self, device: Device, driver: str | None) -> Device | None:
        """The device with what was measured of it; None when that was with another driver or other libraries."""
        entry = self._read().get(device.id)
        if not isinstance(entry, dict) or entry.get("key") != _key(driver):
            return None
        try:
            return Device.model_validate(device.model_dump() | {name: entry["measured"][name] for name in _MEASURED})
        except (ValidationError, KeyError, TypeError):
            logger.warning("what %s says of %s is not understood: it is measured anew", self.path, device.id)
            return None

    def keep(self, device: Device) -> None:
        """OSErrors are logged: without the file devices are measured at each start."""
        if self.path is None:
            return
        told = device.model_dump(mode="json", include=set(_MEASURED))
        entries = self._read() | {device.id: {"key": _key(device.driver), "measured": told}}
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            partial.write_text(json.dumps(entries, indent=1), encoding="utf-8")
            partial.replace(self.path)
        except OSError:
            logger.warning("what was measured of %s can't be kept in %s", device.id, self.path, exc_info=True)

    def _read(self) -> dict[str, Any]:
        if self.path is None:
            return {}
        try:
            entries = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            logger.warning("%s can't be read: devices are measured anew", self.path)
            return {}
        return entries if isinstance(entries, dict) else {}


def _key(driver: str | None) -> list[Any]:
    return [SCHEMA, driver, build()]
