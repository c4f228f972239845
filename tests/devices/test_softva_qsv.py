"""FFmpeg's QSV code, the VPL dispatcher and Intel's own VPL runtime on softva. Of silicon it says nothing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.softva.rig import Rig

pytestmark = [pytest.mark.vaapi, pytest.mark.qsv]

SOURCE = ("-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25:duration=0.8")
FRAMES = 20


def ffmpeg(*arguments: str | Path) -> str:
    """What it says."""
    done = subprocess.run(
        ["ffmpeg", "-nostdin", "-hide_banner", "-y", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def opened(rig: Rig, number: int = 1) -> tuple[str, ...]:
    """QSV derived from VAAPI, as the service does it."""
    va = f"vaapi=va:{rig.node(number)}"
    return ("-init_hw_device", va, "-init_hw_device", "qsv=q@va", "-filter_hw_device", "q")


def psnr(path: Path) -> float:
    said = ffmpeg("-i", path, *SOURCE, "-lavfi", "[0:v][1:v]psnr=shortest=1", "-f", "null", "-")
    found = re.search(r"average:(\S+)", said)
    assert found, said
    return float(found[1])


UPLOAD = ("-vf", "format=nv12,hwupload=extra_hw_frames=16")


@pytest.mark.parametrize("number", [0, 1], ids=["UHD 770", "Arc A380"])
@pytest.mark.parametrize("encoder", ["h264_qsv", "hevc_qsv"])
def test_stream_of_the_vpl_runtime_decodes_to_the_picture(rig: Rig, tmp_path: Path, encoder: str, number: int) -> None:
    out = tmp_path / "out.mp4"
    ffmpeg(*opened(rig, number), *SOURCE, *UPLOAD, "-c:v", encoder, "-bf", "0", "-global_quality", "23", out)
    assert psnr(out) > 40
    assert rig.log.pictures("encode", rig.gpus[number].node) >= FRAMES
    assert rig.log.pictures("encode", rig.gpus[1 - number].node) == 0


@pytest.mark.parametrize("encoder", ["h264_qsv", "hevc_qsv"])
@pytest.mark.parametrize("number", [0, 1], ids=["UHD 770", "Arc A380"])
def test_pictures_of_streams_with_b_pictures_come_out_in_order(
    rig: Rig, tmp_path: Path, encoder: str, number: int
) -> None:
    out = tmp_path / "out.mp4"
    upload = ("-vf", "format=nv12,hwupload=extra_hw_frames=40")
    ffmpeg(*opened(rig, number), *SOURCE, *upload, "-c:v", encoder, "-bf", "7", "-refs", "5", "-q:v", "24", out)
    assert rig.log.pictures("encode", type="B") > 0
    assert ffmpeg("-v", "error", "-xerror", "-i", out, "-f", "framemd5", "-").count(", ") >= FRAMES
    assert psnr(out) > 35


def test_ten_bits_stay_ten_bits(rig: Rig, tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    upload = ("-vf", "format=p010,hwupload=extra_hw_frames=16")
    ffmpeg(*opened(rig), *SOURCE, *upload, "-c:v", "hevc_qsv", "-bf", "0", "-q:v", "24", out)
    assert "Main 10" in ffmpeg("-i", out, "-t", "0.1", "-f", "null", "-")
    assert psnr(out) > 40


RATE_CONTROL_MASK = 0x7F
"""Without VA_RC_MB, which the runtime adds to the rates of HEVC."""


@pytest.mark.parametrize("encoder", ["h264_qsv", "hevc_qsv"])
@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ("-global_quality 23", 0x40),
        ("-b:v 500k -maxrate 500k", 0x2),
        ("-b:v 500k -maxrate 800k", 0x4),
        ("-q:v 24", 0x10),
    ],
    ids=["ICQ", "CBR", "VBR", "CQP"],
)
def test_rate_control_of_the_options_reaches_the_driver(
    rig: Rig, tmp_path: Path, encoder: str, options: str, mode: int
) -> None:
    ffmpeg(*opened(rig), *SOURCE, *UPLOAD, "-c:v", encoder, "-bf", "0", *options.split(), tmp_path / "out.mp4")
    used = [int(event.facts["rc"], 16) & RATE_CONTROL_MASK for event in rig.log.events("encode")]
    assert used == [mode] * FRAMES


def test_frames_go_from_vaapi_to_qsv_without_touching_the_cpu(rig: Rig, tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    ffmpeg(*SOURCE, "-c:v", "libx264", "-pix_fmt", "yuv420p", clip)
    decode = ("-hwaccel", "vaapi", "-hwaccel_device", "va", "-hwaccel_output_format", "vaapi", "-i", clip)
    scale = ("-vf", "scale_vaapi=w=160:h=120,hwmap=derive_device=qsv,format=qsv")
    va = ("-init_hw_device", f"vaapi=va:{rig.node(1)}")
    ffmpeg(*va, *decode, *scale, "-c:v", "h264_qsv", "-bf", "0", "-global_quality", "23", tmp_path / "out.mp4")
    assert [rig.log.pictures(kind) for kind in ("decode", "vpp", "encode")] == [FRAMES] * 3
    assert rig.log.downloads() == 0


def test_qsv_decoding_is_exact_to_the_bit(rig: Rig, tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    ffmpeg(*SOURCE, "-c:v", "libx264", "-pix_fmt", "yuv420p", clip)
    decode = (
        "-hwaccel_device",
        "q",
        "-hwaccel",
        "qsv",
        "-hwaccel_output_format",
        "qsv",
        "-c:v",
        "h264_qsv",
        "-i",
        clip,
    )
    hashes = ("-v", "quiet", "-f", "framemd5", "-")
    on_gpu = ffmpeg(*opened(rig), *decode, "-vf", "hwdownload,format=nv12", *hashes)
    assert on_gpu == ffmpeg("-i", clip, "-vf", "format=nv12", *hashes)
    assert rig.log.pictures("decode") == FRAMES
