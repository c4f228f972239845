"""Images over pictures and fades: where, when, how strong, in which colours."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from pipelines.errors import BadInput, LimitExceeded, UnsupportedSpec
from pipelines.filters import Overlay
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.source import Colour
from pipelines.transcode import transcode
from tests.measure import decode_video
from tests.media import make_video
from tests.pictures import DEVICE, FAST, Array, job, plane_of, planned, shown, still, yuv_frame

SIZE = (160, 120)
GREY, ORANGE = (100, 100, 100), (250, 130, 20)
LOGO = {"path": "logo.png"}


def image(path: Path, size: tuple[int, int] = (40, 20), *, codec: str = "png", hole: bool = False) -> Path:
    """Orange; with a `hole`, its left half is transparent."""
    rgba = np.zeros((size[1], size[0], 4), np.uint8)
    rgba[:] = (*ORANGE, 255)
    if hole:
        rgba[:, : size[0] // 2, 3] = 0
    form = {"png": "rgba", "mjpeg": "yuvj444p", "libwebp": "yuva420p"}[codec]
    with av.open(str(path), "w", format="image2", options={"update": "1"}) as output:
        stream: Any = output.add_stream(codec, rate=25, width=size[0], height=size[1])
        stream.pix_fmt = form
        frame = VideoFrame.from_ndarray(rgba, format="rgba")
        output.mux(stream.encode(frame.reformat(format=form)))
        output.mux(stream.encode(None))
    return path


def clip(
    path: Path, *, bits: int = 8, seconds: int = 1, rate: int = 10, start: Fraction = Fraction(0), **more: Any
) -> Path:
    picture = np.full((SIZE[1], SIZE[0], 3), GREY, np.uint8)
    frame = yuv_frame(picture, "bt709", bits=bits)
    colour = Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv")
    return make_video(
        path, size=SIZE, rate=rate, seconds=seconds, frames=still(frame, rate * seconds), audio=(), start=start,
        colour=colour, pixel_format=frame.format.name, **more,
    )  # fmt: skip


def laid(path: Path, folder: Path, beside: Mapping[str, Path], *filters: dict[str, Any], **more: Any) -> Path:
    folder.mkdir(exist_ok=True)
    video = {**FAST, "filters": list(filters), **more.pop("video", {})}
    spec = job(path, {"type": more.pop("kind", "mp4"), "video": video, "audio": None}, **more)
    result = transcode(spec, LocalFile(path, path.name, beside), folder, device=DEVICE, limits=Limits())
    return folder / result.outputs[0].path


def overlay(**more: Any) -> dict[str, Any]:
    return {"type": "overlay", "image": LOGO, "margin_x": 0, "margin_y": 0, **more}


def orange(picture: Array) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of what is orange."""
    mask = np.abs(picture - ORANGE).max(axis=-1) < 40
    assert mask.any()
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


@pytest.mark.parametrize("codec", ["png", "mjpeg", "libwebp"])
def test_an_image_lies_at_its_anchor_in_its_own_colours(tmp_path: Path, codec: str) -> None:
    beside = {
        "path:logo.png": image(tmp_path / {"png": "l.png", "mjpeg": "l.jpg", "libwebp": "l.webp"}[codec], codec=codec)
    }
    path = clip(tmp_path / "clip.mp4")
    output = laid(path, tmp_path / "out", beside, overlay(anchor="bottom_left"))
    picture = shown(decode_video(output, limit=1).frames[0])
    assert np.abs(np.subtract(orange(picture), (0, 100, 40, 120))).max() <= 1
    assert np.abs(picture[104:116, 4:36].mean(axis=(0, 1)) - ORANGE).max() < 10
    assert np.abs(picture[:90].mean(axis=(0, 1)) - GREY).max() < 4


@pytest.mark.parametrize(
    ("told", "box"),
    [
        ({"anchor": "top_right"}, (120, 0, 160, 20)),
        ({"anchor": "center"}, (60, 50, 100, 70)),
        ({"anchor": "bottom", "margin_y": 10}, (60, 90, 100, 110)),
        ({"anchor": "top_left", "margin_x": "10%", "margin_y": "25%"}, (16, 30, 56, 50)),
        ({"anchor": "left", "width": "50%"}, (0, 40, 80, 80)),
        ({"anchor": "right", "width": 20}, (140, 55, 160, 65)),
        ({"anchor": "top", "width": 1000}, (0, 0, 160, 80)),
    ],
)
def test_places_and_sizes_are_pixels_or_shares(tmp_path: Path, told: dict[str, Any], box: tuple[int, ...]) -> None:
    beside = {"path:logo.png": image(tmp_path / "logo.png")}
    output = laid(clip(tmp_path / "clip.mp4"), tmp_path / "out", beside, overlay(**told))
    assert np.abs(np.subtract(orange(shown(decode_video(output, limit=1).frames[0])), box)).max() <= 2


@pytest.mark.parametrize(("bits", "codec"), [(8, "h264"), (10, "hevc")])
def test_transparency_and_opacity_let_the_picture_through(tmp_path: Path, bits: int, codec: str) -> None:
    beside = {"path:logo.png": image(tmp_path / "logo.png", (80, 40), hole=True)}
    path = clip(tmp_path / "clip.mkv", bits=bits, codec=codec)
    output = laid(
        path, tmp_path / "out", beside, overlay(anchor="top_left", opacity=0.5), kind="mkv", video={"codec": codec}
    )
    picture = shown(decode_video(output, limit=1).frames[0])
    half = (np.array(GREY) + ORANGE) / 2
    assert np.abs(picture[4:36, 46:76].mean(axis=(0, 1)) - half).max() < 10
    assert np.abs(picture[4:36, 4:34].mean(axis=(0, 1)) - GREY).max() < 6


@pytest.mark.parametrize("start", [Fraction(0), Fraction(7, 5)], ids=["from 0", "from 1.4 s"])
def test_an_image_is_there_in_its_time_only(tmp_path: Path, start: Fraction) -> None:
    beside = {"path:logo.png": image(tmp_path / "logo.png")}
    path = clip(tmp_path / "clip.ts", seconds=2, start=start)
    output = laid(path, tmp_path / "out", beside, overlay(start_seconds=0.5, end_seconds=1.2, anchor="top_left"))
    video = decode_video(output)
    there = [float(np.abs(shown(frame)[5:15, 5:35].mean(axis=(0, 1)) - ORANGE).max()) < 40 for frame in video.frames]
    assert [round(float(t), 2) for t, is_there in zip(video.times, there, strict=True) if is_there] == [
        0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1,
    ]  # fmt: skip


def test_times_of_a_clip_are_those_of_its_output(tmp_path: Path) -> None:
    beside = {"path:logo.png": image(tmp_path / "logo.png")}
    path = clip(tmp_path / "clip.mp4", seconds=3, gop=5)
    spec = {"path": path.name, "clip": {"start": 1.0, "end": 2.5}}
    output = laid(path, tmp_path / "out", beside, overlay(start_seconds=1.0, anchor="top_left"), input=spec)
    frames = decode_video(output).frames
    there = [float(np.abs(shown(f)[5:15, 5:35].mean(axis=(0, 1)) - ORANGE).max()) < 40 for f in frames]
    assert there == [False] * 10 + [True] * 5


def test_an_image_lies_upright_on_a_turned_padded_picture(tmp_path: Path) -> None:
    beside = {"path:logo.png": image(tmp_path / "logo.png")}
    path = clip(tmp_path / "clip.mp4", rotation=90)
    pad = {"type": "pad", "aspect": "1:1"}
    output = laid(path, tmp_path / "out", beside, overlay(anchor="bottom_right"), pad)
    picture = shown(decode_video(output, limit=1).frames[0])
    assert picture.shape[:2] == (160, 160)
    assert np.abs(np.subtract(orange(picture), (120, 140, 160, 160))).max() <= 2


def test_images_lie_over_each_other_in_the_lists_order(tmp_path: Path) -> None:
    blank = image(tmp_path / "logo.png")
    path = clip(tmp_path / "clip.mp4")
    filters = [overlay(anchor="center"), overlay(anchor="center", width=20)]
    steps = [s for s in planned(path, "mp4", filters=filters).filters if isinstance(s, Overlay)]
    assert [step.image_width for step in steps] == [None, 20]
    assert laid(path, tmp_path / "out", {"path:logo.png": blank}, *filters).stat().st_size > 0


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", BadInput),
        (b"\x89PNG\r\n\x1a\n", BadInput),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), BadInput),
        (b"#EXTM3U\nhttp://127.0.0.1/", BadInput),
        (b"GIF89a" + bytes(50), BadInput),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", BadInput),
        (b"RIFF\x10\x00\x00\x00WEBPVP8 ", BadInput),
    ],
    ids=["empty", "no more than a signature", "zeros", "playlist", "gif", "svg", "webp"],
)
def test_what_is_no_image_fails_the_job_with_its_name(tmp_path: Path, content: bytes, error: type[Exception]) -> None:
    bad = tmp_path / "logo.png"
    bad.write_bytes(content)
    with pytest.raises(error, match=r"path:logo\.png"):
        laid(clip(tmp_path / "clip.mp4"), tmp_path / "out", {"path:logo.png": bad}, overlay())


def test_a_picture_of_too_many_pixels_is_refused(tmp_path: Path) -> None:
    huge = image(tmp_path / "logo.png", (400, 300))
    path = clip(tmp_path / "clip.mp4")
    spec = job(path, {"type": "mp4", "video": {**FAST, "filters": [overlay()]}})
    (tmp_path / "out").mkdir()
    with pytest.raises(LimitExceeded):
        transcode(
            spec, LocalFile(path, path.name, {"path:logo.png": huge}), tmp_path / "out", device=DEVICE,
            limits=Limits(max_pixels=100_000),
        )  # fmt: skip


def test_an_image_over_hdr_is_refused(tmp_path: Path) -> None:
    hdr = Colour(primaries="bt2020", transfer="smpte2084", matrix="bt2020nc", range="tv")
    frame = yuv_frame(np.full((SIZE[1], SIZE[0], 3), GREY, np.uint8), "bt2020nc", bits=10)
    path = make_video(
        tmp_path / "clip.mkv", size=SIZE, seconds=1, frames=still(frame, 3), audio=(), codec="hevc", colour=hdr,
        pixel_format="yuv420p10le",
    )  # fmt: skip
    with pytest.raises(UnsupportedSpec, match="SDR"):
        planned(path, "mkv", codec="hevc", filters=[overlay()])
    assert any(isinstance(s, Overlay) for s in planned(path, "mkv", codec="h264", filters=[overlay()]).filters)


@pytest.mark.parametrize(("bits", "codec"), [(8, "h264"), (10, "hevc")])
@pytest.mark.parametrize("start", [Fraction(0), Fraction(7, 5)], ids=["from 0", "from 1.4 s"])
def test_a_fade_rises_from_black_and_falls_to_it(tmp_path: Path, bits: int, codec: str, start: Fraction) -> None:
    path = clip(tmp_path / "clip.mkv", bits=bits, codec=codec, seconds=2, start=start)
    fade = {"type": "fade", "in_seconds": 0.5, "out_seconds": 0.5}
    output = laid(path, tmp_path / "out", {}, fade, kind="mkv", video={"codec": codec})
    levels = [float(plane_of(f).mean()) / (1 << (bits - 8)) for f in decode_video(output).frames]
    full = max(levels)
    assert levels[0] < 20
    assert levels[-1] < 16 + 0.3 * (full - 16)
    assert levels[:5] == sorted(levels[:5])
    assert levels[-5:] == sorted(levels[-5:], reverse=True)
    assert min(levels[6:14]) > full - 2


def test_a_fade_out_of_a_source_of_unknown_length_is_refused(tmp_path: Path) -> None:
    raw = clip(tmp_path / "clip.h264")
    with pytest.raises(UnsupportedSpec, match="how long"):
        planned(raw, "mp4", filters=[{"type": "fade", "out_seconds": 1}])
