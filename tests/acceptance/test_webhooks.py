"""Webhooks of a real service that is killed while its receiver is out of order."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from tests.acceptance.live import live_server

pytestmark = pytest.mark.slow


@dataclass
class Receiver:
    """`status` is what it answers; what it gets it puts into `got`."""

    status: int = 503
    url: str = ""
    got: queue.Queue[tuple[dict[str, str], bytes]] = field(default_factory=queue.Queue)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            state.got.put((dict(self.headers), body))
            self.send_response(state.status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        state.url = f"http://127.0.0.1:{server.server_port}/hook"
        yield state
        server.shutdown()


def test_killed_service_tells_what_it_had_to_tell(receiver: Receiver, clip: Path) -> None:
    settings = {"TRANSCODER_ALLOWED_NETWORKS": "127.0.0.0/8", "TRANSCODER_WEBHOOK_RETRY_SECONDS": "1,1,1,1,1"}
    with live_server(TRANSCODER_SOFTWARE_SLOTS="1", **settings) as server:
        secret = server.curl("/v1/webhooks/secret").json()["secret"]
        upload = server.curl("-T", clip, "/v1/uploads/").json()["id"]
        spec = {"input": {"upload": upload}, "preset": "audio-mp3", "webhook": {"url": receiver.url}}
        job = server.curl("--json", json.dumps(spec), "/v1/jobs").json()["id"]
        headers, body = receiver.got.get(timeout=60)
        server.kill()
        while not receiver.got.empty():
            receiver.got.get()
        receiver.status = 200
        server.start()
        again, same = receiver.got.get(timeout=60)
        deadline = time.monotonic() + 30
        while (delivery := server.curl(f"/v1/jobs/{job}/webhooks").json()["items"][0])["state"] == "pending":
            assert time.monotonic() < deadline
        assert (delivery["state"], delivery["id"]) == ("delivered", again["webhook-id"])
        assert (again["webhook-id"], same) == (headers["webhook-id"], body)
        told = Webhook(secret).verify(same, again)
        assert (told["type"], told["data"]["id"], told["data"]["status"]) == ("job.completed", job, "completed")
        assert server.curl(f"/v1/jobs/{job}").json()["status"] == "completed"
