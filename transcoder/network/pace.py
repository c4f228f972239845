"""How slowly a peer may send before it counts as stalled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

FLOOR_BYTES = 4096
"""A peer that trickles single bytes holds a connection as surely as a silent one, so some bytes are asked of it."""


class Pace:
    """Asks for at least `floor_bytes` in each `idle_seconds` of waiting for the peer.

    Only time inside `within` counts: a slow disk on our side is not the peer's fault.
    """

    def __init__(self, idle_seconds: float, floor_bytes: int = FLOOR_BYTES) -> None:
        self._idle_seconds = idle_seconds
        self._floor_bytes = floor_bytes
        self._left_seconds = idle_seconds
        self._window_bytes = 0

    async def within(self, step: Awaitable[T]) -> T:
        """Awaits `step`; TimeoutError when the window's time is used up before its bytes have come."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._left_seconds):
                return await step
        finally:
            self._left_seconds -= time.monotonic() - started

    def received(self, size: int) -> None:
        """Counts bytes; a full window starts the next one."""
        self._window_bytes += size
        if self._window_bytes >= self._floor_bytes:
            self._window_bytes = 0
            self._left_seconds = self._idle_seconds
