"""The page for everyone: by keyboard, on a phone, in the dark, with a screen reader, with a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.live import LiveServer, live_server, transcoder
from tests.web.conftest import Check, Keep, OpenPage

pytestmark = pytest.mark.slow

VIEWS = {
    "jobs": "Drop a media file here",
    "devices": "CPU",
    "queues": "New queue",
    "streams": "No stream is running",
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_view_is_accessible(
    open_page: OpenPage, server: LiveServer, finished_job: str, check: Check, keep: Keep, dark: bool
) -> None:
    page = open_page(server.address, dark=dark)
    colours = "dark" if dark else "light"
    for name, words in (VIEWS | {f"job/{finished_job}": "attempt 1 on"}).items():
        page.goto(f"{server.address}/#/{name}")
        page.get_by_text(words).first.wait_for()
        check(page)
        keep(page, f"{name.partition('/')[0]}-{colours}")


def test_draft_of_a_job_is_accessible(open_page: OpenPage, server: LiveServer, clip: Path, check: Check) -> None:
    page = open_page(server.address)
    page.set_input_files("#file", clip)
    page.locator(".plan").wait_for()
    check(page)


def test_phone_shows_every_view_without_scrolling_sideways(
    open_page: OpenPage, server: LiveServer, finished_job: str, check: Check, keep: Keep
) -> None:
    page = open_page(server.address, width=360, height=740)
    for name, words in (VIEWS | {f"job/{finished_job}": "attempt 1 on"}).items():
        page.goto(f"{server.address}/#/{name}")
        page.get_by_text(words).first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
        check(page)
        keep(page, f"{name.partition('/')[0]}-phone")


def test_keyboard_reaches_what_the_mouse_does(open_page: OpenPage, server: LiveServer, finished_job: str) -> None:
    page = open_page(server.address)
    page.get_by_role("link", name="holiday.mp4").first.wait_for()
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))
        if reached[-1] == "holiday.mp4":
            break
    assert reached[0] == "To the content"
    for wanted in ("Devices", "file", "address", "all", "holiday.mp4"):
        assert wanted in reached
    page.keyboard.press("Enter")
    page.get_by_text("attempt 1 on").wait_for()


def test_chosen_colours_stay(open_page: OpenPage, server: LiveServer) -> None:
    page = open_page(server.address)
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for _ in range(2):
        page.get_by_role("button", name="Colours").click()
    page.reload()
    page.get_by_role("button", name="Colours: dark").wait_for()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


@pytest.fixture(scope="module")
def keyed() -> Iterator[tuple[LiveServer, str]]:
    """A service that asks for a key, and a key."""
    with live_server(TRANSCODER_SOFTWARE_SLOTS="1") as server:
        made = transcoder("keys", "create", "--name", "test", env={"TRANSCODER_DATA_DIR": str(server.data)})
        yield server, made.succeeded().out.strip().splitlines()[-1]


def test_key_is_asked_for_and_forgotten_on_logout(
    keyed: tuple[LiveServer, str], open_page: OpenPage, clip: Path, check: Check, keep: Keep
) -> None:
    server, key = keyed
    page = open_page(server.address, refusals=True)
    page.get_by_label("Key").fill("tk_wrong_key")
    check(page)
    keep(page, "login")
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("does not know this key").first.wait_for()
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Log in").click()
    page.set_input_files("#file", clip)
    page.locator(".plan").wait_for()
    page.get_by_role("radio", name="Into MP4, unchanged").check()
    page.locator("#start").click()
    # what elements load comes by a signed link: they send no key
    page.locator("video[src*=signature]").wait_for()
    assert page.evaluate("localStorage.length + sessionStorage.length") >= 1
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Key").wait_for()
    assert page.evaluate("sessionStorage.getItem('transcoder.key')") is None


PLAYED_FROM = """async (address) => {
  const { default: Hls } = await import("/assets/vendor/hls.min.js");
  const video = document.createElement("video");
  video.muted = true;
  const player = new Hls({ enableWorker: false });
  await new Promise((resolve, reject) => {
    player.on(Hls.Events.ERROR, (_, data) => data.fatal && reject(new Error(data.details)));
    video.ontimeupdate = () => video.currentTime > 0.5 && resolve();
    player.loadSource(address);
    player.attachMedia(video);
    video.play();
  });
  return [video.videoHeight, video.webkitAudioDecodedByteCount > 0];
}"""


def test_link_of_a_playlist_plays_without_a_key(keyed: tuple[LiveServer, str], open_page: OpenPage, clip: Path) -> None:
    server, key = keyed
    caller = {"TRANSCODER_API_KEY": key, "TRANSCODER_SERVER": server.address}
    job = transcoder("jobs", "submit", clip, "--preset", "hls", "--wait", "--json", env=caller).succeeded().json()
    playlist = job["outputs"][0]["files"][0]["path"]
    address = f"/v1/jobs/{job['id']}/outputs/{playlist}/link"
    link = server.curl("-X", "POST", "-H", f"X-Api-Key: {key}", address).json()["url"]
    page = open_page(server.address, refusals=True)
    assert page.evaluate(PLAYED_FROM, link) == [360, True]
