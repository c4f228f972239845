"""What happens to jobs, told live to whoever listens: `status`, `attempt`, `progress`, `log`.

Events are news, not the record: who subscribes first and then reads the job misses nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

EventKind = Literal["status", "attempt", "progress", "log"]

DROPPABLE: frozenset[EventKind] = frozenset({"progress", "log"})
"""Kinds that a slow reader may miss: the next progress says it all, and the log is a file."""


Listener = Callable[[str, EventKind, dict[str, Any]], None]
"""Told the job's id, the kind and the data of every event. It must not block."""


@dataclass(frozen=True)
class Event:
    """`id` rises over all jobs of this process; `data` is JSON."""

    id: int
    kind: EventKind
    data: dict[str, Any]


class Subscription:
    """An async iterator of one job's events. It ends when the bus closes, or when the reader is hopelessly behind."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._ended = False

    def put(self, event: Event) -> None:
        if self._ended:
            return
        if len(self._events) >= self._capacity and not self._make_room(event):
            return
        self._events.append(event)
        self._changed.set()

    def _make_room(self, event: Event) -> bool:
        oldest = next((index for index, queued in enumerate(self._events) if queued.kind in DROPPABLE), None)
        if oldest is not None:
            del self._events[oldest]
            return True
        if event.kind not in DROPPABLE:
            # a gap in the statuses would be a lie: the reader subscribes anew
            self.end()
        return False

    def end(self) -> None:
        self._ended = True
        self._changed.set()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._events.popleft()


class EventBus:
    """Delivers events within this process. Publishing never waits; each reader's queue is bounded."""

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._ids = count(1)
        self._readers: dict[str, set[Subscription]] = {}
        self._watchers: dict[Listener, Callable[[], None]] = {}
        self._closed = False

    def wanted(self, job_id: str) -> bool:
        """Whether anyone listens to this job: what costs a query need not be made for nobody."""
        return bool(self._watchers) or job_id in self._readers

    def listened(self) -> tuple[str, ...]:
        """Jobs that someone listens to."""
        return tuple(self._readers)

    @property
    def watched(self) -> bool:
        """Whether someone listens to all jobs."""
        return bool(self._watchers)

    def publish(self, job_id: str, kind: EventKind, data: dict[str, Any]) -> None:
        for listener in tuple(self._watchers):
            listener(job_id, kind, data)
        readers = self._readers.get(job_id)
        if readers:
            event = Event(next(self._ids), kind, data)
            for reader in tuple(readers):
                reader.put(event)

    @asynccontextmanager
    async def subscribe(self, job_id: str) -> AsyncGenerator[AsyncIterator[Event], None]:
        """Events of a job from now on."""
        reader = Subscription(self._capacity)
        if self._closed:
            reader.end()
        self._readers.setdefault(job_id, set()).add(reader)
        try:
            yield reader
        finally:
            readers = self._readers[job_id]
            readers.discard(reader)
            if not readers:
                del self._readers[job_id]

    @contextmanager
    def watching(self, listener: Listener, on_close: Callable[[], None]) -> Iterator[None]:
        """Tells `listener` of all jobs from now on; `on_close` when the bus closes."""
        self._watchers[listener] = on_close
        if self._closed:
            on_close()
        try:
            yield
        finally:
            del self._watchers[listener]

    def close(self) -> None:
        """Ends every subscription, now and later."""
        self._closed = True
        for on_close in tuple(self._watchers.values()):
            on_close()
        for readers in self._readers.values():
            for reader in readers:
                reader.end()
