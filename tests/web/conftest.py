"""A real service and a real browser that looks at its page."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.live import LiveServer, live_server
from tests.media import make_video

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

SCREENSHOTS = os.environ.get("TRANSCODER_TEST_SCREENSHOTS")
"""A folder that pictures of the page are kept in; `docs/images` for those of the README."""

SETTLED_SECONDS = 30


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    with live_server(TRANSCODER_SOFTWARE_SLOTS="2") as running:
        yield running


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("media") / "holiday.mp4", size=(640, 360), rate=25, seconds=4)


@pytest.fixture(scope="session")
def long_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Takes the slowest encoder far longer than any test waits."""
    return make_video(tmp_path_factory.mktemp("media") / "feature.mkv", size=(1280, 720), rate=30, seconds=20)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Until a module's end: while Playwright drives it, no test of the same process can run an event loop."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
        )
        yield chromium
        chromium.close()


OpenPage = Callable[..., Any]
Keep = Callable[[Any, str], None]
Check = Callable[[Any], None]
RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
}
REFUSED = re.compile(r"status of 40[13]|net::ERR_FAILED")
"""What browsers write to the console by themselves where a key is asked for, or a test cuts the line."""


@pytest.fixture(scope="session")
def finished_job(server: LiveServer, clip: Path) -> str:
    done = server.jobs("submit", clip, "--preset", "remux-mp4", "--wait", "--json").succeeded()
    return str(done.json()["id"])


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """Opens an address; what the page complains of on its console, or throws, fails the test at its end."""
    complaints: list[str] = []
    contexts = []

    def opened(
        address: str, *, width: int = 1280, height: int = 860, dark: bool = False, refusals: bool = False
    ) -> Any:
        def complain(text: str) -> None:
            if not (refusals and REFUSED.search(text)):
                complaints.append(text)

        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", device_scale_factor=1
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(SETTLED_SECONDS * 1000)
        page.on("console", lambda message: complain(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complain(str(error)))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def keep(tmp_path: Path) -> Keep:
    """Takes a picture of a page."""
    folder = tmp_path if SCREENSHOTS is None else Path(SCREENSHOTS)
    folder.mkdir(parents=True, exist_ok=True)

    def taken(page: Any, name: str) -> None:
        page.screenshot(path=folder / f"{name}.png")

    return taken


@pytest.fixture(scope="session")
def axe() -> str:
    package = pytest.importorskip("axe_playwright_python", reason="axe is not installed")
    return (resources.files(package) / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def check(axe: str) -> Check:
    """Fails for what axe-core finds on a page as it is now."""

    def checked(page: Any) -> None:
        page.evaluate(axe)
        found = page.evaluate("rules => axe.run(document, rules)", RULES)["violations"]
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []

    return checked
