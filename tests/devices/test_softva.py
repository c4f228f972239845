"""softva does what a GPU does: the pixels of software, streams that decode, faults on request, two devices apart."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import av
import pytest
from av.codec.hwaccel import HWAccel

from tests.softva.rig import Rig

pytestmark = pytest.mark.vaapi

SOURCE = "testsrc2=size=640x360:rate=25:duration=0.8"
FRAMES = 20


def ffmpeg(*arguments: str | Path, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ffmpeg", "-nostdin", "-hide_banner", "-y", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def psnr(first: list[str | Path], second: list[str | Path], graph: str) -> float:
    """Of two inputs that `graph` turns into [x] and [y]; infinite when they are equal."""
    done = ffmpeg(*first, *second, "-filter_complex", f"{graph};[x][y]psnr=shortest=1", "-f", "null", "-")
    found = re.search(r"average:(\S+)", done.stderr)
    assert found, done.stderr
    return float(found[1])


def made_of(path: Path, *options: str) -> Path:
    done = ffmpeg("-f", "lavfi", "-i", SOURCE, *options, path)
    assert done.returncode == 0, done.stderr
    return path


def pixels(path: Path, pixel_format: str, *before: str, transfer: str = "") -> str:
    done = ffmpeg(
        *before,
        "-i",
        path,
        "-vf",
        f"{transfer}format={pixel_format}",
        "-fps_mode",
        "passthrough",
        "-f",
        "framemd5",
        "-",
    )
    assert done.returncode == 0, done.stderr
    return "".join(line for line in done.stdout.splitlines(keepends=True) if not line.startswith("#"))


def frames(path: Path) -> int:
    probe = ["ffprobe", "-v", "error", "-count_frames", "-select_streams", "v", "-of", "csv=p=0"]
    done = subprocess.run(
        [*probe, "-show_entries", "stream=nb_read_frames", path], capture_output=True, text=True, timeout=60, check=True
    )
    return int(done.stdout.strip().strip(","))


def opened(rig: Rig, number: int = 0) -> list[str | Path]:
    return ["-init_hw_device", f"vaapi=va:{rig.node(number)}", "-filter_hw_device", "va"]


def on_the_gpu(rig: Rig, number: int = 0) -> list[str | Path]:
    return [*opened(rig, number), "-hwaccel", "vaapi", "-hwaccel_device", "va", "-hwaccel_output_format", "vaapi"]


@pytest.mark.parametrize("pixel_format", ["nv12", "p010", "bgra"])
def test_pixels_come_back_as_they_were_sent(rig: Rig, pixel_format: str) -> None:
    convert = f"[0:v]format={pixel_format},split[a][y];[a]hwupload,hwdownload,format={pixel_format}[x]"
    assert psnr([*opened(rig), "-f", "lavfi", "-i", SOURCE], [], convert) == float("inf")


@pytest.mark.parametrize(
    ("hardware", "software", "floor_db"),
    [
        ("scale_vaapi=w=320:h=180", "scale=320:180,format=nv12", 45),
        ("scale_vaapi=format=p010", "format=p010", 45),
        ("transpose_vaapi=dir=clock", "transpose=clock", 90),
        ("transpose_vaapi=dir=cclock_flip", "transpose=cclock_flip", 90),
        ("transpose_vaapi=dir=hflip", "hflip", 90),
        ("pad_vaapi=w=800:h=400:x=64:y=20", "pad=800:400:64:20", 90),
        ("scale_vaapi=out_range=full", "scale=out_range=full,format=nv12", 45),
        ("deinterlace_vaapi=mode=bob:auto=0", "bwdif=mode=send_frame:deint=all,format=nv12", 25),
    ],
)
def test_filter_gives_the_picture_of_its_software_counterpart(
    rig: Rig, hardware: str, software: str, floor_db: float
) -> None:
    pixel_format = "p010" if "p010" in hardware else "nv12"
    graph = (
        f"[0:v]setfield=prog,format=nv12,split[a][b];[a]hwupload,{hardware},hwdownload,format={pixel_format}[x];"
        f"[b]{software}[y]"
    )
    assert psnr([*opened(rig), "-f", "lavfi", "-i", SOURCE], [], graph) >= floor_db
    assert rig.log.pictures("vpp") >= FRAMES


ENCODINGS = [
    ("nv12", "h264_vaapi", "-rc_mode VBR -b:v 500k -maxrate 500k -bufsize 500k"),
    ("nv12", "h264_vaapi", "-rc_mode CBR -b:v 500k"),
    ("nv12", "h264_vaapi", "-rc_mode CQP -qp 24"),
    ("nv12", "h264_vaapi", "-rc_mode ICQ -global_quality 23"),
    ("nv12", "h264_vaapi", "-rc_mode QVBR -b:v 1M -maxrate 2M -global_quality 25"),
    ("nv12", "h264_vaapi", "-rc_mode CQP -qp 24 -coder cavlc -slices 3"),
    ("nv12", "h264_vaapi", "-rc_mode CQP -qp 24 -profile:v main -low_power 1"),
    ("nv12", "h264_vaapi", "-rc_mode CQP -qp 24 -g 8 -idr_interval 3 -aud 1"),
    ("nv12", "hevc_vaapi", "-rc_mode CQP -qp 24"),
    ("nv12", "hevc_vaapi", "-rc_mode ICQ -global_quality 24 -g 8 -idr_interval 3"),
    ("p010", "hevc_vaapi", "-rc_mode CQP -qp 24"),
]


@pytest.mark.parametrize(("pixel_format", "encoder", "options"), ENCODINGS)
def test_encoded_stream_decodes_to_the_picture(
    rig: Rig, tmp_path: Path, pixel_format: str, encoder: str, options: str
) -> None:
    out = tmp_path / "out.mp4"
    upload = f"format={pixel_format},hwupload"
    encode = ["-vf", upload, "-c:v", encoder, *options.split(), out]
    done = ffmpeg(*opened(rig), "-f", "lavfi", "-i", SOURCE, *encode)
    assert done.returncode == 0, done.stderr
    assert frames(out) == FRAMES == rig.log.pictures("encode")
    strict = ffmpeg("-v", "error", "-xerror", "-err_detect", "+crccheck+bitstream+buffer", "-i", out, "-f", "null", "-")
    assert strict.stderr == ""
    same = "[0:v]format=yuv420p[x];[1:v]format=yuv420p[y]"
    assert psnr(["-i", out], ["-f", "lavfi", "-i", SOURCE], same) > 25


def test_lower_quantiser_gives_the_better_picture(rig: Rig, tmp_path: Path) -> None:
    same = "[0:v]format=yuv420p[x];[1:v]format=yuv420p[y]"
    found = []
    for quantiser in ("18", "30", "42"):
        out = tmp_path / f"{quantiser}.mp4"
        encode = ["-vf", "format=nv12,hwupload", "-c:v", "h264_vaapi", "-rc_mode", "CQP", "-qp", quantiser, out]
        assert ffmpeg(*opened(rig), "-f", "lavfi", "-i", SOURCE, *encode).returncode == 0
        found.append(psnr(["-i", out], ["-f", "lavfi", "-i", SOURCE], same))
    assert found == sorted(found, reverse=True)


CLIPS = {
    "h264": ("clip.mp4", "-c:v libx264 -preset medium -x264-params bframes=4:b-pyramid=normal:weightp=2:ref=4"),
    "baseline": ("clip.mp4", "-c:v libx264 -preset veryfast -profile:v baseline -pix_fmt yuv420p"),
    "interlaced": ("clip.mp4", "-vf setfield=tff -c:v libx264 -flags +ildct+ilme -x264-params tff=1"),
    "odd": ("clip.mp4", "-s 638x358 -c:v libx264 -preset veryfast -x264-params open-gop=1:keyint=8"),
    "hevc": ("clip.mp4", "-c:v libx265 -preset fast -x265-params log-level=none:slices=2:open-gop=1:keyint=8"),
    "hevc-10": ("clip.mp4", "-pix_fmt yuv420p10le -c:v libx265 -preset fast -x265-params log-level=none"),
    "vp9": ("clip.webm", "-c:v libvpx-vp9 -b:v 500k -cpu-used 8 -deadline realtime"),
    "mpeg2": ("clip.mpg", "-s 720x576 -c:v mpeg2video -b:v 4M -bf 2"),
}


@pytest.mark.parametrize("kind", CLIPS)
def test_decoding_is_exact_to_the_bit(rig: Rig, tmp_path: Path, kind: str) -> None:
    name, options = CLIPS[kind]
    clip = made_of(tmp_path / name, *options.split())
    pixel_format = "p010" if kind == "hevc-10" else "nv12"
    for seek in ((), ("-ss", "0.5")):
        in_software = pixels(clip, pixel_format, *seek)
        on_gpu = pixels(clip, pixel_format, *map(str, on_the_gpu(rig)), *seek, transfer="hwdownload,")
        assert on_gpu == in_software
    assert rig.log.pictures("decode") > FRAMES


def transcode(rig: Rig, clip: Path, out: Path, number: int = 0) -> subprocess.CompletedProcess[str]:
    scale_and_encode = ["-vf", "scale_vaapi=w=320:h=180", "-c:v", "h264_vaapi", "-rc_mode", "CQP", "-qp", "24"]
    return ffmpeg(*on_the_gpu(rig, number), "-i", clip, *scale_and_encode, out, seconds=20)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return made_of(tmp_path / "clip.mp4", "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p")


def test_whole_path_touches_no_pixel_on_the_cpu(rig: Rig, tmp_path: Path, clip: Path) -> None:
    assert transcode(rig, clip, tmp_path / "out.mp4").returncode == 0
    assert [rig.log.pictures(kind) for kind in ("decode", "vpp", "encode")] == [FRAMES] * 3
    assert rig.log.downloads() == rig.log.uploads() == 0
    assert rig.log.leaks() == []


@pytest.mark.parametrize(
    ("settings", "code", "encoded"),
    [
        ({"SOFTVA_FAIL": "encode:5"}, 251, 4),
        ({"SOFTVA_FAIL": "vpp:5"}, 251, 4),
        ({"SOFTVA_FAIL": "decode:5"}, 0, FRAMES - 1),
        ({"SOFTVA_FAIL": "surfaces:1"}, 218, 0),
        ({"SOFTVA_FAIL": "crash:encode:5"}, -6, 4),
        ({"SOFTVA_MAX_CONTEXTS": "2"}, 251, 0),
        ({"SOFTVA_PROFILES": "h264dec"}, 218, 0),
        ({"SOFTVA_LACK": "slice"}, 0, FRAMES),
        ({"SOFTVA_MAX_SIZE": "256"}, 218, 0),
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else None,
)
def test_fault_shows_as_on_a_gpu(
    rig: Rig, tmp_path: Path, clip: Path, settings: dict[str, str], code: int, encoded: int
) -> None:
    rig.set("renderD128", **settings)
    assert transcode(rig, clip, tmp_path / "out.mp4").returncode == code
    assert rig.log.pictures("encode") == encoded


def test_hang_never_ends_by_itself(rig: Rig, tmp_path: Path, clip: Path) -> None:
    rig.fail("renderD128", "hang:encode:5")
    encode = ["-vf", "scale_vaapi=w=320:h=180", "-c:v", "h264_vaapi", "-rc_mode", "CQP", "-qp", "24"]
    with pytest.raises(subprocess.TimeoutExpired):
        ffmpeg(*on_the_gpu(rig), "-i", clip, *encode, tmp_path / "out.mp4", seconds=4)
    assert rig.log.events("hang")


def test_fault_of_one_device_is_not_the_others(rig: Rig, tmp_path: Path, clip: Path) -> None:
    rig.fail("renderD129", "encode:1")
    assert transcode(rig, clip, tmp_path / "first.mp4", number=0).returncode == 0
    assert transcode(rig, clip, tmp_path / "second.mp4", number=1).returncode != 0
    assert (rig.log.pictures("encode", "renderD128"), rig.log.pictures("encode", "renderD129")) == (FRAMES, 0)
    rig.fail("renderD129", "")
    assert transcode(rig, clip, tmp_path / "third.mp4", number=1).returncode == 0


class DisplayAttribute(ctypes.Structure):
    """VADisplayAttribute of va.h."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("min_value", ctypes.c_int32),
        ("max_value", ctypes.c_int32),
        ("value", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32 * 4),
    ]


PCI_ID = 21
"""VADisplayPCIID of va.h."""


@pytest.mark.parametrize(("number", "pci_id"), [(0, 0x80864680), (1, 0x808656A5)])
def test_device_tells_its_pci_id(rig: Rig, number: int, pci_id: int) -> None:
    va, drm = ctypes.CDLL("libva.so.2"), ctypes.CDLL("libva-drm.so.2")
    drm.vaGetDisplayDRM.restype = ctypes.c_void_p
    attribute = DisplayAttribute(type=PCI_ID)
    major, minor = ctypes.c_int(), ctypes.c_int()
    with open(rig.node(number), "r+b", buffering=0) as node:
        display = ctypes.c_void_p(drm.vaGetDisplayDRM(node.fileno()))
        assert va.vaInitialize(display, ctypes.byref(major), ctypes.byref(minor)) == 0
        assert va.vaGetDisplayAttributes(display, ctypes.byref(attribute), 1) == 0
        va.vaTerminate(display)
    assert attribute.value & 0xFFFFFFFF == pci_id


def test_settings_change_while_a_device_works(rig: Rig, tmp_path: Path) -> None:
    accelerated = HWAccel("vaapi", device=rig.node())
    with av.open(tmp_path / "out.mp4", "w") as muxer:
        stream = muxer.add_stream(
            "h264_vaapi", rate=25, hwaccel=accelerated, options={"rc_mode": "CQP", "async_depth": "1"}
        )
        stream.width, stream.height, stream.pix_fmt = 320, 240, "nv12"
        for _ in range(4):
            muxer.mux(stream.encode(av.VideoFrame(320, 240, "nv12")))
        rig.fail("renderD128", "encode:*")
        with pytest.raises(OSError, match="Input/output error"):
            stream.encode(av.VideoFrame(320, 240, "nv12"))
    assert rig.log.pictures("encode") == 4
    assert rig.log.events("fault encode")
