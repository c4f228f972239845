"""Many callers, one transaction: what comes while a batch is under way makes the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Batcher(Generic[T, R]):
    """Hands items to `work` in batches of at most `max_size`; `work` gives a result for each item, in order.

    A lone item does not wait. When `work` raises, all callers of that batch get the error.
    """

    def __init__(self, work: Callable[[Sequence[T]], Awaitable[Sequence[R]]], *, max_size: int) -> None:
        self._work = work
        self._max_size = max_size
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def submit(self, item: T) -> R:
        """The result for `item`. A caller that is cancelled does not take its item back."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work_off(), name="batches")
        return await result

    async def _work_off(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._max_size], self._waiting[self._max_size :]
                await self._settle(batch)
        finally:
            self._worker = None

    async def _settle(self, batch: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self._work([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - raised again in every caller
            for _, waiting in batch:
                if not waiting.done():
                    waiting.set_exception(error)
            return
        for (_, waiting), result in zip(batch, results, strict=True):
            if not waiting.done():
                waiting.set_result(result)
