"""A bounded channel between two threads of a run. Stopping a run wakes everybody who waits on one."""

from __future__ import annotations

from collections import deque
from threading import Condition, Lock
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Stopped(Exception):
    """The run was stopped: whoever waits on a channel leaves by this."""


class Channel(Generic[Item]):
    """Holds at most `capacity` items. `get` returns None once the channel is closed and empty."""

    def __init__(self, capacity: int) -> None:
        self._items: deque[Item] = deque()
        self._capacity = capacity
        self._closed = self._stopped = False
        lock = Lock()
        self._readable, self._writable = Condition(lock), Condition(lock)

    def put(self, item: Item) -> None:
        with self._writable:
            while len(self._items) >= self._capacity and not self._stopped:
                self._writable.wait()
            if self._stopped:
                raise Stopped
            self._items.append(item)
            if len(self._items) == 1:
                self._readable.notify()

    def get(self) -> Item | None:
        with self._readable:
            while not self._items and not self._closed and not self._stopped:
                self._readable.wait()
            if self._stopped:
                raise Stopped
            if not self._items:
                return None
            item = self._items.popleft()
            if len(self._items) == self._capacity - 1:
                self._writable.notify()
            return item

    def close(self) -> None:
        """Nothing more will be put."""
        with self._readable:
            self._closed = True
            self._readable.notify_all()

    def stop(self) -> None:
        with self._readable:
            self._stopped = True
            self._readable.notify_all()
            self._writable.notify_all()
