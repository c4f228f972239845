"""Streams from their first connection to their end, over pipes that behave as networks do."""

from __future__ import annotations

import io
import re
from itertools import pairwise
from pathlib import Path

import av
import pytest

from pipelines.live.link import ConnectFailed, Connection, SourceLost
from pipelines.live.sustain import NotSustainable
from tests.pipelines.live.rig import Feed, clip, is_rising, job_of, played, running

SMALL = {"height": 64, "speed": "ultrafast"}
HLS = {
    "type": "hls",
    "segment_seconds": 1,
    "window_seconds": 10,
    "video": [SMALL, {"height": 32, "speed": "ultrafast"}],
}


def durations(playlist: str) -> list[float]:
    return [float(value) for value in re.findall(r"#EXTINF:([0-9.]+)", playlist)]


@pytest.mark.slow
def test_live_hls_has_aligned_segments_that_start_with_keyframes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running(job_of(HLS), out, Feed([clip(tmp_path, seconds=4)])) as run:
        run.wait_for(lambda stats: stats.state == "reconnecting")
        result = run.stop()
    assert result.reason == "stopped"
    playlists = {name: (out / f"{name}.m3u8").read_text() for name in ("v0", "v1", "a0")}
    assert durations(playlists["v0"]) == durations(playlists["v1"]) == durations(playlists["a0"])
    assert all("#EXT-X-PROGRAM-DATE-TIME" in text for text in playlists.values())
    assert all(text.endswith("#EXT-X-ENDLIST\n") for text in playlists.values())
    target = int(re.findall(r"TARGETDURATION:(\d+)", playlists["v0"])[0])
    assert all(round(seconds) <= target for seconds in durations(playlists["v0"]))
    init = (out / "v0" / "init-1.mp4").read_bytes()
    for segment in sorted((out / "v0").glob("*.m4s")):
        with av.open(io.BytesIO(init + segment.read_bytes())) as container:
            first = next(packet for packet in container.demux(video=0) if packet.size)
            assert first.is_keyframe
    heard = played(out / "index.m3u8")
    assert is_rising([dts for _, dts in heard["video"]])
    assert is_rising([dts for _, dts in heard["audio"]])


@pytest.mark.slow
def test_times_go_on_after_a_reconnect_and_the_break_is_marked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    feed = Feed([clip(tmp_path, "a", seconds=2.5), clip(tmp_path, "b", seconds=2.5)])
    source = {"reconnect": {"first_seconds": 1.5, "longest_seconds": 1.5}}
    with running(job_of(HLS, source=source), out, feed) as run:
        run.wait_for(lambda stats: stats.reconnects == 1)
        run.wait_for(lambda stats: stats.reconnects == 1 and stats.state == "reconnecting")
        result = run.stop()
    assert result.stats.reconnects == 1
    text = (out / "v0.m3u8").read_text()
    assert text.count("#EXT-X-DISCONTINUITY\n") == 1
    times = [dts for _, dts in played(out / "v0.m3u8")["video"]]
    assert is_rising(times)
    assert max(after - before for before, after in pairwise(times)) > 1


@pytest.mark.slow
def test_another_size_after_a_reconnect_leaves_the_output_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    feed = Feed(
        [clip(tmp_path, "a", seconds=2), clip(tmp_path, "b", seconds=2, size=(320, 180), codec="hevc", options={})]
    )
    output = {"type": "record", "segment_seconds": 60, "video": SMALL, "audio": {}}
    with running(job_of(output), out, feed) as run:
        run.wait_for(lambda stats: stats.reconnects == 1 and stats.state == "reconnecting")
        run.stop()
    files = sorted((out / "record").glob("*.mp4"))
    assert files
    frames = 0
    for file in files:
        with av.open(str(file)) as container:
            for frame in container.decode(video=0):
                frames += 1
                assert (frame.width, frame.height) == (86, 64)
    assert frames > 60


@pytest.mark.slow
def test_sound_goes_on_as_silence_where_a_source_comes_back_without_any(tmp_path: Path) -> None:
    out = tmp_path / "out"
    feed = Feed([clip(tmp_path, "a", seconds=1.5), clip(tmp_path, "b", seconds=2.5, audio=())])
    with running(job_of({**HLS, "video": SMALL}), out, feed) as run:
        run.wait_for(lambda stats: stats.reconnects == 1 and stats.state == "reconnecting")
        run.stop()
    heard, seen = played(out / "a0.m3u8")["audio"], played(out / "v0.m3u8")["video"]
    assert is_rising([dts for _, dts in heard])
    assert abs(heard[-1][0] - seen[-1][0]) < 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"read_seconds": 1, "stall_seconds": 60}, "sent nothing for 1 s"),
        ({"read_seconds": 60, "stall_seconds": 2}, "no picture came for 2 s"),
    ],
)
def test_a_silent_source_is_given_up_and_connected_to_again(tmp_path: Path, source: dict[str, int], why: str) -> None:
    feed = Feed([clip(tmp_path, "a", seconds=1, silent=True), clip(tmp_path, "b", seconds=1)])
    with running(job_of({"type": "snapshot", "every_seconds": 1}, source=source), tmp_path / "out", feed) as run:
        away = run.wait_for(lambda stats: stats.error is not None)
        assert why in str(away.error)
        run.wait_for(lambda stats: stats.reconnects == 1)
        run.stop()
    assert (tmp_path / "out" / "snapshot.jpg").read_bytes().startswith(b"\xff\xd8")


def test_a_source_that_never_comes_back_ends_the_stream(tmp_path: Path) -> None:
    source = {"reconnect": {"first_seconds": 0.1, "longest_seconds": 0.1, "max_attempts": 2}}
    feed = Feed([clip(tmp_path, seconds=1)])
    with running(job_of(HLS, source=source), tmp_path / "out", feed) as run, pytest.raises(SourceLost):
        run.end()
    assert feed.connects == 3


def test_an_orderly_end_completes_the_stream_where_that_was_asked_for(tmp_path: Path) -> None:
    source = {"reconnect": {"on_end": "complete"}}
    with running(job_of(HLS, source=source), tmp_path / "out", Feed([clip(tmp_path, seconds=1.5)])) as run:
        assert run.end().reason == "ended"
    assert "#EXT-X-ENDLIST" in (tmp_path / "out" / "v0.m3u8").read_text()


@pytest.mark.slow
def test_a_stream_that_is_resumed_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for number, name in enumerate(("a", "b")):
        with running(job_of(HLS), out, Feed([clip(tmp_path, name, seconds=2.2)])) as run:
            run.wait_for(lambda stats: stats.state == "reconnecting")
            run.stop("suspended")
        text = (out / "v0.m3u8").read_text()
        assert "#EXT-X-ENDLIST" not in text
        assert text.count("#EXT-X-DISCONTINUITY\n") == number
    numbers = [int(path.stem) for path in sorted((out / "v0").glob("*.m4s"))]
    assert numbers == list(range(1, len(numbers) + 1))
    # players of a live playlist would wait for more
    (out / "closed.m3u8").write_text((out / "v0.m3u8").read_text() + "#EXT-X-ENDLIST\n")
    assert is_rising([dts for _, dts in played(out / "closed.m3u8")["video"]])


@pytest.mark.slow
def test_a_slate_is_shown_while_the_source_is_away(tmp_path: Path) -> None:
    out = tmp_path / "out"
    feed = Feed([clip(tmp_path, "a", seconds=1.5), clip(tmp_path, "b", seconds=1.5)])
    source = {
        "slate": {"colour": "#ff0000", "after_seconds": 0.5},
        "reconnect": {"first_seconds": 2.5, "longest_seconds": 2.5},
    }
    output = {**HLS, "video": SMALL}
    with running(job_of(output, source=source), out, feed) as run:
        run.wait_for(lambda stats: stats.slate)
        run.wait_for(lambda stats: stats.reconnects == 1 and stats.state == "reconnecting")
        run.stop()
    text = (out / "v0.m3u8").read_text()
    assert "#EXT-X-DISCONTINUITY\n" not in text
    with av.open(str(out / "v0.m3u8")) as container:
        pictures = [frame.to_ndarray(format="rgb24").reshape(-1, 3).mean(axis=0) for frame in container.decode(video=0)]
    red = [picture for picture in pictures if picture[0] > 200 and picture[1] < 40 and picture[2] < 40]
    assert len(red) > 20
    times = [pts for pts, _ in played(out / "v0.m3u8")["video"]]
    assert max(after - before for before, after in pairwise(times)) < 1


@pytest.mark.slow
def test_one_output_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    out = tmp_path / "out"
    hls = {"type": "hls", "segment_seconds": 1, "window_seconds": 5, "video": "copy", "audio": "copy"}
    push = {"type": "push", "url": "udp://192.0.2.1:5001", "video": "copy", "audio": "copy", "on_failure": "drop"}

    def refuse() -> Connection:
        raise ConnectFailed("nobody is there", stage="open")

    feed = Feed([clip(tmp_path, seconds=3)], outputs={"push": refuse})
    with running(job_of(hls, push), out, feed) as run:
        run.wait_for(lambda stats: any(each.state == "failed" for each in stats.outputs))
        run.wait_for(lambda stats: stats.state == "reconnecting")
        result = run.stop()
    by_name = {each.name: each for each in result.stats.outputs}
    assert by_name["push"].state == "failed"
    assert by_name["hls"].state == "ended"
    assert by_name["hls"].bytes > 10_000


@pytest.mark.slow
def test_a_camera_is_remuxed_to_every_container(tmp_path: Path) -> None:
    out = tmp_path / "out"
    copied = {"video": "copy", "audio": "copy"}
    outputs = (
        {"type": "cmaf", "segment_seconds": 1, "window_seconds": 5, **copied},
        {"type": "hls", "name": "ts", "segment_type": "ts", "segment_seconds": 1, "window_seconds": 5, **copied},
        *({"type": "record", "name": form, "format": form, "segment_seconds": 2, **copied} for form in ("mp4", "mkv")),
    )
    with running(job_of(*outputs), out, Feed([clip(tmp_path, seconds=4)])) as run:
        run.wait_for(lambda stats: stats.state == "reconnecting")
        run.stop()
    for source in (out / "index.m3u8", out / "ts" / "index.m3u8", *out.glob("m*/*.m*")):
        heard = played(source)
        assert heard["video"], source
        assert heard["audio"], source
        assert is_rising([dts for _, dts in heard["video"]]), source
    assert 'type="static"' in (out / "manifest.mpd").read_text()
    for file in (*out.glob("mp4/*.mp4"), *out.glob("mkv/*.mkv")):
        with av.open(str(file)) as container:
            first = next(packet for packet in container.demux(video=0) if packet.size)
            assert first.is_keyframe
            assert abs(float(first.pts * first.time_base)) < 0.1


@pytest.mark.slow
def test_reordered_pictures_are_copied_in_their_order(tmp_path: Path) -> None:
    out = tmp_path / "out"
    source = clip(tmp_path, seconds=3, b_frames=2, options={"preset": "ultrafast", "bf": "2"})
    output = {"type": "hls", "segment_seconds": 1, "window_seconds": 10, "video": "copy", "audio": "copy"}
    with running(job_of(output), out, Feed([source])) as run:
        run.wait_for(lambda stats: stats.state == "reconnecting")
        run.stop()
    times = played(out / "v-copy.m3u8")["video"]
    assert is_rising([dts for _, dts in times])
    assert any(pts > dts for pts, dts in times)
    assert all(pts >= dts for pts, dts in times)
    assert len({pts for pts, _ in times}) == len(times)


def test_a_machine_that_can_not_keep_up_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.live.sustain.NEEDED_SPEED", 1e9)
    job = job_of(HLS).model_copy(update={"force": False})
    with (
        running(job, tmp_path / "out", Feed([clip(tmp_path, seconds=2)])) as run,
        pytest.raises(NotSustainable) as told,
    ):
        run.end()
    assert told.value.facts["speed"] > 0
    assert not (tmp_path / "out" / "index.m3u8").exists()
