"""Video in pieces: what is joined is compared with what is made in one."""

from __future__ import annotations

import os
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pipelines.devices import software_device
from pipelines.errors import OutputFailed, PiecesDiffer
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.spec import FileJob
from pipelines.stitch.joining import Piece, decode_times
from pipelines.stitch.packets import Head, packets, put
from pipelines.stitch.tasks import CutRules, Cutting, cut, encode_piece, stitch
from pipelines.transcode import transcode
from tests.measure import assert_dts_rising, decode_audio, decode_video, psnr
from tests.media import make_video

DEVICE = software_device(1)
RULES = CutRules(least_seconds=4, piece_seconds=3)
FAST: dict[str, Any] = {"codec": "h264", "speed": "veryfast", "gop_seconds": 2}


def job(container: str = "mp4", **video: Any) -> FileJob:
    output = {"type": container, "video": {**FAST, **video}}
    return FileJob.model_validate({"input": {"path": "clip"}, "outputs": [output]})


def cut_up(spec: FileJob, clip: Path, rules: CutRules = RULES) -> Cutting:
    return cut(spec, LocalFile(clip, clip.name), DEVICE, Limits(), rules)


def pieces_of(spec: FileJob, clip: Path, folder: Path, cutting: Cutting) -> list[Piece]:
    made = []
    for number, piece in enumerate(cutting.pieces):
        place = folder / f"piece-{number}"
        place.mkdir(parents=True)
        file = LocalFile(clip, clip.name)
        result = encode_piece(spec, piece, file, place, DEVICE, Limits(), lambda _: None, lambda _: None)
        made.append(Piece(path=place / "piece", result=result))
    return made


def joined(spec: FileJob, clip: Path, folder: Path, pieces: list[Piece]) -> Path:
    folder.mkdir()
    file = LocalFile(clip, clip.name)
    result = stitch(spec, pieces, file, folder, DEVICE, Limits(), lambda _: None, lambda _: None)
    return folder / result.outputs[0].path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("container", "video"),
    [("mp4", {}), ("mkv", {"codec": "vp9", "speed": "ultrafast"}), ("mkv", {"frame_rate": "24000/1001"})],
)
def test_pieces_make_the_file_that_one_run_makes(tmp_path: Path, container: str, video: dict[str, Any]) -> None:
    clip = make_video(tmp_path / "clip.mp4", seconds=10, gop=20, b_frames=2)
    spec = job(container, **video)
    (tmp_path / "one").mkdir()
    whole = transcode(spec, LocalFile(clip, clip.name), tmp_path / "one", device=DEVICE, limits=Limits())
    one = tmp_path / "one" / whole.outputs[0].path
    cutting = cut_up(spec, clip)
    assert len(cutting.pieces) == 3
    many = joined(spec, clip, tmp_path / "many", pieces_of(spec, clip, tmp_path, cutting))
    first, second = decode_video(one), decode_video(many)
    assert second.times == first.times
    assert_dts_rising(many)
    assert abs(many.stat().st_size / one.stat().st_size - 1) < 0.05
    assert (decode_audio(many).samples == decode_audio(one).samples).all()
    if "frame_rate" not in video:
        source = decode_video(clip)
        assert abs(psnr(source, second) - psnr(source, first)) < 0.3


@pytest.mark.slow
def test_input_without_another_keyframe_is_not_cut(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mp4", seconds=8, gop=1000, options={"sc_threshold": "0"})
    cutting = cut_up(job(), clip)
    assert cutting.pieces == ()
    assert "keyframe" in cutting.reason


@pytest.mark.slow
def test_pieces_with_a_gap_are_refused(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mp4", seconds=9, gop=20)
    pieces = pieces_of(job(), clip, tmp_path, cut_up(job(), clip))
    with pytest.raises(PiecesDiffer):
        joined(job(), clip, tmp_path / "wrong", [pieces[0], pieces[2]])


@pytest.mark.slow
def test_pieces_of_machines_with_other_numbers_of_threads_go_together(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mp4", seconds=8, gop=20, size=(64, 48))
    video = {"codec": "hevc", "speed": "ultrafast"}
    here = pieces_of(job(**video), clip, tmp_path / "here", cut_up(job(**video), clip))
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        there = pieces_of(job(**video), clip, tmp_path / "there", cut_up(job(**video), clip))
    finally:
        os.sched_setaffinity(0, allowed)
    made = joined(job(**video), clip, tmp_path / "many", [here[0], *there[1:]])
    assert decode_video(made).times == decode_video(clip).times


@pytest.mark.parametrize("seed", range(20))
def test_decode_times_rise_and_are_before_what_is_shown(seed: int) -> None:
    rng = random.Random(seed)
    shown = sorted(rng.sample(range(10_000), 60))
    size = rng.choice([1, 3, 4, 6])
    groups = [shown[begin : begin + size] for begin in range(0, 60, size)]
    order = [time for group in groups for time in (group[-1], *rng.sample(group[:-1], size - 1))]
    due = decode_times(order)
    assert all(a < b for a, b in pairwise(due))
    assert all(dts <= pts for dts, pts in zip(due, order, strict=True))


def test_packets_are_read_as_they_were_written_and_a_cut_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "piece"
    written = [(Head(-3 + 2 * n, n, n * 10, n % 2 == 0), bytes([n]) * (n * 10)) for n in range(5)]
    with path.open("wb") as file:
        for head, data in written:
            put(file, head, data)
    assert list(packets(path)) == written
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(OutputFailed):
        list(packets(path))
