"""Receipts say what is in the files: counts, times and bitrates are compared with what is decoded from them."""

from __future__ import annotations

import subprocess
from fractions import Fraction
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.probe import probe
from pipelines.receipt.command import equivalent, filter_text
from pipelines.receipt.values import Receipt
from pipelines.receipt.write import About, write_receipt
from pipelines.rendition import Plan
from pipelines.spec import FileJob
from pipelines.transcode import transcode
from tests.jobs import DEVICE, SMALL
from tests.measure import click_times, decode_video, flash_times
from tests.media import Tone, make_flash_click, make_video

FFMPEG = pytest.mark.skipif(which("ffmpeg") is None, reason="there is no ffmpeg tool here")


def receipt_of(path: Path, folder: Path, *outputs: dict[str, Any], **job: Any) -> tuple[Receipt, Plan]:
    spec = FileJob.model_validate({"input": {"path": "in", **job.pop("input", {})}, "outputs": outputs, **job})
    folder.mkdir()
    plans: list[Plan] = []
    result = transcode(spec, LocalFile(path, path.name), folder, device=DEVICE, limits=Limits(), on_plan=plans.append)
    about = About(service="1.0", source_name=path.name)
    return write_receipt(plans[-1], result, {}, DEVICE, about), plans[-1]


@pytest.mark.parametrize(
    "rung", [{}, {"frame_rate": 10}, {"frame_rate": 60}, {"deinterlace": "on"}], ids=["kept", "fewer", "more", "fields"]
)
def test_frames_add_up_and_are_those_in_the_file(tmp_path: Path, rung: dict[str, Any]) -> None:
    path = make_video(tmp_path / "in.mp4", size=(160, 120), b_frames=2)
    receipt, _ = receipt_of(path, tmp_path / "out", {"type": "mp4", "video": {**SMALL, **rung}})
    track = receipt.outputs[0].tracks[0]
    assert (track.frames_in, track.frames_filtered) == (50, 50)
    assert track.frames_filtered is not None
    assert track.frames_filtered - track.frames_dropped + track.frames_duplicated == track.frames_out
    assert len(decode_video(tmp_path / "out" / receipt.outputs[0].path).frames) == track.frames_out


def test_irregular_source_shows_what_was_dropped_and_repeated(tmp_path: Path) -> None:
    times = [Fraction(n, 100) for n in (0, 1, 2, 50, 51, 150)]
    path = make_video(tmp_path / "in.mkv", size=(160, 120), timestamps=times, end=Fraction(2), seconds=Fraction(6, 25))
    receipt, _ = receipt_of(path, tmp_path / "out", {"type": "mp4", "video": {**SMALL, "frame_rate": 25}})
    track = receipt.outputs[0].tracks[0]
    assert (track.frames_in, track.frames_out) == (6, 50)
    assert track.frames_dropped == 2
    assert track.frames_duplicated == 46


def test_bitrates_are_those_of_the_packets(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", size=(160, 120))
    receipt, _ = receipt_of(path, tmp_path / "out", {"type": "mkv", "video": SMALL, "audio": {"codec": "flac"}})
    output = receipt.outputs[0]
    payload = sum(track.bytes for track in output.tracks)
    assert 0 < output.size - payload < 8_000
    assert all(track.bit_rate == pytest.approx(track.bytes * 8 / 2, rel=0.02) for track in output.tracks)
    assert output.bit_rate == pytest.approx(output.size * 8 / 2, rel=0.02)


def test_late_sound_is_no_skew_and_lost_time_is(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", size=(160, 120), audio=(Tone(start=Fraction(1, 2)),))
    receipt, _ = receipt_of(path, tmp_path / "out", {"type": "mp4", "video": SMALL})
    skew = receipt.outputs[0].skew
    assert skew is not None
    assert abs(skew.start_seconds) < 0.001
    # as exact as a sound frame
    assert abs(skew.end_seconds) < 0.025
    sound = receipt.outputs[0].tracks[1]
    assert sound.start_seconds == pytest.approx(0.5, abs=0.025)


def test_skew_is_what_a_flash_and_a_click_show(tmp_path: Path) -> None:
    path = make_flash_click(tmp_path / "in.mp4", size=(160, 120))
    receipt, _ = receipt_of(
        path, tmp_path / "out", {"type": "mp4", "video": SMALL}, input={"clip": {"start": 0.25, "end": 1.75}}
    )
    skew = receipt.outputs[0].skew
    assert skew is not None
    made = tmp_path / "out" / receipt.outputs[0].path
    (flash, *_), (click, *_) = flash_times(made), click_times(made)
    assert abs(skew.start_seconds - (float(flash) - click)) < 0.005
    assert max(abs(skew.start_seconds), abs(skew.end_seconds)) < 0.005


def test_way_costs_and_versions_are_told(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", size=(160, 120))
    receipt, _ = receipt_of(path, tmp_path / "out", {"type": "mp4", "video": SMALL}, {"type": "copy", "name": "c"})
    assert [(step.stage, step.by) for step in receipt.steps] == [
        ("decode", "h264"), ("decode", "aac"), ("filter", "scale"), ("encode", "libx264"), ("encode", "aac"),
        ("copy", "h264"), ("copy", "aac"),
    ]  # fmt: skip
    assert all(step.device == "software" for step in receipt.steps)
    assert all(step.reason for step in receipt.steps if step.stage != "filter")
    assert receipt.versions is not None
    assert receipt.versions.libraries["libavcodec"]
    assert set(receipt.costs.wall_seconds) == {"probe", "plan", "run", "verify"}
    assert receipt.costs.cpu_seconds is not None
    assert 0 < receipt.costs.cpu_seconds < 60
    assert receipt.costs.gpu_seconds is None
    assert Receipt.model_validate_json(receipt.model_dump_json()) == receipt


COMMANDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "mp4", "video": SMALL}, {}),
    ({"type": "mkv", "video": {**SMALL, "codec": "hevc", "frame_rate": 10}}, {}),
    ({"type": "webm", "video": {**SMALL, "codec": "vp9"}, "audio": {"codec": "opus"}}, {}),
    ({"type": "mp4", "video": SMALL}, {"clip": {"start": 0.48, "end": 1.48}}),
    ({"type": "ts", "video": {**SMALL, "frame_rate": "30000/1001"}, "audio": {"layout": "mono"}}, {}),
    ({"type": "hls", "segment_seconds": 1, "video": [{**SMALL}, {**SMALL, "height": 48}]}, {}),
    ({"type": "dash", "segment_seconds": 1, "video": [SMALL]}, {}),
    ({"type": "copy", "format": "mkv"}, {}),
]


@pytest.mark.slow
@FFMPEG
@pytest.mark.parametrize(("output", "given"), COMMANDS, ids=[str(n) for n in range(len(COMMANDS))])
def test_equivalent_command_runs_and_gives_the_same_frames(
    tmp_path: Path, output: dict[str, Any], given: dict[str, Any]
) -> None:
    path = make_video(tmp_path / "it's; a clip.mp4", size=(160, 120), b_frames=2, rotation=90)
    receipt, _ = receipt_of(path, tmp_path / "out", output, input=given)
    assert receipt.command is not None
    (tmp_path / "output").mkdir()
    for number in range(2):
        (tmp_path / "output" / str(number)).mkdir()
    done = subprocess.run(
        receipt.command.text, shell=True, cwd=tmp_path, capture_output=True, timeout=60, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    places = {"hls": "output/0/index.m3u8", "dash": "output/manifest.mpd"}
    other = tmp_path / places.get(output["type"], receipt.outputs[0].path)
    track = next(track for track in receipt.outputs[0].tracks if track.kind == "video")
    counted = subprocess.run(
        ["ffprobe", "-v", "error", "-select_streams", "v:0", "-count_packets", "-of", "csv=p=0",
         "-show_entries", "stream=nb_read_packets,width,height", str(other)],
        capture_output=True, timeout=60, check=True, text=True,
    )  # fmt: skip
    width, height, frames = (int(part) for part in counted.stdout.split()[0].rstrip(",").split(","))
    assert abs(frames - track.packets) <= (0 if output["type"] != "ts" else 1)
    assert (width, height) == ((160, 120) if output["type"] == "copy" else (48, 64))


def test_hostile_names_are_quoted_and_are_no_options_or_protocols(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", size=(160, 120), audio=())
    source = probe(LocalFile(path, path.name), Limits())
    _, plan = receipt_of(path, tmp_path / "out", {"type": "mp4", "video": SMALL})
    for name, told in {
        "-y": "-i file:-y ", "concat:a|b": "-i 'file:concat:a|b' ", "$(id) `x` '\n": "-i '$(id) `x` '\"'\"'\n' ",
    }.items():  # fmt: skip
        command = equivalent(plan, source, name)
        assert command is not None
        assert told in command.text


def test_filter_values_are_escaped_twice() -> None:
    assert filter_text([("a", {"x": "b:c,d"}), ("e", {})]) == r"a=x=b\\:c\,d,e"
