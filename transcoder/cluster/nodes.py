"""Nodes: processes that share a PostgreSQL database, each with its devices. Times are by the database's clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.devices import Device
from transcoder.database import Database, current_time
from transcoder.engine import DeviceState, State
from transcoder.errors import DeviceNotFound, NodeNotFound
from transcoder.queueing.picks import FreeSlots
from transcoder.queueing.requirements import pool_of
from transcoder.settings import Role
from transcoder.tables import node_devices, nodes, tasks

FORGET_AFTER = timedelta(days=7)
"""Nodes that were not heard of for so long are no more."""

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class Node(BaseModel):
    """A node as users see it. `state`: draining ones start nothing new; offline: not heard of for a while."""

    model_config = ConfigDict(frozen=True)

    name: str
    role: Role
    version: str
    state: Literal["online", "draining", "offline"]
    draining: bool
    started_at: datetime
    beat_at: datetime
    devices: tuple[str, ...] = ()
    running: int = 0


@dataclass(frozen=True)
class NodeDevice:
    """A device of this node, under the id that it has among all nodes."""

    device: Device
    position: int
    condition: State


@dataclass(frozen=True)
class NodeStore:
    """Each method is one transaction. A node counts as there for `alive_seconds` after a beat."""

    database: Database
    alive_seconds: float

    async def register(self, name: str, role: Role) -> None:
        """Tells that this node is there; what was set for it before stays so. Forgets those that are long gone."""
        async with self.database.write() as connection:
            now = await current_time(connection)
            values = {"role": role, "version": version("transcoder"), "started_at": now, "beat_at": now}
            known = await connection.execute(update(nodes).where(nodes.c.name == name).values(**values))
            if not known.rowcount:
                await connection.execute(insert(nodes).values(name=name, draining=False, **values))
            await connection.execute(
                delete(nodes).where(nodes.c.beat_at < now - FORGET_AFTER, nodes.c.beat_at > _NEVER)
            )

    async def beat(self, name: str) -> None:
        async with self.database.touch() as connection:
            now = await current_time(connection)
            await connection.execute(update(nodes).where(nodes.c.name == name).values(beat_at=now))

    async def leave(self, name: str) -> None:
        """Nothing is given to the node any more, from the return on."""
        async with self.database.write() as connection:
            await connection.execute(update(nodes).where(nodes.c.name == name).values(beat_at=_NEVER))

    async def set_devices(self, name: str, devices: Sequence[NodeDevice]) -> None:
        """What the node has now. Slots and draining stay as operators set them; what none has set follows the node."""
        async with self.database.write() as connection:
            columns = (node_devices.c.id, node_devices.c.slots, node_devices.c.facts)
            found = await connection.execute(select(*columns).where(node_devices.c.node == name))
            known = {row.id: row.slots if row.slots != row.facts["slots"] else None for row in found}
            gone = known.keys() - {each.device.id for each in devices}
            if gone:
                await connection.execute(delete(node_devices).where(node_devices.c.id.in_(gone)))
            for each in devices:
                values = {
                    "position": each.position,
                    "facts": each.device.model_dump(mode="json"),
                    "condition": each.condition,
                }
                if each.device.id in known:
                    mine, set_slots = node_devices.c.id == each.device.id, known[each.device.id]
                    slots = each.device.slots if set_slots is None else set_slots
                    await connection.execute(update(node_devices).where(mine).values(slots=slots, **values))
                    continue
                fresh = {"id": each.device.id, "node": name, "slots": each.device.slots, "draining": False}
                await connection.execute(insert(node_devices).values(**fresh, **values))

    async def update_device(self, device_id: str, changes: dict[str, Any]) -> None:
        """DeviceNotFound."""
        async with self.database.write() as connection:
            mine = node_devices.c.id == device_id
            if (await connection.execute(select(node_devices.c.id).where(mine))).one_or_none() is None:
                raise DeviceNotFound(f"there is no device {device_id!r}", device=device_id)
            if changes:
                await connection.execute(update(node_devices).where(mine).values(**changes))

    async def set_draining(self, name: str, draining: bool) -> Node:
        """NodeNotFound."""
        async with self.database.write() as connection:
            changed = await connection.execute(update(nodes).where(nodes.c.name == name).values(draining=draining))
            if not changed.rowcount:
                raise NodeNotFound(f"there is no node {name!r}", node=name)
        return next(node for node in await self.all() if node.name == name)

    async def all(self) -> tuple[Node, ...]:
        """By name."""
        async with self.database.read() as connection:
            now = await current_time(connection)
            rows = (await connection.execute(select(nodes).order_by(nodes.c.name))).mappings().all()
            devices = (
                (await connection.execute(select(node_devices).order_by(node_devices.c.position))).mappings().all()
            )
            counted = await connection.execute(
                select(tasks.c.node, func.count()).where(tasks.c.state == "running").group_by(tasks.c.node)
            )
            running = {row[0]: row[1] for row in counted}
        return tuple(
            Node(
                **row,
                state=self._state(row["beat_at"], row["draining"], now),
                devices=tuple(each["id"] for each in devices if each["node"] == row["name"]),
                running=running.get(row["name"], 0),
            )
            for row in rows
        )

    def _state(self, beat_at: datetime, draining: bool, now: datetime) -> Literal["online", "draining", "offline"]:
        if now - beat_at > timedelta(seconds=self.alive_seconds):
            return "offline"
        return "draining" if draining else "online"

    async def devices(self) -> tuple[DeviceState, ...]:
        """Of all nodes, GPUs first."""
        async with self.database.read() as connection:
            return await self.read_devices(connection, await current_time(connection))

    async def read_devices(self, connection: AsyncConnection, now: datetime) -> tuple[DeviceState, ...]:
        rows = (await connection.execute(_DEVICES)).mappings().all()
        held = await _held(connection)
        states = []
        for row in rows:
            facts = Device.model_validate(row["facts"])
            there = now - row["beat_at"] <= timedelta(seconds=self.alive_seconds)
            draining = row["draining"] or row["node_draining"]
            state: State = row["condition"] if row["condition"] != "ready" or not draining else "draining"
            states.append(
                DeviceState(
                    **{name: getattr(facts, name) for name in Device.model_fields if name != "slots"},
                    slots=row["slots"],
                    busy=sum(count for (device, _), count in held.items() if device == facts.id),
                    state=state if there else "offline",
                )
            )
        # of equal ones the one with the least to do, so that all nodes get some
        return tuple(sorted(states, key=lambda each: (pool_of(each) == "software", each.busy / max(1, each.slots))))

    async def offers(self, connection: AsyncConnection, now: datetime, live_slots: int) -> tuple[list[FreeSlots], bool]:
        """Free slots of nodes that are there; and whether there is hardware to wait for."""
        held = await _held(connection)
        states = [state for state in await self.read_devices(connection, now) if state.state == "ready"]
        hardware = any(pool_of(state) == "hardware" and state.slots > 0 for state in states)
        free = []
        for state in states:
            files = held.get((state.id, "file"), 0)
            if state.slots > state.busy:
                device = Device.model_validate({name: getattr(state, name) for name in Device.model_fields})
                node = state.id.rpartition("@")[2]
                for_files = max(0, state.slots - live_slots - files)
                free.append(FreeSlots(device, state.slots - state.busy, for_files, state.slots, node))
        return free, hardware


_DEVICES = (
    select(node_devices, nodes.c.beat_at, nodes.c.draining.label("node_draining"))
    .join(nodes, nodes.c.name == node_devices.c.node)
    .order_by(node_devices.c.node, node_devices.c.position)
)


async def _held(connection: AsyncConnection) -> dict[tuple[str, str], int]:
    """Slots that running tasks take, by device and kind."""
    found = await connection.execute(
        select(tasks.c.device, tasks.c.kind, func.sum(tasks.c.held))
        .where(tasks.c.state == "running")
        .group_by(tasks.c.device, tasks.c.kind)
    )
    return {(row[0], row[1]): int(row[2]) for row in found}
