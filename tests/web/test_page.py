"""What a person does on the page, done by a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.live import LiveServer
from tests.web.conftest import Keep, OpenPage

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
    keep(page, "jobs")
