"""A ladder with anything wrong in it is never published; failures of the disk end the job."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DiskFull, LimitExceeded, VerifyFailed
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.plan import plan
from pipelines.probe import probe
from pipelines.rendition import Plan
from pipelines.result import Result
from pipelines.run import run
from pipelines.spec import FileJob
from pipelines.transcode import transcode
from pipelines.verify import verify
from tests.ladders import DEVICE, make_ladder, rung
from tests.media import make_video


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("clip") / "in.mp4", size=(128, 72), seconds=4)


Made = tuple[Plan, Result, Path]


def made(clip: Path, folder: Path, **output: Any) -> Made:
    spec = FileJob.model_validate(
        {"input": {"path": "x"}, "outputs": [{"type": "hls", "segment_seconds": 2, "video": [rung(72)], **output}]}
    )
    file = LocalFile(clip, clip.name)
    source = probe(file, Limits())
    planned = plan(spec, source, DEVICE)
    return planned, run(planned, source, file, folder, limits=Limits()), folder


@pytest.fixture(scope="module")
def fragments(clip: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(clip, tmp_path_factory.mktemp("fmp4"), type="cmaf")


@pytest.fixture(scope="module")
def transport(clip: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(clip, tmp_path_factory.mktemp("ts"), segment_type="ts")


def damaged(ladder: Made, folder: Path, harm: Callable[[Path], object]) -> None:
    planned, result, whole = ladder
    shutil.copytree(whole, folder, dirs_exist_ok=True)
    verify(planned, result, folder)
    harm(folder / "output")
    with pytest.raises(VerifyFailed) as caught:
        verify(planned, result, folder)
    assert caught.value.facts["path"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def swap(one: Path, other: Path) -> None:
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


HARM: dict[str, Callable[[Path], object]] = {
    "a segment is missing": lambda root: (root / "72p/00002.m4s").unlink(),
    "a segment is empty": lambda root: (root / "72p/00002.m4s").write_bytes(b""),
    "a segment is cut short": lambda root: cut(root / "72p/00001.m4s"),
    "a segment of sound is cut short": lambda root: cut(root / "audio/00001.m4s"),
    "the init section is another one's": lambda root: swap(root / "72p/init.mp4", root / "audio/init.mp4"),
    "a playlist ends early": lambda root: (root / "72p/index.m3u8").write_text(
        "\n".join((root / "72p/index.m3u8").read_text().splitlines()[:-3])
    ),
    "a playlist is empty, as after a full disk": lambda root: (root / "index.m3u8").write_bytes(b""),
    "the manifest lacks a track": lambda root: (root / "manifest.mpd").write_text("<MPD/>"),
    "pictures are damaged": lambda root: (root / "72p/00001.m4s").write_bytes(
        (data := (root / "72p/00001.m4s").read_bytes())[:600] + bytes(len(data) - 600)
    ),
}


@pytest.mark.parametrize("harm", HARM)
def test_it_is_refused_when(fragments: Made, tmp_path: Path, harm: str) -> None:
    damaged(fragments, tmp_path, HARM[harm])


TS_HARM: dict[str, Callable[[Path], object]] = {
    "a segment is cut inside a packet": lambda root: cut(root / "72p/00001.ts"),
    "a segment has no tables": lambda root: (root / "72p/00002.ts").write_bytes(
        (root / "72p/00002.ts").read_bytes()[376:]
    ),
    "a segment begins in the middle": lambda root: (root / "72p/00002.ts").write_bytes(
        (data := (root / "72p/00002.ts").read_bytes())[:376] + data[-188 * 20 :]
    ),
}


@pytest.mark.parametrize("harm", TS_HARM)
def test_a_transport_stream_is_refused_when(transport: Made, tmp_path: Path, harm: str) -> None:
    damaged(transport, tmp_path, TS_HARM[harm])


@pytest.mark.parametrize("name", ["72p/00002.m4s", "72p/init.mp4", "audio/00001.m4s", "index.m3u8", "manifest.mpd"])
def test_a_full_disk_fails_the_job_wherever_it_is_met(clip: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "output" / name
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/full")
    with pytest.raises(DiskFull):
        make_ladder(clip, tmp_path, {"type": "cmaf", "segment_seconds": 2, "video": [rung(72)]})


def test_all_files_of_a_job_together_have_a_limit(clip: Path, tmp_path: Path) -> None:
    spec = FileJob.model_validate({"input": {"path": "x"}, "outputs": [{"type": "hls", "video": [rung(72)]}]})
    limits = Limits(max_output_bytes=10_000)
    with pytest.raises(LimitExceeded) as caught:
        transcode(spec, LocalFile(clip, clip.name), tmp_path, device=DEVICE, limits=limits)
    assert caught.value.code == "limit_output"
