"""What goes wrong with sources and outputs while a stream runs: nothing of it stops what is not concerned."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import pytest

from pipelines.live import push, sink
from pipelines.live.link import Connection
from tests.pipelines.live.rig import Clip, Feed, clip, is_rising, job_of, played, running

SMALL = {"height": 64, "speed": "ultrafast", "rate_control": {"mode": "crf", "crf": 30}}
HLS = {"type": "hls", "segment_seconds": 1, "window_seconds": 20}
ENCODED = {**HLS, "video": SMALL}
COPIED = {**HLS, "video": "copy", "audio": "copy"}
MPEGTS_PTS = re.compile(rb"\x00\x00\x01\xe0..[\x80-\xbf]\x80.", re.DOTALL)


def times(playlist: Path) -> list[float]:
    return [dts for _, dts in played(playlist)["video"]]


def joined(*clips: Clip) -> Clip:
    """One after the other over one connection: the source was replaced while it was sending."""
    return Clip(b"".join(each.data for each in clips), sum(each.seconds for each in clips))


def with_repeated_times(source: Clip, every: int) -> Clip:
    """Each so many pictures, one has the time of the one before it."""
    data, before = bytearray(source.data), b""
    for number, found in enumerate(MPEGTS_PTS.finditer(source.data)):
        at = found.end()
        if number % every == every - 1:
            data[at : at + 5] = before
        before = bytes(data[at : at + 5])
    return Clip(bytes(data), source.seconds)


def run_to_its_end(folder: Path, source: Clip, output: dict[str, Any]) -> Any:
    with running(job_of(output), folder, Feed([source])) as run:
        run.wait_for(lambda stats: stats.state == "reconnecting")
        return run.stop()


@pytest.mark.slow
def test_a_server_that_stops_reading_loses_its_own_pictures_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "MAX_QUEUED_SECONDS", 1)
    monkeypatch.setattr(push, "SEND_SECONDS", 60.0)
    theirs, ours = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stalled = {"type": "push", "name": "stalled", "url": "udp://192.0.2.1:5001", "video": "copy", "audio": "copy"}
    feed = Feed([clip(tmp_path, seconds=4)], outputs={"stalled": lambda: Connection(os.dup(ours.fileno()))})
    out = tmp_path / "out"
    with theirs, ours, running(job_of(COPIED, stalled), out, feed) as run:
        run.wait_for(lambda stats: stats.state == "reconnecting")
        asked = time.monotonic()
        result = run.stop()
        took = time.monotonic() - asked
    by_name = {each.name: each for each in result.stats.outputs}
    assert by_name["stalled"].dropped > 50
    assert (by_name["hls"].dropped, by_name["hls"].state) == (0, "ended")
    assert len(times(out / "v-copy.m3u8")) >= 98
    # and it does not hold up the end for longer than all outputs may take together
    assert took < 15


@pytest.mark.slow
def test_a_source_that_restarts_its_clock_goes_on_without_a_gap(tmp_path: Path) -> None:
    out = tmp_path / "out"
    one = clip(tmp_path, seconds=1.5)
    result = run_to_its_end(out, joined(one, one), ENCODED)
    assert result.stats.reconnects == 0
    shown = times(out / "v0.m3u8")
    assert len(shown) >= 70
    assert is_rising(shown)
    assert max(after - before for before, after in pairwise(shown)) < 0.2


@pytest.mark.slow
def test_a_source_whose_clock_leaps_ahead_goes_on_without_the_leap(tmp_path: Path) -> None:
    out = tmp_path / "out"
    later = clip(tmp_path, "b", seconds=1.5, start=50_000)
    run_to_its_end(out, joined(clip(tmp_path, seconds=1.5), later), ENCODED)
    shown = times(out / "v0.m3u8")
    assert len(shown) >= 70
    assert is_rising(shown)
    assert shown[-1] - shown[0] < 5


@pytest.mark.slow
def test_another_size_in_mid_connection_leaves_the_output_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    wide = clip(tmp_path, "b", seconds=1.5, size=(320, 180))
    run_to_its_end(out, joined(clip(tmp_path, seconds=1.5), wide), ENCODED)
    with av.open(str(out / "v0.m3u8")) as container:
        sizes = [(frame.width, frame.height) for frame in container.decode(video=0)]
    assert set(sizes) == {(86, 64)}
    assert len(sizes) >= 65


@pytest.mark.parametrize("codec", ["mpeg2video", "hevc"])
@pytest.mark.slow
def test_a_server_that_comes_back_with_another_codec_is_decoded_on(tmp_path: Path, codec: str) -> None:
    out = tmp_path / "out"
    other = clip(tmp_path, "b", seconds=1.5, codec=codec, options={})
    with running(job_of(ENCODED), out, Feed([clip(tmp_path, seconds=1.5), other])) as run:
        run.wait_for(lambda stats: stats.reconnects == 1 and stats.state == "reconnecting")
        run.stop()
    shown = times(out / "v0.m3u8")
    assert len(shown) >= 65
    assert is_rising(shown)


@pytest.mark.slow
def test_repeated_decode_times_rise_in_what_is_copied(tmp_path: Path) -> None:
    out = tmp_path / "out"
    source = with_repeated_times(clip(tmp_path, seconds=2), every=10)
    run_to_its_end(out, source, COPIED)
    copied = times(out / "v-copy.m3u8")
    assert len(copied) >= 48
    assert is_rising(copied)


@pytest.mark.slow
def test_a_source_with_pictures_that_wait_for_later_ones_is_encoded_in_order(tmp_path: Path) -> None:
    out = tmp_path / "out"
    source = clip(tmp_path, seconds=2, b_frames=2, options={"preset": "ultrafast", "bf": "2"})
    run_to_its_end(out, source, ENCODED)
    shown = played(out / "v0.m3u8")["video"]
    assert len(shown) >= 48
    assert all(pts == dts for pts, dts in shown)
    assert is_rising([pts for pts, _ in shown])


@pytest.mark.slow
def test_a_segment_is_listed_within_a_second_of_its_end(tmp_path: Path) -> None:
    """The least delay of some: what the pipeline takes, and not what else this machine does just now."""
    out = tmp_path / "out"
    playlist = out / "v0.m3u8"
    feed = Feed([clip(tmp_path, seconds=6)])
    found: list[float] = []
    done = threading.Event()

    def look() -> None:
        start, listed = 0.0, 0
        while not done.wait(0.02):
            if not playlist.exists():
                continue
            lengths = [float(each) for each in re.findall(r"#EXTINF:([0-9.]+)", playlist.read_text())]
            for length in lengths[listed:]:
                start += length
                found.append(time.monotonic() - feed.began - start)
            listed = len(lengths)

    with running(job_of(ENCODED), out, feed) as run:
        looking = threading.Thread(target=look)
        looking.start()
        run.wait_for(lambda stats: stats.state == "reconnecting")
        done.set()
        looking.join()
    assert len(found) >= 4
    assert min(found) < 1
    assert min(each.latency_seconds for each in run.stats if each.latency_seconds is not None) < 1
