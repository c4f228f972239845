"""hls.js in Chromium plays the same source with low latency and without: it comes closer to what is live."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.live import LiveServer
from tests.transcoder.stream_peers import free_port, publisher

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
  const found = {latency: hls.latency, target: hls.targetLatency, behind: shown, parts: parts.size,
                 blocked: blocked.length, corrupted: video.getVideoPlaybackQuality().corruptedVideoFrames};
  hls.destroy();
  return found;
}"""


def test_hls_js_comes_nearer_to_live_with_parts(page: Any, players: dict[str, Path], server: LiveServer) -> None:
    source = f"http://127.0.0.1:{free_port()}/live.ts"
    spec = {"kind": "stream", "input": {"url": source}, "outputs": [LOW, PLAIN], "force": True}
    with publisher(source, "mpegts", "-listen", "1"):
        job = json.loads(server.curl("--json", json.dumps(spec), "/v1/jobs").out)["id"]
        until = time.monotonic() + START_SECONDS
        while '"plain/index.m3u8"' not in (told := server.curl(f"/v1/jobs/{job}").out):
            assert time.monotonic() < until, told
            time.sleep(0.1)
        # a window of at least what a plain player stays behind
        while server.curl(f"/v1/jobs/{job}/outputs/plain/v0.m3u8").out.count("#EXTINF") < 4:
            assert time.monotonic() < until
            time.sleep(0.1)
        page.add_script_tag(path=players["hls"])
        base = f"{server.address}/v1/jobs/{job}/outputs"
        plain = page.evaluate(FOLLOWED, [f"{base}/plain/index.m3u8", PLAYED_SECONDS])
        low = page.evaluate(FOLLOWED, [f"{base}/index.m3u8", PLAYED_SECONDS])
        server.curl("-X", "POST", f"/v1/jobs/{job}/stop")
    print(f"plain {plain}\nlow {low}")
    assert (plain["parts"], plain["corrupted"], low["corrupted"]) == (0, 0, 0)
    assert low["parts"] > 3
    assert low["blocked"] > 3
    assert low["target"] < plain["target"] / 2
    assert low["latency"] < plain["latency"]
