"""The speeds of all devices: from trials, and learned from attempts that have finished; those are in the database.

A device is called by the id that it has among all nodes, so nodes know of each other's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Column, Float, Integer, PrimaryKeyConstraint, String, Table, delete, insert, select
from sqlalchemy.exc import SQLAlchemyError

from pipelines.devices import Device
from pipelines.estimates.estimate import expected_cost
from pipelines.estimates.speeds import Speed, Speeds, learned
from pipelines.estimates.work import Pace, Work
from pipelines.rendition import Plan, VideoRendition
from pipelines.result import Result
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.engine import DeviceState
from transcoder.tables import Moment, metadata

LEAST_SECONDS = 1.0
"""Shorter attempts tell more of starting than of speed."""
READ_SECONDS = 30.0
"""How often a node reads what others have learned."""
SOFTWARE_ID = "software"

logger = logging.getLogger(__name__)

speeds_table = Table(
    "speeds",
    metadata,
    Column("device", String(200), nullable=False),
    Column("stage", String(16), nullable=False),
    Column("coder", String(64), nullable=False),
    Column("effort", String(16), nullable=False),
    Column("pixels_per_second", Float, nullable=False),
    Column("samples", Integer, nullable=False),
    Column("updated_at", Moment, nullable=False),
    PrimaryKeyConstraint("device", "stage", "coder", "effort"),
)


def cpu_beside(device_id: str) -> str:
    """The id of the CPU of the machine that a device is in."""
    _, at, node = device_id.partition("@")
    return f"{SOFTWARE_ID}{at}{node}"


@dataclass(frozen=True)
class SpeedBook:
    """`devices`: as they are now, with what trials said of them."""

    database: Database
    devices: Callable[[], Sequence[Device]]
    _learned: dict[str, dict[tuple[str, str, str], Speed]] = field(default_factory=dict)

    def of(self, device_id: str) -> Speeds:
        tried = next((device.speeds for device in self.devices() if device.id == device_id), ())
        return Speeds.of(tried, self._learned.get(device_id, {}).values())

    def pace(self, device: Device) -> Pace:
        """What an attempt on `device` is estimated with."""
        cpu = self.of(cpu_beside(device.id)).all
        return Pace(cpu=cpu, gpu=() if device.kind == SOFTWARE_ID else self.of(device.id).all)

    def told(self, state: DeviceState) -> DeviceState:
        """With its speeds as they are known now."""
        return state.model_copy(update={"speeds": self.of(state.id).all})

    async def read(self) -> None:
        """What is in the database. SQLAlchemyError."""
        async with self.database.read() as connection:
            rows = (await connection.execute(select(speeds_table))).mappings().all()
        read: dict[str, dict[tuple[str, str, str], Speed]] = {}
        for row in rows:
            speed = Speed(**{name: row[name] for name in Speed.model_fields})
            read.setdefault(row["device"], {})[speed.key] = speed
        self._learned.clear()
        self._learned.update(read)

    async def keep_reading(self) -> None:
        """Until cancelled. Where there is one process, what it learned is known to it."""
        while True:
            try:
                await self.read()
            except SQLAlchemyError:
                logger.warning("what is known of speeds can't be read", exc_info=True)
            else:
                if self.database.is_sqlite:
                    return
            await asyncio.sleep(READ_SECONDS)

    async def learn(self, device_id: str, told: Mapping[str, Any] | None, result: Result) -> None:
        """From an attempt that has completed; `told` is its plan.

        What can't be learned from is passed over, and so is a database that is away: nothing hangs on it.
        """
        work = _work_of(told)
        seconds = max((output.duration_seconds or 0.0 for output in result.outputs), default=0.0)
        if not work or result.wall_seconds < LEAST_SECONDS or seconds <= 0:
            return
        changed = self._changed(device_id, work, result.wall_seconds / seconds)
        if not changed:
            return
        try:
            await self._save(changed)
        except SQLAlchemyError:
            logger.warning("the speeds of an attempt can't be kept", exc_info=True)
        for owner, speed in changed:
            self._learned.setdefault(owner, {})[speed.key] = speed

    def _changed(self, device_id: str, work: tuple[Work, ...], cost: float) -> list[tuple[str, Speed]]:
        """Speeds that follow from an attempt that took `cost` seconds for each second of output."""
        owners = {"software": cpu_beside(device_id), "hardware": device_id}
        known = tuple(part for part in work if part.cost is not None)
        unknown = [part for part in work if part.cost is None]
        if unknown:
            return self._first(owners, known, unknown, cost)
        expected = expected_cost(work)
        if expected is None:
            return []
        changed = []
        for part in work:
            if part.place != expected[1] or part.cost is None or part.pixels_per_second is None:
                continue
            owner = owners[part.place]
            before = self.of(owner).by_key.get((part.stage, part.coder, part.effort)) or Speed(
                stage=part.stage,
                coder=part.coder,
                effort=part.effort,
                pixels_per_second=part.pixels_per_second,
            )
            # against what is known now: other attempts may have ended since this one was planned
            ratio = cost / (expected[0] * part.pixels_per_second / before.pixels_per_second)
            changed.append((owner, learned(before, ratio, part.cost / expected[0])))
        return changed

    def _first(
        self, owners: Mapping[str, str], known: tuple[Work, ...], unknown: Sequence[Work], cost: float
    ) -> list[tuple[str, Speed]]:
        """Of what nothing was known: it had the time that the rest leaves."""
        place = unknown[0].place
        spent = sum(part.cost or 0.0 for part in known if part.place == place)
        left = max(cost - spent, cost / 10)
        pixels = sum(part.pixels for part in unknown if part.place == place)
        return [
            (
                owners[place],
                Speed(
                    stage=part.stage,
                    coder=part.coder,
                    effort=part.effort,
                    pixels_per_second=pixels / left,
                    samples=1,
                ),
            )
            for part in {
                (each.stage, each.coder, each.effort): each for each in unknown if each.place == place
            }.values()
        ]

    async def _save(self, changed: Sequence[tuple[str, Speed]]) -> None:
        now = utc_now()
        async with self.database.write() as connection:
            for owner, speed in changed:
                stage, coder, effort = speed.key
                mine = (speeds_table.c.device == owner, speeds_table.c.stage == stage)
                await connection.execute(
                    delete(speeds_table).where(*mine, speeds_table.c.coder == coder, speeds_table.c.effort == effort)
                )
                await connection.execute(
                    insert(speeds_table).values(device=owner, updated_at=now, **speed.model_dump(mode="json"))
                )


def _work_of(told: Mapping[str, Any] | None) -> tuple[Work, ...]:
    """The parts that an attempt's plan had; a plan that is not understood has none."""
    try:
        plan = None if told is None else Plan.model_validate(told)
    except ValidationError:
        return ()
    if plan is None or plan.estimate is None or _filters_weigh(plan):
        return ()
    return plan.estimate.work


LIGHT_FILTERS = frozenset({"scale", "crop", "pad", "retag", "transpose", "flatten"})
"""Beside these a coder has most of the time; after others its speed would be taken for less than it is."""


def _filters_weigh(plan: Plan) -> bool:
    renditions = (rendition for output in plan.outputs for rendition in output.renditions)
    filters = (step for each in renditions if isinstance(each, VideoRendition) for step in each.filters)
    return any(step.kind not in LIGHT_FILTERS for step in filters)
