"""hls.js in Chromium plays the same source with low latency and without: it comes closer to what is live."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.live import LiveServer
from tests.players.conftest import published

pytestmark = pytest.mark.slow

RUNG = {"height": 64, "speed": "ultrafast"}
PLAIN = {"type": "hls", "name": "plain", "segment_seconds": 2, "window_seconds": 12, "video": RUNG}
LOW = {**PLAIN, "name": "low", "low_latency": True, "part_seconds": 0.4}
START_SECONDS = 90
PLAYED_SECONDS = 3

FOLLOWED = """async ([address, seconds]) => {
  const video = document.querySelector("video");
  const hls = new Hls({enableWorker: false, lowLatencyMode: true});
  const fatal = [], blocked = [], parts = new Set();
  hls.on(Hls.Events.ERROR, (_, data) => { if (data.fatal) fatal.push(`${data.details} ${data.error ?? ""}`); });
  hls.on(Hls.Events.FRAG_LOADED, (_, data) => { if (data.part) parts.add(data.part.relurl); });
  hls.on(Hls.Events.LEVEL_LOADED, (_, data) => { if (data.deliveryDirectives) blocked.push(data.stats.loading.end); });
  hls.loadSource(address);
  hls.attachMedia(video);
  video.muted = true;
  await new Promise((done) => hls.once(Hls.Events.MANIFEST_PARSED, done));
  await video.play();
  const begun = performance.now();
  let from = null;
  while (from === null || video.currentTime < from + seconds) {
    if (fatal.length) throw new Error(fatal.join("; "));
    if (performance.now() - begun > 120000) throw new Error(`stuck at ${video.currentTime}`);
    if (from === null && video.currentTime > 0 && video.readyState > 2) from = video.currentTime;
    await new Promise((done) => setTimeout(done, 50));
  }
  const shown = hls.playingDate ? (Date.now() - hls.playingDate.getTime()) / 1000 : null;
  const details = hls.levels[hls.currentLevel].details;
  const found = {latency: hls.latency, target: hls.targetLatency, asked: details.partHoldBack, behind: shown,
                 parts: parts.size, blocked: blocked.length,
                 corrupted: video.getVideoPlaybackQuality().corruptedVideoFrames};
  hls.destroy();
  return found;
}"""


@pytest.fixture
def outputs(server: LiveServer) -> Iterator[str]:
    """The address of what a stream publishes, low-latency and plain."""
    # a window of at least what a plain player stays behind
    with published(server, [LOW, PLAIN], '"plain/v0/00000004.m4s"', START_SECONDS) as address:
        yield address


def test_hls_js_comes_nearer_to_live_with_parts(page: Any, players: dict[str, Path], outputs: str) -> None:
    page.add_script_tag(path=players["hls"])
    plain = page.evaluate(FOLLOWED, [f"{outputs}/plain/index.m3u8", PLAYED_SECONDS])
    low = page.evaluate(FOLLOWED, [f"{outputs}/index.m3u8", PLAYED_SECONDS])
    assert (plain["parts"], plain["corrupted"], low["corrupted"]) == (0, 0, 0)
    assert low["parts"] > 3
    assert low["blocked"] > 3
    # three parts; each time that the player runs dry it stays a second further behind
    assert 1.2 <= low["asked"] < 1.5
    assert low["latency"] < plain["latency"]
