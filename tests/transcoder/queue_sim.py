"""A queue in simulated time: tasks are claimed and settled for real, and last as long as the test says."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count

from pipelines.devices import Device
from pipelines.spec import FileJob
from transcoder.attempts.retry import RetryPolicy
from transcoder.attempts.settlement import Completed, Ticket, settle
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.ids import new_id
from transcoder.queueing.admission import Claim, FreeSlots, Rules, claim
from transcoder.queueing.queues import QueueSettings, QueueStore
from transcoder.store import JobStore
from transcoder.submission import Added, NewJob

CPU = Device(id="software", kind="software", name="CPU", slots=4)
GPU = Device(id="gpu0", kind="vaapi", name="GPU", slots=2)


def job_in(
    queue: str = "default", *, wanted: str = "any", tenant: str = "default", cost: int = 1, **spec: object
) -> NewJob:
    asked = {"input": {"path": "/a.mp4"}, "outputs": [{"type": "mp4"}], "queue": queue, **spec}
    return NewJob(new_id(), tenant, FileJob.model_validate(asked), None, wanted, utc_now(), cost=cost)


async def make_queues(database: Database, **queues: QueueSettings) -> None:
    for name, settings in queues.items():
        await QueueStore(database).put(name, settings, utc_now())


async def add(database: Database, *new: NewJob) -> list[str]:
    added = await JobStore(database).add(new)
    assert all(isinstance(each, Added) for each in added), added
    return [job.id for job in new]


@dataclass
class Simulation:
    """`seconds`: how long a task of each queue takes. `used`: slot-seconds of each queue so far."""

    database: Database
    seconds: Mapping[str, float]
    device: Device = CPU
    now: datetime = field(default_factory=utc_now)
    used: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    started: Counter[str] = field(default_factory=Counter)
    _running: list[tuple[datetime, int, Claim]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    async def step(self) -> bool:
        """Fills the slots, then goes to the next end of a task; False when there is none."""
        free = self.device.slots - len(self._running)
        async with self.database.write() as connection:
            for claimed in await claim(connection, [FreeSlots(self.device, free)], self.now, Rules()):
                queue = claimed.spec["queue"]
                self.started[queue] += 1
                end = self.now + timedelta(seconds=self.seconds[queue])
                heapq.heappush(self._running, (end, next(self._numbers), claimed))
            if not self._running:
                return False
            self._pass(self._running[0][0])
            done = heapq.heappop(self._running)[2]
            await settle(
                connection,
                Ticket(done.job_id, done.task_id, done.attempt),
                Completed((), ()),
                RetryPolicy(3, 0.0),
                self.now,
            )
        return True

    async def steps(self, number: int) -> None:
        for _ in range(number):
            assert await self.step()

    def _pass(self, end: datetime) -> None:
        passed = (end - self.now).total_seconds()
        for _, _, claimed in self._running:
            self.used[claimed.spec["queue"]] += passed
        self.now = end
