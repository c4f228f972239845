"""A real service with a ladder, and hls.js and dash.js that play it in Chromium.

The players come from npm: `npm install --prefix DIR hls.js dashjs`, then TRANSCODER_TEST_PLAYERS=DIR/node_modules.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.live import LiveServer, live_server
from tests.media import Subtitles, Tone, make_video
from tests.transcoder.stream_peers import free_port, publisher

FILES = {"hls": "hls.js/dist/hls.min.js", "dash": "dashjs/dist/modern/umd/dash.all.min.js"}
REQUIRED = os.environ.get("REQUIRE_PLAYERS") == "1"
"""Turns a skip into a failure."""
KEY = bytes(range(16))


def _missing(reason: str) -> None:
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def players() -> dict[str, Path]:
    folder = os.environ.get("TRANSCODER_TEST_PLAYERS")
    if folder is None:
        _missing("TRANSCODER_TEST_PLAYERS names no folder with hls.js and dashjs")
    found = {name: Path(str(folder)) / path for name, path in FILES.items()}
    for path in found.values():
        if not path.is_file():
            _missing(f"{path} is not there")
    return found


@pytest.fixture(scope="module")
def browser(players: dict[str, Path]) -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright is not installed")
    path = shutil.which("chromium")
    if path is None:
        _missing("Chromium is not installed")
    with sync_playwright() as driver:
        arguments = ["--no-sandbox", "--autoplay-policy=no-user-gesture-required", "--mute-audio"]
        chromium = driver.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def server(browser: Any) -> Iterator[LiveServer]:
    with live_server(TRANSCODER_SOFTWARE_SLOTS="1", TRANSCODER_ALLOWED_NETWORKS="127.0.0.0/8") as running:
        yield running


@pytest.fixture(scope="module")
def upload(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """10 s at 29.97 with B pictures behind it, two languages and subtitles."""
    path = make_video(
        tmp_path_factory.mktemp("media") / "in.mkv",
        size=(640, 360),
        rate=Fraction(30_000, 1001),
        seconds=10,
        audio=(Tone(language="eng"), Tone(language="fra")),
        subtitles=(Subtitles(cues=((0.5, 3.5, "First"), (5, 7, "Second")), language="eng"),),
    )
    return str(json.loads(server.curl("-T", path, "/v1/uploads/").out)["id"])


MakeLadder = Callable[[dict[str, Any]], str]


@pytest.fixture(scope="module")
def ladder(server: LiveServer, upload: str) -> MakeLadder:
    """Runs a job of one output; gives the address of its folder."""

    def made(output: dict[str, Any]) -> str:
        found = server.ended({"input": {"upload": upload}, "outputs": [output]})
        assert found["status"] == "completed", found["error"]
        return f"{server.address}/v1/jobs/{found['id']}/outputs/output"

    return made


PAGE = "<!doctype html><title>player</title><video muted playsinline width=640 height=360></video>"


@pytest.fixture
def page(browser: Any, server: LiveServer) -> Iterator[Any]:
    """An empty page of the service's own origin with a video element."""
    context = browser.new_context()
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.route("**/player.html", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
    opened.route("**/the.key", lambda route: route.fulfill(body=KEY, content_type="application/octet-stream"))
    opened.goto(f"{server.address}/player.html")
    yield opened
    context.close()
    assert complaints == []


@contextmanager
def published(server: LiveServer, outputs: list[dict[str, Any]], shows: str, seconds: float) -> Iterator[str]:
    """The address of what a stream publishes, as soon as the job `shows` that; a publisher serves it over HTTP."""
    source = f"http://127.0.0.1:{free_port()}/live.ts"
    spec = {"kind": "stream", "input": {"url": source}, "outputs": outputs, "force": True}
    with publisher(source, "mpegts", "-listen", "1"):
        job = json.loads(server.curl("--json", json.dumps(spec), "/v1/jobs").out)["id"]
        until = time.monotonic() + seconds
        while shows not in (told := server.curl(f"/v1/jobs/{job}").out):
            assert time.monotonic() < until, told
            time.sleep(0.1)
        yield f"{server.address}/v1/jobs/{job}/outputs"
        server.curl("-X", "POST", f"/v1/jobs/{job}/stop")
