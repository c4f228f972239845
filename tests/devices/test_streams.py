"""Streams on GPUs: what never leaves them, what goes on when one fails, and what they can't do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from pipelines.devices import Verdict
from pipelines.errors import DeviceFault, Stalled
from tests.pipelines.gpus import gpu
from tests.pipelines.live.rig import Clip, Feed, clip, is_rising, job_of, played, running
from tests.softva.rig import Rig

pytestmark = pytest.mark.vaapi

RUNG = {"height": 256, "codec": "h264"}
LADDER = {"type": "hls", "segment_seconds": 1, "window_seconds": 20, "video": [RUNG, {"height": 144, "codec": "h264"}]}
RECORD = {"type": "record", "segment_seconds": 60, "format": "ts", "video": {"height": 144, "codec": "h264"}}
COUNT = 50


def small(folder: Path, name: str = "a", **how: Any) -> Clip:
    return clip(folder, name, **{"size": (320, 256), "seconds": 2, **how})


def recorded(out: Path) -> list[av.VideoFrame]:
    frames: list[av.VideoFrame] = []
    for file in sorted((out / "record").glob("*.ts")):
        with av.open(str(file)) as container:
            frames += container.decode(video=0)
    return frames


def test_a_ladder_is_decoded_once_and_never_leaves_the_gpu(tmp_path: Path, rig: Rig) -> None:
    out = tmp_path / "out"
    with running(job_of(LADDER), out, Feed([small(tmp_path)]), gpu(path=rig.node())) as run:
        run.wait_for(lambda stats: stats.state == "reconnecting")
        result = run.stop()
    log = rig.log
    assert (log.downloads(), log.uploads(), log.leaks()) == (0, 0, [])
    assert (log.contexts("decode"), log.pictures("decode"), log.pictures("encode")) == (1, COUNT, 2 * COUNT)
    assert {track.encoder for track in result.stats.tracks if track.name[0] == "v"} == {"h264_vaapi"}
    for name in ("v0", "v1"):
        times = [dts for _, dts in played(out / f"{name}.m3u8")["video"]]
        assert is_rising(times)
        assert len(times) == COUNT
        init = (out / name / "init-1.mp4").read_bytes()
        for segment in sorted((out / name).glob("*.m4s")):
            with av.open(io.BytesIO(init + segment.read_bytes())) as container:
                assert next(packet for packet in container.demux(video=0) if packet.size).is_keyframe


@pytest.mark.parametrize("slate", [None, {"show": "colour", "after_seconds": 0.5}, {"show": "last_frame"}])
@pytest.mark.parametrize("rate", [{}, {"frame_rate": 25}])
def test_a_source_that_comes_back_goes_on_in_the_same_track(
    tmp_path: Path, rig: Rig, slate: dict[str, Any] | None, rate: dict[str, Any]
) -> None:
    out = tmp_path / "out"
    feed = Feed([small(tmp_path, "a", seconds=1), small(tmp_path, "b", seconds=1)])
    source: dict[str, Any] = {"reconnect": {"first_seconds": 1.5, "longest_seconds": 1.5}}
    if slate is not None:
        source["slate"] = {"after_seconds": 0.5, **slate}
    record = {**RECORD, "video": {**RECORD["video"], **rate}}
    with running(job_of(record, source=source), out, feed, gpu(path=rig.node())) as run:
        run.wait_for(lambda stats: stats.reconnects == 1)
        run.wait_for(lambda stats: stats.reconnects == 1 and stats.state == "reconnecting")
        run.stop()
    for file in (out / "record").glob("*.ts"):
        assert is_rising([dts for _, dts in played(file)["video"]])
    frames = recorded(out)
    assert len(frames) >= (48 if slate is None else 65)
    assert {(frame.width, frame.height) for frame in frames} == {(180, 144)}
    assert rig.log.contexts("decode") == 2
    assert rig.log.downloads() == 0


def test_another_size_and_codec_come_out_as_in_software(tmp_path: Path, rig: Rig) -> None:
    sizes = [("a", {}), ("b", {"size": (256, 128)}), ("c", {"size": (320, 180), "codec": "mpeg2video", "options": {}})]
    ends: list[list[av.VideoFrame]] = []
    for name, device in (("gpu", gpu(path=rig.node())), ("cpu", None)):
        feed = Feed([small(tmp_path, each, seconds=1, audio=(), **how) for each, how in sizes])
        with running(job_of(RECORD), tmp_path / name, feed, *([device] if device else [])) as run:
            run.wait_for(lambda stats: stats.reconnects == 2 and stats.state == "reconnecting", 40)
            run.stop()
        ends.append(recorded(tmp_path / name))
    for frames in ends:
        assert len(frames) >= 70
        assert {(frame.width, frame.height) for frame in frames} == {(180, 144)}
    for at in (5, 37, -5):
        mine, its = (np.asarray(frames[at].to_ndarray(format="gray"), float) for frames in ends)
        # bars are where they are in software
        assert np.abs((mine < 24).mean(axis=1) - (its < 24).mean(axis=1)).max() < 0.2


def test_snapshots_of_surfaces(tmp_path: Path, rig: Rig) -> None:
    out = tmp_path / "out"
    snapshot = {"type": "snapshot", "every_seconds": 1, "height": 128}
    with running(job_of(RECORD, snapshot), out, Feed([small(tmp_path)]), gpu(path=rig.node())) as run:
        run.wait_for(lambda stats: stats.state == "reconnecting")
        run.stop()
    with av.open(str(out / "snapshot.jpg")) as picture:
        (frame,) = picture.decode(video=0)
    assert (frame.width, frame.height) == (160, 128)
    assert frame.to_ndarray(format="gray").std() > 20


@pytest.mark.parametrize(("rules", "stage"), [("decode:20", "decode"), ("vpp:20", "filter"), ("encode:20", "encode")])
def test_a_fault_of_the_driver_ends_the_attempt_with_its_stage(
    tmp_path: Path, rig: Rig, rules: str, stage: str
) -> None:
    rig.fail("renderD128", rules)
    feed = Feed([small(tmp_path)])
    with (
        running(job_of(RECORD), tmp_path / "out", feed, gpu(path=rig.node())) as run,
        pytest.raises(DeviceFault) as error,
    ):
        run.end()
    assert (error.value.stage, error.value.facts["codec"]) == (stage, "h264")
    assert feed.connects == 1


def test_a_driver_that_hangs_is_told_from_a_source_that_is_away(tmp_path: Path, rig: Rig) -> None:
    rig.fail("renderD128", "hang:encode:20")
    device = gpu(path=rig.node())
    with (
        running(job_of(RECORD), tmp_path / "out", Feed([small(tmp_path)]), device, gpu_stall_seconds=1.0) as run,
        pytest.raises(Stalled),
    ):
        run.end(30)


@pytest.mark.parametrize("stage", ["decode", "filter"])
def test_what_a_verdict_forbids_is_done_in_memory(tmp_path: Path, rig: Rig, stage: Any) -> None:
    device = gpu(path=rig.node())
    verdict = Verdict(device=device.id, stage=stage, codec="h264" if stage == "decode" else "*", reason="it failed")
    feed = Feed([small(tmp_path)])
    with running(job_of(RECORD), tmp_path / "out", feed, device, verdicts=(verdict,)) as run:
        run.wait_for(lambda stats: stats.state == "reconnecting")
        run.stop()
    log = rig.log
    assert log.pictures("decode") == (0 if stage == "decode" else COUNT)
    assert log.uploads() == log.pictures("encode") == COUNT
    assert len(recorded(tmp_path / "out")) == COUNT


def test_what_a_gpu_sustains_is_tried_on_it(tmp_path: Path, rig: Rig) -> None:
    job = job_of(RECORD).model_copy(update={"force": False})
    with running(job, tmp_path / "out", Feed([small(tmp_path)]), gpu(path=rig.node())) as run:
        run.wait_for(lambda stats: stats.state == "reconnecting")
        run.stop()
    assert rig.log.pictures("encode") == COUNT + 25
    assert len(recorded(tmp_path / "out")) >= COUNT - 1
