"""HLS and CMAF ladders whose pictures never leave the GPU: encoders open with their first surface, lanes with them."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest

from pipelines.errors import DeviceFault
from pipelines.rate_control import Crf
from tests.devices.gpu_plans import SOFTWARE, Places, go
from tests.hls_rules import Multivariant, check_multivariant
from tests.ladders import form, frame_times, rung, starts, whole
from tests.measure import psnr
from tests.media import Tone, make_video
from tests.softva.rig import Rig

pytestmark = pytest.mark.vaapi

SECONDS, RATE = 5, 25
HEIGHTS = (256, 144)
APIS = [
    pytest.param(Places(speed="ultrafast", rate_control=Crf(crf=23)), id="VAAPI"),
    pytest.param(Places(api="qsv", rate_control=Crf(crf=23)), marks=pytest.mark.qsv, id="QSV with B-frames"),
]
TYPES: dict[str, dict[str, Any]] = {
    "fmp4": {"type": "hls"},
    "ts": {"type": "hls", "segment_type": "ts"},
    "cmaf": {"type": "cmaf"},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(
        tmp_path_factory.mktemp("media") / "in.mp4", size=(320, 256), rate=RATE, seconds=SECONDS, b_frames=2, gop=30,
        audio=(Tone(),),
    )  # fmt: skip


def ladder(source: Path, folder: Path, rig: Rig, places: Places, **output: Any) -> Multivariant:
    rungs = [rung(height, codec="h264") for height in HEIGHTS]
    go(source, folder, rig.node(), places, {"segment_seconds": 2, "video": rungs, **output})
    return check_multivariant(folder / "output" / "index.m3u8")


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("places", APIS)
def test_a_ladder_is_whole_and_cut_as_in_software(
    source: Path, tmp_path: Path, rig: Rig, places: Places, kind: str
) -> None:
    made = ladder(source, tmp_path / "gpu", rig, places, **TYPES[kind])
    log = rig.log
    assert [log.pictures("decode"), log.contexts("decode")] == [SECONDS * RATE, 1]
    assert log.pictures("encode") == len(HEIGHTS) * SECONDS * RATE
    assert (log.downloads(), log.uploads(), log.leaks()) == (0, 0, [])
    for _, media in made.variants:
        for entry in media.entries:
            with av.open(io.BytesIO(media.read(entry)), "r", format=form(media)) as container:
                assert next(container.demux(video=0)).is_keyframe
        assert [len(frame_times(media, number)) for number in range(len(media.entries))] == [50, 50, 25]
        first, *rest = starts(media)
        assert [start - first for start in rest] == [2, 4]
    software = ladder(source, tmp_path / "cpu", rig, SOFTWARE, **TYPES[kind])
    for number, ((facts, media), (expected, like)) in enumerate(zip(made.variants, software.variants, strict=True)):
        assert facts["RESOLUTION"] == expected["RESOLUTION"]
        assert [entry.seconds for entry in media.entries] == [entry.seconds for entry in like.entries]
        files = [whole(each, tmp_path / f"{number}{name}") for name, each in (("gpu", media), ("cpu", like))]
        assert psnr(*files) > 33


def test_a_ladder_at_a_broken_rate_is_cut_at_the_same_times(tmp_path: Path, rig: Rig) -> None:
    rate = Fraction(30_000, 1001)
    clip = make_video(tmp_path / "in.mp4", size=(320, 256), rate=rate, seconds=3, gop=20, audio=())
    made = ladder(clip, tmp_path / "out", rig, Places(), type="cmaf", segment_seconds=1)
    cuts = [starts(media) for _, media in made.variants]
    assert cuts[0] == cuts[1]
    assert sum(len(frame_times(media, n)) for _, media in made.variants for n in range(len(media.entries))) == 180


def test_a_rung_that_fails_is_the_failure_of_the_gpu(source: Path, tmp_path: Path, rig: Rig) -> None:
    rig.fail(rig.gpus[0].node, "encode:40")
    with pytest.raises(DeviceFault) as caught:
        ladder(source, tmp_path / "out", rig, Places(), type="cmaf")
    assert caught.value.stage == "encode"
