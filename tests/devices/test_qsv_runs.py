"""Runs with QSV's encoders after VAAPI's decoding and filters: Intel's VPL runtime on GPUs that softva plays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DeviceUnsupported
from pipelines.rate_control import Cbr, Cqp, Crf, Icq, RateControl, Vbr
from tests.devices.gpu_plans import FINE, SOFTWARE, Places, go, made
from tests.measure import assert_dts_rising, decode_video, packet_times, psnr
from tests.media import make_video
from tests.pictures import seen
from tests.softva.rig import Rig

pytestmark = [pytest.mark.vaapi, pytest.mark.qsv]

SMALL: dict[str, Any] = {"height": 144, "speed": "ultrafast"}


def at(rate_control: RateControl = FINE, speed: str = "ultrafast", **places: Any) -> Places:
    return Places(api="qsv", rate_control=rate_control, speed=speed, **places)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1 s of 320×256 at 25 fps with B-frames."""
    path = tmp_path_factory.mktemp("media") / "clip.mp4"
    return make_video(path, size=(320, 256), seconds=1, b_frames=2, gop=25, audio=())


@pytest.mark.parametrize("speed", ["ultrafast", "medium"])
@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_a_whole_run_moves_no_picture(clip: Path, tmp_path: Path, rig: Rig, codec: str, speed: str) -> None:
    output = made(clip, tmp_path / "gpu", rig.node(), at(speed=speed), codec=codec, **SMALL)
    log = rig.log
    assert [log.pictures(kind) for kind in ("decode", "vpp", "encode")] == [25, 25, 25]
    reordered = [pts != dts for pts, dts, _ in packet_times(output)]
    assert any(reordered) == (speed == "medium")
    assert (log.downloads(), log.uploads(), log.leaks()) == (0, 0, [])
    software = made(clip, tmp_path / "cpu", rig.node(), SOFTWARE, codec=codec, **SMALL)
    assert decode_video(output).times == decode_video(software).times
    assert psnr(software, output) > 33
    assert_dts_rising(output)


def test_a_ladder_is_decoded_once(clip: Path, tmp_path: Path, rig: Rig) -> None:
    outputs = [{"type": "mp4", "name": f"h{h}", "video": {"height": h, "codec": "h264"}} for h in (256, 192, 144)]
    result = go(clip, tmp_path / "out", rig.node(), at(), *outputs)
    assert (rig.log.pictures("decode"), rig.log.contexts("decode")) == (25, 1)
    assert (rig.log.pictures("encode"), rig.log.pictures("vpp")) == (75, 50)  # the first is not scaled
    assert (rig.log.downloads(), rig.log.uploads(), rig.log.leaks()) == (0, 0, [])
    assert [seen(tmp_path / "out" / output.path).height for output in result.outputs] == [256, 192, 144]


@pytest.mark.parametrize(
    ("places", "pictures", "downloads"),
    [
        ({"frames": "software", "filters": "software"}, [25, 0, 25], 25),
        ({"filters": "software"}, [25, 0, 25], 25),
        ({"decode": "software", "frames": "software"}, [0, 25, 25], 0),
        ({"decode": "software", "frames": "software", "filters": "software"}, [0, 0, 25], 0),
    ],
    ids=["downloaded by the decoder", "downloaded by a graph", "decoded in software", "encoded alone"],
)
def test_pictures_in_memory_are_uploaded_once(
    clip: Path, tmp_path: Path, rig: Rig, places: dict[str, Any], pictures: list[int], downloads: int
) -> None:
    output = made(clip, tmp_path / "gpu", rig.node(), at(**places), **SMALL)
    log = rig.log
    assert [log.pictures(kind) for kind in ("decode", "vpp", "encode")] == pictures
    assert (log.downloads(), log.uploads(), log.leaks()) == (downloads, 25, [])
    software = made(clip, tmp_path / "cpu", rig.node(), SOFTWARE, **SMALL)
    assert decode_video(output).times == decode_video(software).times
    assert psnr(software, output) > 33


MODES: list[tuple[RateControl, int]] = [
    (Cqp(qp=30), 0x10), (Crf(crf=30), 0x40), (Icq(quality=30), 0x40), (Crf(crf=30, maxrate=200_000), 0x400),
    (Vbr(bitrate=100_000), 0x4), (Cbr(bitrate=100_000), 0x2),
]  # fmt: skip
"""With VA-API's bits of them."""
KINDS_OF_RATE = 0x7F | 0x400


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize(("mode", "bit"), MODES, ids=[str(mode) for mode, _ in MODES])
def test_every_rate_control_reaches_the_driver_and_gives_all_frames(
    clip: Path, tmp_path: Path, rig: Rig, codec: str, mode: RateControl, bit: int
) -> None:
    output = made(clip, tmp_path, rig.node(), at(mode, "medium"), codec=codec, **SMALL)
    assert len(decode_video(output).frames) == 25
    used = {int(event.facts["rc"], 16) & KINDS_OF_RATE for event in rig.log.events("encode")}
    assert used == {bit}


def test_less_quality_is_fewer_bytes_and_less_like_the_source(clip: Path, tmp_path: Path, rig: Rig) -> None:
    fine, coarse = (made(clip, tmp_path / str(crf), rig.node(), at(Crf(crf=crf))) for crf in (18, 40))
    assert fine.stat().st_size > coarse.stat().st_size * 1.5
    assert psnr(clip, fine) > psnr(clip, coarse) + 3


def test_ten_bits_stay_ten_bits(tmp_path: Path, rig: Rig) -> None:
    clip = make_video(tmp_path / "deep.mp4", seconds=1, codec="hevc", pixel_format="yuv420p10le", audio=())
    output = made(clip, tmp_path / "gpu", rig.node(), at(), codec="hevc", height=144)
    assert seen(output).pixel_format == "yuv420p10le"
    assert (rig.log.pictures("decode"), rig.log.pictures("encode"), rig.log.downloads()) == (25, 25, 0)


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_keyframes_lie_where_software_puts_them(clip: Path, tmp_path: Path, rig: Rig, codec: str) -> None:
    output = made(clip, tmp_path, rig.node(), at(speed="medium"), codec=codec, gop_seconds=0.4, height=144)
    keys = [number for number, (_, _, key) in enumerate(sorted(packet_times(output))) if key]
    assert keys == [0, 10, 20]


def test_what_the_runtime_refuses_is_told_in_its_words(clip: Path, tmp_path: Path, rig: Rig) -> None:
    rig.set(rig.gpus[0].node, SOFTVA_RC="cqp")
    with pytest.raises(DeviceUnsupported) as caught:
        made(clip, tmp_path, rig.node(), at(Cbr(bitrate=100_000)), **SMALL)
    assert (caught.value.stage, caught.value.facts["api"]) == ("encode", "qsv")


def test_a_gpu_that_the_runtime_does_not_take_is_unsupported_in_encoding(
    clip: Path, tmp_path: Path, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEVPL_SEARCH_PATH", str(tmp_path))
    Path(rig.node(0)).parents[2].joinpath("sys/class/drm/renderD128").unlink()
    with pytest.raises(DeviceUnsupported) as caught:
        made(clip, tmp_path / "out", rig.node(), at(), **SMALL)
    assert (caught.value.stage, caught.value.facts["api"]) == ("encode", "qsv")
    assert "MFX session" in caught.value.message
