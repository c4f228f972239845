"""Answers that go on for long end when the key that asked for them does."""

from __future__ import annotations

import asyncio

from sqlalchemy.exc import SQLAlchemyError
from starlette.types import Message, Receive

from transcoder.auth.authority import Authority
from transcoder.auth.errors import Unauthorized


class Watched:
    """A request's `receive` that tells of a disconnect when the key has ended.

    Until the body is whole it only passes on. After that whoever streams an answer waits here for the client to go.
    """

    check_seconds = 5.0

    def __init__(self, receive: Receive, authority: Authority, key_id: str) -> None:
        self._receive, self._authority, self._key_id = receive, authority, key_id
        self._whole = False

    async def __call__(self) -> Message:
        if not self._whole:
            message = await self._receive()
            self._whole = not message.get("more_body", False)
            return message
        going = asyncio.ensure_future(self._receive())
        try:
            while True:
                await asyncio.wait({going}, timeout=self.check_seconds)
                if going.done():
                    return going.result()
                if await self._ended():
                    return {"type": "http.disconnect"}
        finally:
            going.cancel()

    async def _ended(self) -> bool:
        try:
            await self._authority.holder(self._key_id)
        except Unauthorized:
            return True
        except SQLAlchemyError:
            # nobody can tell now
            return False
        return False
