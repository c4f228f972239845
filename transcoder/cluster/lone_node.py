"""The node of a service that runs alone, on SQLite: the same calls as those of many (see `nodes`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version

from sqlalchemy import func, select

from transcoder.clock import utc_now
from transcoder.cluster.nodes import Node
from transcoder.database import Database
from transcoder.engine import Engine
from transcoder.errors import NodeNotFound
from transcoder.settings import Role
from transcoder.tables import tasks


@dataclass(frozen=True)
class LoneNode:
    """It drains when all its devices do. What is set lasts until the service stops, as with devices."""

    database: Database
    engine: Engine
    name: str
    role: Role
    started_at: datetime = field(default_factory=utc_now)

    async def all(self) -> tuple[Node, ...]:
        async with self.database.read() as connection:
            running = select(func.count()).select_from(tasks).where(tasks.c.state == "running")
            count = int((await connection.execute(running)).scalar_one())
        devices = self.engine.devices()
        usable = [device for device in devices if device.state != "unusable"]
        draining = bool(usable) and all(device.state == "draining" for device in usable)
        return (
            Node(
                name=self.name,
                role=self.role,
                version=version("transcoder"),
                state="draining" if draining else "online",
                draining=draining,
                started_at=self.started_at,
                beat_at=utc_now(),
                devices=tuple(device.id for device in devices),
                running=count,
            ),
        )

    async def set_draining(self, name: str, draining: bool) -> Node:
        """NodeNotFound."""
        if name != self.name:
            raise NodeNotFound(f"there is no node {name!r}", node=name)
        for device in self.engine.devices():
            await self.engine.update_device(device.id, slots=None, draining=draining)
        (node,) = await self.all()
        return node
