"""Requests of players that wait for what a low-latency stream has not published yet."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from starlette.requests import ClientDisconnect

from transcoder.streams.edge import MAX_DIGITS, PART, SEGMENT, Wanted, wanted

Number = Annotated[
    str | None,
    Query(
        alias=SEGMENT,
        max_length=MAX_DIGITS,
        description="of a low-latency playlist: answer once it has the segment of this sequence number",
    ),
]
PartNumber = Annotated[
    str | None,
    Query(alias=PART, max_length=MAX_DIGITS, description="answer once it has this part of the segment, from 0 on"),
]


async def _wanted(segment: Number = None, part: PartNumber = None) -> Wanted | None:
    given = {name: text for name, text in ((SEGMENT, segment), (PART, part)) if text is not None}
    return wanted(given)


WantedOf = Annotated[Wanted | None, Depends(_wanted)]


async def unless_gone(request: Request, work: Coroutine[Any, Any, None]) -> None:
    """Does the work, as long as the client is there. ClientDisconnect."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        await working
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
