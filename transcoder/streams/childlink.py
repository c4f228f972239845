"""The process's end of a stream's link (see `broker`)."""

from __future__ import annotations

import itertools
import json
import os
import socket
import threading
from typing import Any

from pipelines.live.link import ConnectFailed, Connection
from pipelines.live.session import Stopping
from transcoder.children.outcomes import rebuild_error

MAX_PACKET_BYTES = 32_768
_LOOK_SECONDS = 0.1


class ServiceLink:
    """Asks the service for connections. Its end, and `stop`, end the stream."""

    def __init__(self, fd: int, stopping: Stopping) -> None:
        self._socket = socket.socket(fileno=fd)
        self._stopping = stopping
        self._numbers = itertools.count(1)
        self._answers: dict[int, tuple[dict[str, Any], list[int]]] = {}
        self._changed = threading.Condition()
        self._gone = False
        threading.Thread(target=self._listen, name="link", daemon=True).start()

    def connect(self, name: str, cancelled: threading.Event, about: str = "") -> Connection:
        number = next(self._numbers)
        self._send({"op": "connect", "id": number, "name": name, "about": about})
        with self._changed:
            while number not in self._answers:
                if cancelled.is_set() or self._gone:
                    self._send({"op": "abandon", "id": number})
                    raise ConnectFailed("given up while connecting", stage="open")
                self._changed.wait(_LOOK_SECONDS)
            message, descriptors = self._answers.pop(number)
        if message["op"] == "refused":
            raise rebuild_error(message["error"])
        return Connection(
            descriptors[0],
            message["kind"],
            message["url"],
            message["format"],
            message["options"],
            bool(message["paced"]),
        )

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._socket.send(json.dumps(message).encode())
        except OSError:
            self._gone = True

    def _listen(self) -> None:
        while True:
            packet, descriptors, _, _ = socket.recv_fds(self._socket, MAX_PACKET_BYTES, 1)
            if not packet:
                break
            message = json.loads(packet)
            if message["op"] == "stop":
                self._stopping.request(message["reason"])
                continue
            with self._changed:
                self._answers[message["id"]] = (message, list(descriptors))
                self._changed.notify_all()
        for fd in descriptors:
            os.close(fd)
        self._gone = True
        self._stopping.request("suspended")
