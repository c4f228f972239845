"""Which engine runs attempts: by the database."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.devices import Device
from transcoder.database import Database
from transcoder.engine import Engine, RunAttempt
from transcoder.engine.local import LocalEngine
from transcoder.settings import Settings


def engine_for(settings: Settings, database: Database, run: RunAttempt, devices: Sequence[Device]) -> Engine:
    """`devices`: those of this process, in the order of preference."""
    return LocalEngine(
        database, run, devices, tenant_running=settings.max_running_jobs, live_slots=settings.reserve_live
    )
