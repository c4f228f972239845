"""Pictures that change on the way: size, pixel shape, format, colours. The output stays what it was planned to be."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from av.video.frame import VideoFrame

from pipelines.source import Colour
from tests.measure import decode_video
from tests.media import make_video
from tests.pictures import PATCHES, made, patch_colours, patches, plane_of, shown, still, yuv_frame

BT709 = Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv")
BT601 = Colour(primaries="smpte170m", transfer="smpte170m", matrix="smpte170m", range="tv")


def joined(path: Path, *parts: Path) -> Path:
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    return path


def white_clip(path: Path, size: tuple[int, int], **options: Any) -> Path:
    frame = VideoFrame(size[0], size[1], "yuv420p")
    for plane, value in zip(frame.planes, (235, 128, 128), strict=True):
        plane.update(bytes([value]) * plane.buffer_size)
    options = {"codec": "mpeg2video", **options}
    return make_video(path, size=size, seconds=1, frames=still(frame, 10), audio=(), bit_rate=2_000_000, **options)


def bright_box(frame: VideoFrame) -> tuple[int, int]:
    """Width and height of what is not black."""
    bright = plane_of(frame) > 128
    return int(bright.any(axis=0).sum()), int(bright.any(axis=1).sum())


@pytest.mark.parametrize("codec", ["mpeg2video", "h264"])
@pytest.mark.parametrize(
    ("second", "inside"),
    [((160, 120), (320, 240)), ((320, 120), (320, 120)), ((120, 240), (120, 240)), ((640, 480), (320, 240))],
)
def test_a_size_change_keeps_the_outputs_size_the_pictures_shape_and_all_frames(
    tmp_path: Path, codec: str, second: tuple[int, int], inside: tuple[int, int]
) -> None:
    clip = joined(
        tmp_path / "clip.ts",
        white_clip(tmp_path / "a.ts", (320, 240), codec=codec),
        white_clip(tmp_path / "b.ts", second, codec=codec),
    )
    frames = decode_video(made(clip, tmp_path / "out", "mp4")).frames
    # FFmpeg's MPEG-2 decoder forgets the picture that it holds back when the size changes
    assert len(frames) == (19 if codec == "mpeg2video" else 20)
    assert {(frame.width, frame.height) for frame in frames} == {(320, 240)}
    assert bright_box(frames[0]) == (320, 240)
    assert np.abs(np.subtract(bright_box(frames[-1]), inside)).max() <= 2
    assert int(plane_of(frames[-1]).min()) >= 14  # the bars are video black


def test_a_size_change_of_an_anamorphic_source_keeps_the_displayed_shape(tmp_path: Path) -> None:
    clip = joined(
        tmp_path / "clip.ts",
        white_clip(tmp_path / "a.ts", (360, 288), codec="h264", sar=Fraction(64, 45)),
        white_clip(tmp_path / "b.ts", (180, 288), codec="h264", sar=Fraction(64, 45)),
    )
    frames = decode_video(made(clip, tmp_path / "out", "mp4")).frames
    assert bright_box(frames[0]) == (360, 288)
    assert np.abs(np.subtract(bright_box(frames[-1]), (180, 288))).max() <= 2


@pytest.mark.parametrize("height", [None, 144])
def test_a_change_of_pixel_shape_changes_the_bars_not_the_shape(tmp_path: Path, height: int | None) -> None:
    clip = joined(
        tmp_path / "clip.ts",
        white_clip(tmp_path / "a.ts", (352, 288), codec="h264", sar=Fraction(16, 11)),
        white_clip(tmp_path / "b.ts", (352, 288), codec="h264", sar=Fraction(12, 11)),
    )
    frames = decode_video(made(clip, tmp_path / "out", "mp4", height=height)).frames
    width, whole = (352, 288) if height is None else (256, 144)
    assert len(frames) == 20
    assert bright_box(frames[0]) == (width, whole)
    assert np.abs(np.subtract(bright_box(frames[-1]), (width * 3 / 4, whole))).max() <= 2


@pytest.mark.parametrize("codec", ["vp8", "vp9"])
def test_webm_that_changes_its_size_is_kept_whole(tmp_path: Path, codec: str) -> None:
    clip = glued_ivf(
        tmp_path / "clip.ivf",
        white_clip(tmp_path / "a.ivf", (320, 240), codec=codec),
        white_clip(tmp_path / "b.ivf", (160, 160), codec=codec),
    )
    frames = decode_video(made(clip, tmp_path / "out", "webm", codec="vp9")).frames
    assert len(frames) == 20
    assert {(frame.width, frame.height) for frame in frames} == {(320, 240)}
    assert np.abs(np.subtract(bright_box(frames[-1]), (240, 240))).max() <= 2


def glued_ivf(path: Path, first: Path, second: Path) -> Path:
    """Two IVF files of 10 frames as one, the second's times after the first's."""
    head, tail = first.read_bytes(), second.read_bytes()[32:]
    moved, at = b"", 0
    while at < len(tail):
        size, pts = int.from_bytes(tail[at : at + 4], "little"), int.from_bytes(tail[at + 4 : at + 12], "little")
        moved += tail[at : at + 4] + (pts + 10).to_bytes(8, "little") + tail[at + 12 : at + 12 + size]
        at += 12 + size
    path.write_bytes(head + moved)
    return path


def colour_part(path: Path, colour: Colour, pixel_format: str = "yuv420p", range_: str = "tv") -> Path:
    frame = yuv_frame(patches(), str(colour.matrix), range_)
    if pixel_format != "yuv420p":
        frame = frame.reformat(format=pixel_format)
    return make_video(
        path, size=(256, 64), seconds=1, frames=(frame for _ in range(10)), audio=(), pixel_format=pixel_format,
        colour=colour.model_copy(update={"range": range_}), options={"qp": "0"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("second", "pixel_format", "range_"),
    [(BT601, "yuv420p", "tv"), (BT709, "yuv420p", "pc"), (BT709, "yuv444p", "tv"), (BT709, "yuv420p10le", "tv"),
     (BT601, "yuv422p", "tv")],
)  # fmt: skip
def test_a_change_of_format_or_colours_does_not_show(
    tmp_path: Path, second: Colour, pixel_format: str, range_: str
) -> None:
    clip = joined(
        tmp_path / "clip.ts",
        colour_part(tmp_path / "a.ts", BT709),
        colour_part(tmp_path / "b.ts", second, pixel_format, range_),
    )
    frames = decode_video(made(clip, tmp_path / "out", "mp4")).frames
    assert len(frames) == 20
    for frame in (frames[0], frames[-1]):
        assert np.abs(patch_colours(shown(frame)) - np.array(PATCHES)).max() <= 5
