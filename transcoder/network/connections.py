"""Connections that send the heads of their requests slowly, endlessly or never are let go.

Bodies have limits of their own, in the routes that read them; what is here is about everything around them.
"""

from __future__ import annotations

import asyncio
import json

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_SECONDS = 10.0
MAX_HEAD_BYTES = 64 * 1024


def guarded(*, max_connections: int) -> type[GuardedProtocol]:
    """The protocol of a server with a bound on its open connections."""
    return type("GuardedProtocol", (GuardedProtocol,), {"max_connections": max_connections})


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's, with a deadline and a size for heads, and a deadline for what follows an early answer."""

    head_seconds = HEAD_SECONDS
    max_connections = 512

    _deadline: asyncio.TimerHandle | None = None
    _in_head = False
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(503, "too_many_connections", f"{self.max_connections} connections are open already")
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            # what the parser holds of an unfinished line is counted here, and only here
            self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, "head_too_large", f"the request's head has more than {MAX_HEAD_BYTES} bytes")
        answered = self.cycle is None or self.cycle.response_complete
        if answered and self.timeout_keep_alive_task is None:
            # empty lines, or the rest of a body that was refused: for a while, not for ever
            self._expect_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if not self._in_head:
            # trailers, of which nothing is read
            self._head_bytes += len(name) + len(value)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.transport.abort()

    def on_body(self, body: bytes) -> None:
        first = self.cycle is not None and not self.cycle.body and not self.cycle.response_complete
        super().on_body(b"" if first else body)
        if first:
            # as it is: put into the empty array that is there, all of an upload would be copied twice more
            self.cycle.body = body  # type: ignore[assignment]
            if len(body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        self._head_came()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.head_seconds, self._too_slow)

    def _head_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        if self._in_head:
            self._refuse(408, "head_timeout", f"the request's head took longer than {self.head_seconds:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, code: str, detail: str) -> None:
        self._head_came()
        told = {
            "type": f"urn:transcoder:problem:{code}",
            "title": code.replace("_", " ").capitalize(),
            "status": status,
            "detail": detail,
            "code": code,
        }
        body = json.dumps(told).encode()
        head = b"content-type: application/problem+json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
