"""What a person does on the page, done by a browser."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.acceptance.live import LiveServer
from tests.web.conftest import Check, Keep, OpenPage

pytestmark = pytest.mark.slow

PLAYED = """video => new Promise((resolve, reject) => {
  video.onerror = () => reject(new Error(video.error.message));
  video.ontimeupdate = () => video.currentTime > 0.5 && resolve();
  video.play();
})"""


def test_file_is_uploaded_transcoded_and_played(
    open_page: OpenPage, server: LiveServer, clip: Path, keep: Keep
) -> None:
    page = open_page(server.address)
    page.get_by_text("Drop a media file here").wait_for()
    keep(page, "empty")
    page.set_input_files("#file", clip)
    plan = page.locator(".plan")
    plan.get_by_text("Runs on software").wait_for()
    page.get_by_role("radio", name="H.264 480p").check()
    plan.locator("summary").first.click()
    plan.get_by_text("640×360").wait_for()
    keep(page, "draft")
    page.click("#start")
    page.locator(".badge.completed").first.wait_for()
    video = page.locator("video")
    video.evaluate(PLAYED)
    # a source that is smaller than the preset is not enlarged
    assert video.evaluate("video => video.videoHeight") == 360
    keep(page, "job")
    assert page.get_by_text("attempt 1 on").count() == 1
    page.get_by_role("link", name="Jobs").click()
    page.get_by_role("link", name=clip.name).first.wait_for()


def test_ladder_is_played_with_its_sound(open_page: OpenPage, server: LiveServer, clip: Path, keep: Keep) -> None:
    job = server.jobs("submit", clip, "--preset", "hls", "--wait", "--json").succeeded().json()
    page = open_page(f"{server.address}/#/job/{job['id']}")
    video = page.locator("video")
    video.wait_for()
    video.evaluate(PLAYED)
    # sound that is apart from the picture is found and decoded too
    assert video.evaluate("video => video.webkitAudioDecodedByteCount") > 0
    keep(page, "ladder")


SEEN = "image => image.decode().then(() => image.naturalWidth)"


def test_job_shows_its_pictures_and_its_receipt(
    open_page: OpenPage, server: LiveServer, clip: Path, keep: Keep, check: Check
) -> None:
    upload = server.curl("-T", clip, "/v1/uploads/holiday.mp4").json()["id"]
    film = {"type": "mp4", "name": "film", "video": {"height": 120, "speed": "ultrafast"}}
    spec = {
        "input": {"upload": upload},
        "outputs": [film, {"type": "thumbnails", "name": "stills", "pick": {"mode": "interval", "seconds": 1}}],
        "receipt": {"quality": True},
        "metadata": {"file": "pictures.mp4"},
    }
    job = server.curl("--json", json.dumps(spec), "/v1/jobs").json()
    page = open_page(f"{server.address}/#/job/{job['id']}")
    page.locator(".badge.completed").first.wait_for()
    still = page.locator(".pictures img").first
    assert still.evaluate(SEEN) > 0
    page.locator("video").wait_for()
    page.get_by_text("Receipt: what was measured").click()
    page.get_by_text("An equivalent command").wait_for()
    receipt = page.locator("section", has_text="An equivalent command")
    assert "libx264" in receipt.inner_text()
    assert "SSIM" in receipt.inner_text()
    assert "apart at the start" in receipt.inner_text()
    check(page)
    receipt.scroll_into_view_if_needed()
    keep(page, "receipt")
    page.goto(f"{server.address}/#/jobs")
    thumbnail = page.locator(".job", has_text="pictures.mp4").locator(".thumb img")
    assert thumbnail.evaluate(SEEN) == 214
    keep(page, "thumbnails")


def test_list_follows_jobs_that_others_submit(
    open_page: OpenPage, server: LiveServer, clip: Path, long_clip: Path, keep: Keep
) -> None:
    page = open_page(server.address, height=560)
    page.get_by_text("live", exact=True).wait_for()
    server.jobs("submit", clip, "--preset", "remux-mkv", "--wait").succeeded()
    job_id = server.jobs("submit", long_clip, "--preset", "mkv-archive-hevc").succeeded().out.strip()
    row = page.locator(".job", has_text=long_clip.name).first
    row.get_by_text("fps").wait_for()
    share = "row => Number(row.querySelector('progress').value)"
    first = row.evaluate(share)
    row.evaluate(
        """row => new Promise((resolve) => {
          const bar = row.querySelector("progress"), before = bar.value;
          const look = () => bar.value > before ? resolve() : setTimeout(look, 100);
          look();
        })"""
    )
    assert row.evaluate(share) > first
    assert row.locator(".where").inner_text() == "software"
    keep(page, "jobs")
    row.get_by_role("button", name="Cancel").click()
    row.locator(".badge.cancelled").wait_for()
    assert server.curl(f"/v1/jobs/{job_id}").json()["status"] == "cancelled"
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    row.wait_for(state="detached")


def test_upload_goes_on_in_a_browser_that_was_closed(open_page: OpenPage, server: LiveServer, tmp_path: Path) -> None:
    media = tmp_path / "large.mov"
    media.write_bytes(random.Random(1).randbytes(20 << 20))
    page = open_page(server.address, refusals=True)
    pieces: list[str] = []

    def first_only(route: Any) -> None:
        pieces.append(route.request.headers["upload-offset"])
        route.continue_() if len(pieces) == 1 else route.abort()

    page.route("**/v1/tus/*", lambda route: first_only(route) if route.request.method == "PATCH" else route.continue_())
    page.set_input_files("#file", media)
    page.get_by_text("The connection broke").wait_for()
    again = page.context.new_page()
    page.close()
    again.goto(server.address)
    with again.expect_request(lambda request: request.method == "PATCH") as sent:
        again.set_input_files("#file", media)
    assert int(sent.value.headers["upload-offset"]) >= 8 << 20
    # it is no media, and said to be none
    again.get_by_text("uploaded").wait_for()
    again.locator(".draft .failure").wait_for()


def test_operator_pauses_queues_and_changes_slots(open_page: OpenPage, server: LiveServer) -> None:
    page = open_page(f"{server.address}/#/queues")
    page.get_by_label("New queue").fill("night")
    page.get_by_role("button", name="Make it").click()
    card = page.locator("section", has=page.get_by_role("heading", name="night"))
    card.get_by_label("Weight").fill("3")
    card.get_by_role("button", name="Save").click()
    card.get_by_text("75 % of busy slots").wait_for()
    card.get_by_role("button", name="Pause").click()
    card.get_by_text("paused").wait_for()
    queue = server.curl("/v1/queues/night").json()
    assert (queue["weight"], queue["paused"]) == (3.0, True)
    card.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    card.wait_for(state="detached")
    page.goto(f"{server.address}/#/devices")
    page.get_by_role("button", name="More slots").click()
    page.get_by_text("of 3 slots").wait_for()
    page.get_by_role("button", name="Fewer slots").click()
    page.get_by_role("button", name="Drain").click()
    page.locator(".badge.draining").wait_for()
    page.get_by_role("button", name="Take work again").click()
    page.locator(".badge.ready").wait_for()


def test_ten_thousand_jobs_are_listed_without_a_stutter(
    open_page: OpenPage, server: LiveServer, finished_job: str
) -> None:
    job = server.curl(f"/v1/jobs/{finished_job}").json() | {"plan": None}
    page = open_page("about:blank")

    def answer(route: Any) -> None:
        start = int(parse_qs(urlsplit(route.request.url).query).get("cursor", ["0"])[0])
        items = [job | {"id": f"{start + number:034x}"} for number in range(500)]
        route.fulfill(json={"items": items, "next": str(start + 500) if start + 500 < 10_000 else None})

    page.route("**/v1/jobs?*", answer)
    # these jobs are made up, their pictures as well
    page.route("**/thumbnail.jpg", lambda route: route.fulfill(body=b"", content_type="image/jpeg"))
    page.goto(server.address)
    page.locator(".job").first.wait_for()
    for pages in range(2, 21):
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.locator(".job").nth(pages * 500 - 1).wait_for(state="attached")
    took = page.evaluate(
        """async () => {
          const { update, state } = await import("/assets/state.js");
          const times = [];
          for (let round = 0; round < 5; round++) {
            const begun = performance.now();
            const [first, ...others] = state.jobs.items;
            update((now) => (now.jobs.items = [{ ...first, progress: round / 5 }, ...others]));
            await new Promise((resolve) => setTimeout(resolve, 0));
            document.body.getBoundingClientRect();
            times.push(performance.now() - begun);
          }
          return { count: state.jobs.items.length, median: times.sort((a, b) => a - b)[2] };
        }"""
    )
    print(f"a change in a list of {took['count']} jobs is drawn in {took['median']:.0f} ms")
    assert took["count"] == 10_000
    assert took["median"] < 250


def test_page_can_be_used_soon_after_it_was_asked_for(open_page: OpenPage, server: LiveServer) -> None:
    page = open_page(server.address)
    page.get_by_text("Drop a media file here").wait_for()
    page.reload(wait_until="commit")
    page.get_by_text("live", exact=True).wait_for()
    milliseconds = page.evaluate("performance.getEntriesByName('usable')[0].startTime")
    print(f"usable after {milliseconds:.0f} ms")
    assert milliseconds < 3000
