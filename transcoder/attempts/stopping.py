"""Waiting as long as an attempt is not to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pipelines.errors import Cancelled
from transcoder.engine import Stop

T = TypeVar("T")


async def unless_stopped(work: Coroutine[Any, Any, T], stop: Stop) -> T:
    """The result of `work`; Cancelled as soon as the attempt is to stop, with `work` ended."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.requested.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
    if working.cancelled():
        raise Cancelled("cancelled", stage="fetch")
    return working.result()


async def pause(seconds: float, stop: Stop) -> None:
    """Ends sooner when the attempt is to stop; the whole time when it was before."""
    if stop.reason is not None:
        await asyncio.sleep(seconds)
        return
    try:
        async with asyncio.timeout(seconds):
            await stop.requested.wait()
    except TimeoutError:
        return
