"""Runs on a GPU that softva plays: what is done where, by its log, and the same pictures and times as in software."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import av
import numpy as np
import pytest

from pipelines.hardware import encoders as hardware_encoders
from pipelines.hardware import gpu as hardware
from pipelines.rate_control import Cbr, Cqp, Crf, Icq, RateControl, Vbr
from pipelines.source import Colour
from tests.devices.gpu_plans import FULL, SOFTWARE, Places, go, made
from tests.fields import STEP, flagged, woven
from tests.measure import assert_dts_rising, decode_audio, decode_video, frame_psnr, packet_times, psnr
from tests.media import Tone, make_video
from tests.pictures import corners, seen, shown, still, yuv_frame
from tests.pipelines.test_picture_changes import bright_box, joined, white_clip
from tests.pipelines.test_picture_hdr import DISPLAY, NITS, PQ, columns, hdr_clip, pq
from tests.pipelines.test_picture_interlaced import assert_smooth
from tests.softva.rig import Rig

pytestmark = pytest.mark.vaapi

SMALL: dict[str, Any] = {"height": 120, "speed": "ultrafast"}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1 s of 320×240 at 25 fps with B-frames and a tone."""
    return make_video(
        tmp_path_factory.mktemp("media") / "clip.mp4",
        seconds=1,
        b_frames=2,
        gop=25,
        audio=(Tone(frequencies=(440, 880)),),
    )


def test_a_whole_run_on_the_gpu_moves_no_picture(clip: Path, tmp_path: Path, rig: Rig) -> None:
    output = made(clip, tmp_path / "gpu", rig.node(), **SMALL)
    log = rig.log
    assert [log.pictures(kind) for kind in ("decode", "vpp", "encode")] == [25, 25, 25]
    assert [log.contexts(kind) for kind in ("decode", "vpp", "encode")] == [1, 1, 1]
    assert (log.downloads(), log.uploads(), log.leaks()) == (0, 0, [])
    software = made(clip, tmp_path / "cpu", rig.node(), SOFTWARE, **SMALL)
    assert decode_video(output).times == decode_video(software).times
    assert psnr(software, output) > 35
    assert_dts_rising(output)


HYBRIDS: dict[str, tuple[Places, list[int], int, int]] = {
    "downloaded by the decoder": (Places(frames="software", filters="software"), [25, 0, 25], 25, 25),
    "downloaded by a graph": (Places(filters="software"), [25, 0, 25], 25, 25),
    "decoded in software": (Places("software", "software"), [0, 25, 25], 0, 25),
    "encoded alone": (Places("software", "software", "software"), [0, 0, 25], 0, 25),
    "encoded in software": (Places(encode="software"), [25, 25, 0], 25, 0),
    "decoded alone": (Places(frames="software", filters="software", encode="software"), [25, 0, 0], 25, 0),
}


@pytest.mark.parametrize("name", HYBRIDS)
def test_pictures_are_moved_once_where_stages_lie_apart(clip: Path, tmp_path: Path, rig: Rig, name: str) -> None:
    places, pictures, downloads, uploads = HYBRIDS[name]
    output = made(clip, tmp_path / "gpu", rig.node(), places, **SMALL)
    log = rig.log
    assert [log.pictures(kind) for kind in ("decode", "vpp", "encode")] == pictures
    assert (log.downloads(), log.uploads(), log.leaks()) == (downloads, uploads, [])
    software = made(clip, tmp_path / "cpu", rig.node(), SOFTWARE, **SMALL)
    assert decode_video(output).times == decode_video(software).times
    assert psnr(software, output) > 35


def test_encoders_upload_for_themselves_where_graphs_cant(
    clip: Path, tmp_path: Path, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "carries_surfaces", lambda: False)
    output = made(clip, tmp_path / "gpu", rig.node(), Places(frames="software", filters="software"), **SMALL)
    log = rig.log
    assert (log.pictures("decode"), log.pictures("encode"), log.downloads(), log.uploads()) == (25, 25, 25, 25)
    assert decode_video(output).times == decode_video(clip).times


def test_a_ladder_of_four_is_decoded_once(clip: Path, tmp_path: Path, rig: Rig) -> None:
    heights = (240, 180, 120, 90)
    outputs = [{"type": "mp4", "name": f"h{h}", "video": {"height": h, "codec": "h264"}} for h in heights]
    result = go(clip, tmp_path / "out", rig.node(), FULL, *outputs)
    assert (rig.log.pictures("decode"), rig.log.contexts("decode")) == (25, 1)
    assert (rig.log.pictures("encode"), rig.log.pictures("vpp")) == (100, 75)  # the first is not scaled
    assert (rig.log.downloads(), rig.log.uploads(), rig.log.leaks()) == (0, 0, [])
    sizes = [seen(tmp_path / "out" / output.path).height for output in result.outputs]
    assert sizes == list(heights)


@pytest.mark.parametrize("kind", ["mp4", "mkv", "ts"])
@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_sound_and_headers_are_as_in_software(clip: Path, tmp_path: Path, rig: Rig, codec: str, kind: str) -> None:
    output = {"type": kind, "video": {**SMALL, "codec": codec}, "audio": {"codec": "aac"}}
    paths = []
    for name, places in (("gpu", FULL), ("cpu", SOFTWARE)):
        result = go(clip, tmp_path / name, rig.node(), places, output)
        paths.append(tmp_path / name / result.outputs[0].path)
    # where pictures are reordered, a transport stream starts later
    gpu, cpu = ([time - pictures.times[0] for time in pictures.times] for pictures in map(decode_video, paths))
    assert gpu == cpu
    assert decode_audio(paths[0]).seconds == pytest.approx(decode_audio(paths[1]).seconds, abs=0.001)
    assert decode_audio(paths[0]).samples.shape == decode_audio(paths[1]).samples.shape
    assert seen(paths[0]).colour == seen(paths[1]).colour


def test_keyframes_lie_where_software_puts_them(clip: Path, tmp_path: Path, rig: Rig) -> None:
    output = made(clip, tmp_path, rig.node(), gop_seconds=0.4, **SMALL)
    keys = [number for number, (_, _, key) in enumerate(sorted(packet_times(output))) if key]
    assert keys == [0, 10, 20]


@pytest.mark.parametrize(
    "mode", [Cqp(qp=30), Crf(crf=30), Crf(crf=30, maxrate=200_000), Vbr(bitrate=100_000), Cbr(bitrate=100_000)]
)
def test_every_rate_control_gives_all_frames(clip: Path, tmp_path: Path, rig: Rig, mode: RateControl) -> None:
    output = made(clip, tmp_path, rig.node(), Places(rate_control=mode), **SMALL)
    assert len(decode_video(output).frames) == 25


def test_less_quality_is_fewer_bytes_and_less_like_the_source(clip: Path, tmp_path: Path, rig: Rig) -> None:
    fine, coarse = (made(clip, tmp_path / str(crf), rig.node(), Places(rate_control=Crf(crf=crf))) for crf in (18, 40))
    assert fine.stat().st_size > coarse.stat().st_size * 1.5
    assert psnr(clip, fine) > psnr(clip, coarse) + 3


def test_ten_bits_stay_ten_bits(tmp_path: Path, rig: Rig) -> None:
    clip = make_video(tmp_path / "deep.mp4", seconds=1, codec="hevc", pixel_format="yuv420p10le", audio=())
    output = made(clip, tmp_path / "gpu", rig.node(), codec="hevc", height=120)
    assert seen(output).pixel_format == "yuv420p10le"
    assert (rig.log.pictures("decode"), rig.log.pictures("encode"), rig.log.downloads()) == (25, 25, 0)
    assert psnr(made(clip, tmp_path / "cpu", rig.node(), SOFTWARE, codec="hevc", height=120), output) > 33


def test_an_odd_size_loses_its_last_row_and_column_as_in_software(tmp_path: Path, rig: Rig) -> None:
    clip = make_video(tmp_path / "odd.mkv", size=(321, 241), seconds=1, codec="vp9", audio=())
    gpu, cpu = (made(clip, tmp_path / name, rig.node(), at) for name, at in (("gpu", FULL), ("cpu", SOFTWARE)))
    assert (seen(gpu).width, seen(gpu).height) == (320, 240)
    assert psnr(cpu, gpu) > 35
    assert rig.log.downloads() == 0


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_turned_pictures_come_out_as_in_software(tmp_path: Path, rig: Rig, rotation: int, mirrored: bool) -> None:
    frame = yuv_frame(corners((320, 240)), "smpte170m")
    clip = make_video(
        tmp_path / "turned.mp4", seconds=1, frames=still(frame, 5), audio=(), rotation=rotation, mirrored=mirrored
    )
    gpu, cpu = (made(clip, tmp_path / name, rig.node(), at) for name, at in (("gpu", FULL), ("cpu", SOFTWARE)))
    one, other = (shown(decode_video(path).frames[-1]) for path in (gpu, cpu))
    assert one.shape == other.shape
    assert np.abs(one - other).mean() < 3
    assert rig.log.downloads() == 0


@pytest.mark.parametrize("order", ["top", "bottom"])
@pytest.mark.parametrize("bob", [False, True])
def test_interlaced_pictures_lose_no_frame(
    tmp_path: Path, rig: Rig, order: Literal["top", "bottom"], bob: bool
) -> None:
    frames = flagged(woven((320, 240), 20, order), {"top": "tff", "bottom": "bff"}[order], "yuv420p")  # type: ignore[arg-type]
    clip = make_video(tmp_path / "fields.mp4", seconds=1, frames=frames, audio=(), interlaced=order, bit_rate=4_000_000)
    gpu, cpu = (
        made(clip, tmp_path / name, rig.node(), at, **({"deinterlace": "bob"} if bob else {}))
        for name, at in (("gpu", FULL), ("cpu", SOFTWARE))
    )
    assert decode_video(gpu).times == decode_video(cpu).times
    assert len(decode_video(gpu).frames) == (40 if bob else 20)
    assert_smooth(gpu, STEP if bob else 2 * STEP)
    assert rig.log.downloads() == 0


def test_hdr10_keeps_its_tags_and_its_display(tmp_path: Path, rig: Rig) -> None:
    clip = hdr_clip(tmp_path / "hdr.mp4", columns(pq(NITS)), PQ)
    output = made(clip, tmp_path / "gpu", rig.node(), codec="hevc")
    colour = seen(output).colour
    assert (colour.primaries, colour.transfer, colour.matrix) == ("bt2020", "smpte2084", "bt2020nc")
    assert colour.max_cll == (1000, 400)
    assert colour.mastering_display is not None
    assert colour.mastering_display.max_luminance == DISPLAY.max_luminance
    assert rig.log.downloads() == 0


def test_hdr10_is_tone_mapped_on_the_gpu_in_order_of_brightness(tmp_path: Path, rig: Rig) -> None:
    clip = hdr_clip(tmp_path / "hdr.mp4", columns(pq(NITS)), PQ)
    output = made(clip, tmp_path / "gpu", rig.node())
    assert seen(output).colour.model_copy(update={"range": None}) == Colour(
        primaries="bt709", transfer="bt709", matrix="bt709"
    )
    row = shown(decode_video(output).frames[0])[32, 8::16].mean(axis=-1)
    assert all(b >= a - 1 for a, b in itertools.pairwise(row))
    assert rig.log.downloads() == 0


def test_a_size_change_on_the_way_keeps_size_shape_and_frames(tmp_path: Path, rig: Rig) -> None:
    clip = joined(
        tmp_path / "clip.ts",
        white_clip(tmp_path / "a.ts", (320, 240), codec="h264"),
        white_clip(tmp_path / "b.ts", (320, 120), codec="h264"),
    )
    frames = decode_video(made(clip, tmp_path / "gpu", rig.node())).frames
    assert len(frames) == 20
    assert {(frame.width, frame.height) for frame in frames} == {(320, 240)}
    assert np.abs(np.subtract(bright_box(frames[-1]), (320, 120))).max() <= 2
    assert (rig.log.downloads(), rig.log.leaks()) == (0, [])


def test_a_clip_has_the_frames_that_software_takes(tmp_path: Path, rig: Rig) -> None:
    clip = make_video(tmp_path / "long.mp4", seconds=3, b_frames=2, gop=25, audio=())
    job = {"input": {"clip": {"start": 1.3, "end": 2.1}}}
    output = {"type": "mp4", "video": {"codec": "h264", "height": 120}}
    gpu, cpu = (
        go(clip, tmp_path / name, rig.node(), at, output, **job) for name, at in (("gpu", FULL), ("cpu", SOFTWARE))
    )
    pictures = [decode_video(tmp_path / name / "output.mp4") for name in ("gpu", "cpu")]
    assert pictures[0].times == pictures[1].times
    assert frame_psnr(pictures[1].frames, pictures[0].frames) > 33
    assert gpu.outputs[0].duration_seconds == cpu.outputs[0].duration_seconds


def test_variable_times_are_exact(tmp_path: Path, rig: Rig) -> None:
    times = [Fraction(n, 1000) for n in (0, 40, 55, 200, 201, 400, 900)]
    clip = make_video(tmp_path / "variable.mkv", timestamps=times, end=Fraction(1), seconds=1, audio=())
    gpu, cpu = (
        decode_video(made(clip, tmp_path / name, rig.node(), at)) for name, at in (("gpu", FULL), ("cpu", SOFTWARE))
    )
    assert gpu.times == cpu.times
    assert len(gpu.frames) == len(times)


@pytest.mark.parametrize("encoder", sorted(hardware_encoders.API_OF))
def test_every_option_of_the_tables_is_one_that_ffmpeg_knows(encoder: str) -> None:
    """QSV's too, though its encoders open on Intel's own hardware alone."""
    known = av.CodecContext.create(encoder, "w").supported_options
    names = {option.name for option in (*known.generic, *known.private)}
    modes: list[RateControl] = [Cqp(qp=20)]
    if not encoder.startswith("mjpeg"):
        modes += [
            Crf(crf=20),
            Crf(crf=20, maxrate=200_000),
            Icq(quality=20),
            Vbr(bitrate=100_000),
            Cbr(bitrate=100_000),
        ]
    for mode in modes:
        for speed in ("ultrafast", "medium", "veryslow"):
            assert set(hardware_encoders.encoder_options(encoder, mode, speed, 50, Colour())) <= names
