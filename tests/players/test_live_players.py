"""hls.js plays a stream while it runs: a publisher sends, the service encodes two rungs, Chromium shows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.live import LiveServer
from tests.players.conftest import published
from tests.players.test_players import load

pytestmark = pytest.mark.slow

RUNGS = [{"height": height, "speed": "ultrafast"} for height in (120, 64)]
START_SECONDS = 60

PLAYED = """async (seconds) => {
  const {hls, video, errors} = window.player;
  video.muted = true;
  await video.play();
  const begun = video.currentTime, started = performance.now();
  while (video.currentTime < begun + seconds) {
    if (errors.length) throw new Error(errors.join("; "));
    if (performance.now() - started > 60000) throw new Error(`stuck at ${video.currentTime}`);
    await new Promise((done) => setTimeout(done, 50));
  }
  const quality = video.getVideoPlaybackQuality();
  return {frames: quality.totalVideoFrames, corrupted: quality.corruptedVideoFrames, height: video.videoHeight,
          live: hls.levels[hls.currentLevel].details.live, sound: hls.audioTracks.length, errors};
}"""


@pytest.fixture
def stream(server: LiveServer) -> Iterator[str]:
    """The address of a running stream's playlist, fed by a publisher that serves it over HTTP."""
    output = {"type": "hls", "segment_seconds": 1, "window_seconds": 8, "video": RUNGS}
    with published(server, [output], '"index.m3u8"', START_SECONDS) as address:
        yield address


def test_hls_js_plays_a_stream_that_runs(page: Any, players: dict[str, Path], stream: str) -> None:
    found = load(page, players, "hls", f"{stream}/index.m3u8")
    assert [height for height, _ in found["levels"]] == [64, 120]
    seen = page.evaluate(PLAYED, 4)
    assert (seen["live"], seen["errors"], seen["corrupted"], seen["sound"]) == (True, [], 0, 1)
    assert seen["frames"] > 60
    assert seen["height"] in (64, 120)
