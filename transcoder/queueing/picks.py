"""Which waiting task gets which free slot. Pure: values in, placements out.

Slots of a pool go one by one to the queue with the least use (see `shares`), and inside a queue to the highest
priority, then the earliest deadline, then the oldest task. Devices are taken in the order given.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pipelines.devices import Device
from transcoder.queueing.queues import Queue
from transcoder.queueing.requirements import ANY, pool_of, satisfied
from transcoder.queueing.shares import Account, Pool, Running, levelled, live_use


@dataclass(frozen=True)
class FreeSlots:
    """What a device can take now: `count` slots, of which `for_files` are not kept for live streams (None: all)."""

    device: Device
    count: int
    for_files: int | None = None
    slots: int | None = None
    """All of the device's slots, when they are others than the device says: a task takes at most these."""
    node: str | None = None

    @property
    def most(self) -> int:
        return self.device.slots if self.slots is None else self.slots


@dataclass(frozen=True)
class Waiting:
    """A task that may start."""

    id: str
    job_id: str
    number: int
    requirement: str
    attempt: int
    priority: int
    queued_at: datetime
    queue: str
    tenant: str
    kind: str
    cost: int
    ready_by: datetime
    hop_at: datetime
    costs: Mapping[str, int] | None = None
    """On devices whose speeds are known, in place of `cost`."""

    @property
    def order(self) -> tuple[int, datetime, datetime, str]:
        return (-self.priority, self.ready_by, self.queued_at, self.id)


@dataclass(frozen=True)
class Placement:
    """A task's place: a device, and how many of its slots it holds there."""

    task: Waiting
    device: Device
    held: int
    node: str | None


@dataclass(frozen=True)
class Rules:
    """What besides queues decides. `wait_for_hardware`: there is hardware that tasks of any device wait for."""

    wait_for_hardware: bool = False
    tenant_running: int | None = None
    """Most tasks of a tenant that run at once."""


@dataclass
class _Room:
    """What is left of a device."""

    free: FreeSlots
    count: int
    for_files: int

    @classmethod
    def of(cls, free: FreeSlots) -> _Room:
        return cls(free, free.count, free.count if free.for_files is None else min(free.count, free.for_files))

    def holds(self, task: Waiting) -> int:
        """Slots that the task would take: its cost, or all of a device that has fewer."""
        cost = (task.costs or {}).get(self.free.device.id, task.cost)
        return max(1, min(cost, self.free.most))

    def left(self, task: Waiting) -> int:
        return self.for_files if task.kind == "file" else self.count

    def take(self, task: Waiting) -> int:
        held = self.holds(task)
        self.count -= held
        if task.kind == "file":
            self.for_files -= held
        return held


@dataclass
class Picker:
    """One round of giving slots away. Running tasks are counted with what is placed on the way."""

    queues: Mapping[str, Queue]
    accounts: Mapping[Pool, Mapping[str, Account]]
    running: Sequence[Running]
    now: datetime
    rules: Rules = Rules()
    levels: dict[Pool, dict[str, Account]] = field(default_factory=dict)
    """Accounts to be stored, of the pools that had slots."""
    held_up: bool = False
    """A limit was reached: behind the tasks looked at there may be others that fit."""

    def __post_init__(self) -> None:
        self._of_queue = Counter(each.queue for each in self.running)
        self._of_tenant = Counter(each.tenant for each in self.running)

    def pick(self, waiting: Iterable[Waiting], free: Sequence[FreeSlots]) -> list[Placement]:
        left: dict[str, list[Waiting]] = defaultdict(list)
        for task in sorted(waiting, key=lambda task: task.order):
            left[task.queue].append(task)
        pools: dict[Pool, list[_Room]] = defaultdict(list)
        for each in free:
            if each.count > 0:
                pools[pool_of(each.device)].append(_Room.of(each))
        return [placed for pool, rooms in pools.items() for placed in self._fill(pool, rooms, left)]

    def _fill(self, pool: Pool, rooms: Sequence[_Room], left: Mapping[str, list[Waiting]]) -> list[Placement]:
        use = self._level(pool, rooms, left)
        placed: list[Placement] = []
        while True:
            # of equal use the weightier, then by name, so that it does not depend on chance
            order = sorted(use, key=lambda name: (use[name], -self.queues[name].weight, name))
            for name in order:
                placement = self._first(name, rooms, left[name])
                if placement is not None:
                    break
            else:
                return placed
            account = self.levels[pool][name]
            use[name] += account.expected_seconds * placement.held / self.queues[name].weight
            self._of_queue[name] += 1
            self._of_tenant[placement.task.tenant] += 1
            left[name].remove(placement.task)
            placed.append(placement)

    def _level(self, pool: Pool, rooms: Sequence[_Room], left: Mapping[str, list[Waiting]]) -> dict[str, float]:
        """Use of the queues that may get slots of this pool."""
        accounts = self.accounts[pool]
        mine: dict[str, list[Running]] = defaultdict(list)
        for each in self.running:
            if each.pool == pool:
                mine[each.queue].append(each)
        able = {name for name, waits in left.items() if any(self._fits(task, room) for task in waits for room in rooms)}
        live = {
            name: live_use(account, self.queues[name].weight, mine[name], self.now)
            for name, account in accounts.items()
        }
        blocked = {name for name in accounts if self._blocked(name)}
        level = levelled(accounts, live, able | {name for name in accounts if mine[name]}, blocked)
        self.levels[pool] = level
        return {name: live[name] + level[name].used - accounts[name].used for name in able}

    def _first(self, name: str, rooms: Sequence[_Room], waits: Sequence[Waiting]) -> Placement | None:
        """The queue's next task with its place."""
        if self._blocked(name):
            return None
        for task in waits:
            if self._tenant_full(task.tenant):
                self.held_up = True
                continue
            for room in rooms:
                if not self._fits(task, room):
                    continue
                if room.holds(task) > room.left(task):
                    if task.kind == "file" and room.count > 0:
                        # what stands before others gets its place before they do: the device is kept until it fits
                        room.for_files = 0
                    continue
                return Placement(task, room.free.device, room.take(task), room.free.node)
        return None

    def _fits(self, task: Waiting, room: _Room) -> bool:
        device = room.free.device
        if task.requirement not in satisfied(device) or not self.queues[task.queue].takes(device.id):
            return False
        hops = task.requirement == ANY and pool_of(device) == "software" and self.rules.wait_for_hardware
        return not hops or task.hop_at <= self.now

    def _blocked(self, name: str) -> bool:
        queue = self.queues[name]
        return queue.paused or (queue.max_running is not None and self._of_queue[name] >= queue.max_running)

    def _tenant_full(self, tenant: str) -> bool:
        return self.rules.tenant_running is not None and self._of_tenant[tenant] >= self.rules.tenant_running

    def full_tenants(self) -> frozenset[str]:
        """Tenants that may start nothing more."""
        return frozenset(tenant for tenant in self._of_tenant if self._tenant_full(tenant))
