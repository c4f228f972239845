"""A live service under attack: hands it files, and checks after each that it stands as before."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from tests.acceptance.live import LiveServer, live_server

MP4: dict[str, Any] = {"type": "mp4", "video": {"height": 64, "speed": "ultrafast"}}
SOUND: dict[str, Any] = {"type": "audio", "audio": {"codec": "flac"}}
"""Outputs that cost little."""


@dataclass(frozen=True)
class Target:
    """A running service. `sound` is a file that every healthy service can transcode."""

    server: LiveServer
    http: httpx2.Client
    sound: bytes

    def upload(self, content: bytes, name: str = "clip") -> str:
        response = self.http.put(f"/v1/uploads/{quote(name, safe='')}", content=content)
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    def submit(self, **spec: Any) -> str:
        response = self.http.post("/v1/jobs", json={"outputs": [MP4], **spec})
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    def ended(self, job_id: str) -> dict[str, Any]:
        """The job once its events have ended."""
        with self.http.stream("GET", f"/v1/jobs/{job_id}/events") as events:
            for _ in events.iter_raw():
                pass
        job: dict[str, Any] = self.http.get(f"/v1/jobs/{job_id}").json()
        assert job["status"] in ("completed", "failed", "cancelled"), job
        return job

    def run(self, content: bytes, name: str = "clip", **spec: Any) -> dict[str, Any]:
        """A job of this file, ended."""
        return self.ended(self.submit(input={"upload": self.upload(content, name)}, **spec))

    def assert_unharmed(self) -> None:
        """The API answers, no slot is held, no scratch is left, and the next job succeeds."""
        assert self.http.get("/healthz").json()["status"] == "ok"
        assert self.http.get("/readyz").status_code == 200
        following = self.run(self.sound, "sound.wav", outputs=[SOUND])
        assert following["status"] == "completed", following["error"]
        assert [device["busy"] for device in self.http.get("/v1/devices").json()["items"]] == [0]
        assert list((self.server.data / "work").iterdir()) == []

    def outputs(self, job: dict[str, Any]) -> list[Path]:
        return sorted(path for path in (self.server.data / "outputs" / job["id"]).rglob("*") if path.is_file())


@contextmanager
def target(sound: bytes, **settings: str) -> Iterator[Target]:
    with (
        live_server(TRANSCODER_SOFTWARE_SLOTS="1", TRANSCODER_RETRY_BACKOFF_SECONDS="0.01", **settings) as server,
        httpx2.Client(base_url=server.address, timeout=60) as http,
    ):
        yield Target(server, http, sound)


@contextmanager
def canary() -> Iterator[socket.socket]:
    """A listener that nobody may connect to; not blocking."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def was_reached(listener: socket.socket) -> bool:
    try:
        listener.accept()
    except BlockingIOError:
        return False
    return True
