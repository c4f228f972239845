"""The service's end of a stream's link: makes the connections that its process asks for, and tells it to stop.

Messages are JSON, one a packet. The process sends `connect` (id, name, about) and `abandon` (id); it is sent
`connected`, with a descriptor, or `refused` (the error), each with the id, and `stop` (the reason).
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from pipelines.errors import PipelineError
from transcoder.streams.childlink import MAX_PACKET_BYTES
from transcoder.streams.relay import Handover

_CONNECT_SECONDS = 60.0

Connect = Callable[[str, str], Awaitable[Handover]]
"""By name: the input's, or a push output's; and what is to be told about the tracks that it will send."""

logger = logging.getLogger(__name__)


class Broker:
    """One stream's. Use as an async context manager; `theirs` goes to the process."""

    def __init__(self, connect: Connect, patient: frozenset[str] = frozenset()) -> None:
        """`patient`: names whose connections may take any time, as they wait for others to come."""
        self._connect, self._patient = connect, patient
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        self._dialling: dict[int, asyncio.Task[None]] = {}
        self._working: dict[str, asyncio.Task[None]] = {}
        self._serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Broker:
        self._serving = asyncio.create_task(self._serve())
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._dialling.values(), *self._working.values()]
        if self._serving is not None:
            tasks.append(self._serving)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._ours.close()
        self.theirs.close()

    def stop(self, reason: str) -> None:
        """Asks the process to end; `stopped`: for good, `suspended`: until the service is back."""
        self._send({"op": "stop", "reason": reason})

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while packet := await loop.sock_recv(self._ours, MAX_PACKET_BYTES):
            try:
                asked = json.loads(packet)
                op, number = asked["op"], int(asked["id"])
                name, about = str(asked.get("name", "")), str(asked.get("about", ""))
            except (ValueError, KeyError, TypeError):
                logger.warning("a stream's process said something unreadable")
                continue
            if op == "connect" and number not in self._dialling:
                task = asyncio.create_task(self._dial(number, name, about))
                self._dialling[number] = task
                task.add_done_callback(lambda _, number=number: self._dialling.pop(number, None))  # type: ignore[misc]
            elif op == "abandon" and (dialling := self._dialling.get(number)) is not None:
                dialling.cancel()

    async def _dial(self, number: int, name: str, about: str) -> None:
        """Makes a connection, hands it over and keeps it going; the one of that name before is given up."""
        before = self._working.pop(name, None)
        if before is not None:
            before.cancel()
            await asyncio.gather(before, return_exceptions=True)
        try:
            async with asyncio.timeout(None if name in self._patient else _CONNECT_SECONDS):
                made = await self._connect(name, about)
        except PipelineError as error:
            self._refuse(number, error.to_json())
            return
        except TimeoutError:
            self._refuse(number, _failure("connect_failed", "the connection took too long", retryable=True))
            return
        except Exception as error:
            logger.exception("a stream's connection failed inside the service")
            self._refuse(number, _failure("internal", type(error).__name__, retryable=True))
            return
        with made.sock:
            told = {
                "op": "connected", "id": number, "kind": made.kind, "url": made.url, "format": made.format,
                "paced": made.paced, "options": made.options,
            }  # fmt: skip
            self._send(told, made.sock.fileno())
        if made.work is not None:
            self._working[name] = asyncio.create_task(_guarded(made.work))

    def _refuse(self, number: int, error: dict[str, Any]) -> None:
        self._send({"op": "refused", "id": number, "error": error})

    def _send(self, message: dict[str, Any], *descriptors: int) -> None:
        try:
            socket.send_fds(self._ours, [json.dumps(message).encode()], list(descriptors))
        except OSError:
            return  # the process has gone; its end is told elsewhere


async def _guarded(work: Callable[[], Awaitable[None]]) -> None:
    """A relay that breaks is the connection's end, of which the process learns by its descriptor."""
    try:
        await work()
    except (PipelineError, OSError) as error:
        logger.info("a stream's connection ended: %s", getattr(error, "message", None) or error)


def _failure(code: str, message: str, *, retryable: bool) -> dict[str, Any]:
    return {"code": code, "message": message, "stage": "fetch", "device": None, "retryable": retryable, "facts": {}}
