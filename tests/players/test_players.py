"""hls.js and dash.js play every rung, switch between them, and find the other tracks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.players.conftest import KEY, MakeLadder

pytestmark = pytest.mark.slow

RUNGS = [
    {"height": 360, "rate_control": {"mode": "crf", "crf": 26}, "speed": "veryfast"},
    {"height": 180, "rate_control": {"mode": "crf", "crf": 30}, "speed": "veryfast"},
]
LADDER: dict[str, Any] = {"segment_seconds": 2, "video": RUNGS}
SECONDS = 10.01

HLS = """async (address) => {
  const video = document.querySelector("video");
  const hls = new Hls({enableWorker: false, maxBufferLength: 30});
  const errors = [];
  hls.on(Hls.Events.ERROR, (_, data) => {
    // told without being wrong: a rung that replaces what is there already or on its way, a machine that is slow, and
    // tracks that do not begin at the very same moment
    const harmless = ["bufferAppendNoProgress", "bufferStalledError", "aborted", "bufferSeekOverHole"];
    if (data.fatal || !harmless.includes(data.details))
      errors.push(`${data.details} ${data.frag?.relurl ?? ""} ${data.error ?? ""}`);
  });
  const once = (event) => new Promise((done) => hls.once(event, (_, data) => done(data)));
  const parsed = once(Hls.Events.MANIFEST_PARSED);
  hls.loadSource(address);
  hls.attachMedia(video);
  await parsed;
  window.player = {hls, video, errors};
  return {levels: hls.levels.map((level) => [level.height, level.codecSet]).sort((a, b) => a[0] - b[0])};
}"""

DASH = """async (address) => {
  const video = document.querySelector("video");
  const player = dashjs.MediaPlayer().create();
  const errors = [];
  player.on(dashjs.MediaPlayer.events.ERROR, (data) => errors.push(JSON.stringify(data.error)));
  player.updateSettings({streaming: {abr: {autoSwitchBitrate: {video: false}}, buffer: {
    fastSwitchEnabled: true, bufferTimeDefault: 2, bufferTimeAtTopQuality: 2, bufferTimeAtTopQualityLongForm: 2}}});
  const ready = new Promise((done) => player.on(dashjs.MediaPlayer.events.STREAM_INITIALIZED, done));
  player.initialize(video, address, false);
  await ready;
  window.player = {dash: player, video, errors};
  return {levels: player.getRepresentationsByType("video").map((each) => each.height).sort((a, b) => a - b)};
}"""

SHOWN = """async ([height, from, until]) => {
  const {video, errors} = window.player;
  if (from !== null) video.currentTime = from;
  video.playbackRate = 2;
  await video.play();
  const started = performance.now();
  while (!(video.videoHeight === height && video.currentTime >= until)) {
    if (errors.length) throw new Error(errors.join("; "));
    if (video.ended) break;
    if (performance.now() - started > 30000)
      throw new Error(`stuck at ${video.currentTime} with ${video.videoHeight} lines, waiting for ${height}`);
    await new Promise((done) => setTimeout(done, 20));
  }
  const quality = video.getVideoPlaybackQuality();
  return {height: video.videoHeight, time: video.currentTime, corrupted: quality.corruptedVideoFrames,
          frames: quality.totalVideoFrames, duration: video.duration, errors};
}"""


def load(page: Any, players: dict[str, Path], name: str, address: str) -> dict[str, Any]:
    page.add_script_tag(path=players[name])
    found: dict[str, Any] = page.evaluate({"hls": HLS, "dash": DASH}[name], address)
    return found


SAMPLES = {"method": "sample-aes", "key": KEY.hex(), "uri": "/the.key", "iv": "10" * 16}
KINDS = {
    "cmaf": {"type": "cmaf"},
    "one file": {"type": "hls", "single_file": True},
    "ts": {"type": "hls", "segment_type": "ts"},
    "encrypted": {"type": "hls", "encryption": {"key": KEY.hex(), "uri": "/the.key"}},
    "samples encrypted": {"type": "hls", "segment_type": "ts", "encryption": SAMPLES},
}


@pytest.mark.parametrize("kind", KINDS)
def test_hls_js_plays_every_rung_switches_and_comes_to_the_end(
    page: Any, players: dict[str, Path], ladder: MakeLadder, kind: str
) -> None:
    found = load(page, players, "hls", ladder({**LADDER, **KINDS[kind]}) + "/index.m3u8")
    assert [height for height, _ in found["levels"]] == [180, 360]
    levels = page.evaluate("() => window.player.hls.levels.map((level) => level.height)")
    for height, start, until in ((180, 0, 2.5), (360, None, 5)):
        page.evaluate("(level) => { window.player.hls.nextLevel = level }", levels.index(height))
        shown = page.evaluate(SHOWN, [height, start, until])
        assert (shown["height"], shown["errors"], shown["corrupted"]) == (height, [], 0)
    shown = page.evaluate(SHOWN, [360, 9, SECONDS - 0.1])
    # hls.js puts the first decode time of a transport stream at 0: the pictures come later by what they are reordered
    assert shown["duration"] == pytest.approx(SECONDS, abs=0.1 if "segment_type" in KINDS[kind] else 0.05)
    assert shown["time"] >= SECONDS - 0.15
    tracks = page.evaluate("() => window.player.hls.audioTracks.map((track) => track.lang)")
    assert tracks == ["en", "fr"]
    switched = page.evaluate(
        """async () => {
          const {hls, video, errors} = window.player;
          const switched = new Promise((done) => hls.once(Hls.Events.AUDIO_TRACK_SWITCHED, (_, data) => done(data.id)));
          const buffered = new Promise((done) => hls.on(Hls.Events.FRAG_BUFFERED,
            (_, data) => data.frag.type === "audio" && done(data.frag.url)));
          video.currentTime = 1;
          hls.audioTrack = 1;
          return [await switched, (await buffered).includes("audio-fr"), errors];
        }"""
    )
    assert switched == [1, True, []]


def test_hls_js_shows_the_subtitles_when_they_are_due(page: Any, players: dict[str, Path], ladder: MakeLadder) -> None:
    load(page, players, "hls", ladder({**LADDER, "type": "hls"}) + "/index.m3u8")
    cues = page.evaluate(
        """async () => {
          const {hls, video} = window.player;
          hls.subtitleTrack = 0;
          hls.subtitleDisplay = true;
          video.currentTime = 1;
          await video.play();
          const track = () => video.textTracks[0];
          while (!(track()?.cues?.length >= 2)) await new Promise((done) => setTimeout(done, 20));
          return [...track().cues].map((cue) => [cue.startTime, cue.endTime, cue.text]);
        }"""
    )
    assert cues[0][:2] == pytest.approx([0.5, 3.5], abs=0.05)
    assert [cue[2] for cue in cues[:2]] == ["First", "Second"]


@pytest.mark.parametrize("kind", [{"type": "cmaf"}, {"type": "cmaf", "single_file": True}], ids=["cmaf", "one file"])
def test_dash_js_plays_every_rung_switches_and_comes_to_the_end(
    page: Any, players: dict[str, Path], ladder: MakeLadder, kind: dict[str, Any]
) -> None:
    found = load(page, players, "dash", ladder({**LADDER, **kind}) + "/manifest.mpd")
    assert found["levels"] == [180, 360]
    heights = page.evaluate("() => window.player.dash.getRepresentationsByType('video').map((each) => each.height)")
    for height, start, until in ((180, 0, 2.5), (360, None, 5)):
        page.evaluate(
            "(index) => { window.player.dash.setRepresentationForTypeByIndex('video', index, true) }",
            heights.index(height),
        )
        shown = page.evaluate(SHOWN, [height, start, until])
        assert (shown["height"], shown["errors"], shown["corrupted"]) == (height, [], 0)
    shown = page.evaluate(SHOWN, [360, 9, SECONDS - 0.1])
    assert shown["duration"] == pytest.approx(SECONDS, abs=0.05)
    languages = page.evaluate("() => window.player.dash.getTracksFor('audio').map((track) => track.lang)")
    assert languages == ["en", "fr"]
    texts = page.evaluate("() => window.player.dash.getTracksFor('text').map((track) => track.lang)")
    assert texts == ["en"]


CLEAR_KEY = """async ([folder, mime, files, id, key]) => {
  const base64 = (hex) => btoa(hex.match(/../g).map((byte) => String.fromCharCode(parseInt(byte, 16))).join(""))
    .replace(/\\+/g, "-").replace(/\\//g, "_").replace(/=/g, "");
  const json = (value) => new TextEncoder().encode(JSON.stringify(value));
  const video = document.querySelector("video");
  const access = await navigator.requestMediaKeySystemAccess("org.w3.clearkey", [
    {initDataTypes: ["keyids"], videoCapabilities: [{contentType: mime, encryptionScheme: "cbcs"}]}]);
  const keys = await access.createMediaKeys();
  await video.setMediaKeys(keys);
  const session = keys.createSession();
  session.addEventListener("message", () => session.update(
    json({keys: [{kty: "oct", kid: base64(id), k: base64(key)}], type: "temporary"})));
  await session.generateRequest("keyids", json({kids: [base64(id)]}));
  const source = new MediaSource();
  video.src = URL.createObjectURL(source);
  await new Promise((done) => source.addEventListener("sourceopen", done, {once: true}));
  const buffer = source.addSourceBuffer(mime);
  for (const file of files) {
    const data = await (await fetch(`${folder}/${file}`)).arrayBuffer();
    buffer.appendBuffer(data);
    await new Promise((done) => buffer.addEventListener("updateend", done, {once: true}));
  }
  source.endOfStream();
  const ended = new Promise((done, fail) => {
    video.addEventListener("ended", done);
    video.addEventListener("error", () => fail(new Error(video.error.message)));
  });
  video.playbackRate = 4;
  await video.play();
  await ended;
  const quality = video.getVideoPlaybackQuality();
  return {time: video.currentTime, height: video.videoHeight, corrupted: quality.corruptedVideoFrames};
}"""


def test_chromium_decrypts_fragmented_mp4_with_the_key(page: Any, ladder: MakeLadder) -> None:
    key_id = "ab" * 16
    made = {**LADDER, "video": RUNGS[:1], "type": "hls", "encryption": {**SAMPLES, "key_id": key_id}}
    address = ladder(made) + "/360p"
    files = ["init.mp4", *(f"{number:05d}.m4s" for number in range(1, 6))]
    mime = 'video/mp4; codecs="avc1.64001E"'
    shown = page.evaluate(CLEAR_KEY, [address, mime, files, key_id, KEY.hex()])
    assert (shown["height"], shown["corrupted"]) == (360, 0)
    assert shown["time"] == pytest.approx(SECONDS, abs=0.1)
