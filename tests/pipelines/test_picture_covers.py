"""Cover pictures, and pictures that are the whole input."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.probe import probe
from tests.measure import decode_audio, decode_video, find_boxes, sample_entries
from tests.media import make_audio, make_picture, make_video
from tests.pictures import FAST, go, made, seen

SOUND_FILES = ("mp3", "m4a", "flac")


def covered_sound(folder: Path, extension: str) -> Path:
    return make_audio(folder / f"in.{extension}", seconds=1, cover=True)


def covered_video(folder: Path, extension: str) -> Path:
    return make_video(folder / f"in.{extension}", size=(160, 120), seconds=1, cover=True)


def cover_of(path: Path) -> bytes:
    """The packet of the one attached picture, which decodes."""
    source = probe(LocalFile(path, path.name), Limits())
    assert len(source.pictures) == 1, source.pictures
    with av.open(str(path)) as container:
        stream = container.streams[source.pictures[0].index]
        packet = next(packet for packet in container.demux(stream) if packet.size)
        (frame,) = packet.decode()
        assert (frame.width, frame.height) == (64, 64)
        return bytes(packet)


@pytest.mark.parametrize("target", ["m4a", "mp3", "flac"])
@pytest.mark.parametrize("origin", ["mp3", "m4a", "flac", "mkv", "mp4"])
def test_sound_files_keep_the_cover_byte_for_byte(tmp_path: Path, origin: str, target: str) -> None:
    make = covered_sound if origin in SOUND_FILES else covered_video
    clip = make(tmp_path, origin)
    result = go(clip, tmp_path / "out", {"type": "audio", "format": target})
    output = tmp_path / "out" / result.outputs[0].path
    assert cover_of(output) == cover_of(clip)
    assert abs(decode_audio(output).seconds - 1) < 0.06
    assert result.warnings == ()


@pytest.mark.parametrize("target", ["mp4", "mkv"])
@pytest.mark.parametrize("origin", ["mp4", "mkv"])
def test_videos_keep_the_cover_byte_for_byte(tmp_path: Path, origin: str, target: str) -> None:
    clip = covered_video(tmp_path, origin)
    output = made(clip, tmp_path / "out", target)
    assert cover_of(output) == cover_of(clip)
    source = probe(LocalFile(output, output.name), Limits())
    assert len(source.video) == 1
    assert len(decode_video(output).frames) == 25


@pytest.mark.parametrize("target", ["mp4", "mkv", "m4a"])
def test_a_remux_keeps_the_cover(tmp_path: Path, target: str) -> None:
    clip = covered_sound(tmp_path, "m4a") if target == "m4a" else covered_video(tmp_path, "mkv")
    result = go(clip, tmp_path / "out", {"type": "copy", "format": target})
    assert cover_of(tmp_path / "out" / result.outputs[0].path) == cover_of(clip)


@pytest.mark.parametrize("target", ["webm", "ts", "mov"])
def test_a_container_without_covers_drops_it_with_a_warning(tmp_path: Path, target: str) -> None:
    clip = covered_video(tmp_path, "mkv")
    result = go(clip, tmp_path / "out", {"type": target, "video": FAST})
    assert [warning.code for warning in result.warnings] == ["cover_dropped"]
    assert probe(LocalFile(tmp_path / "out" / result.outputs[0].path, "x"), Limits()).pictures == ()


def test_opus_files_drop_the_cover_with_a_warning(tmp_path: Path) -> None:
    result = go(covered_sound(tmp_path, "mp3"), tmp_path / "out", {"type": "audio", "format": "opus"})
    assert [warning.code for warning in result.warnings] == ["cover_dropped"]


def test_an_m4a_says_that_it_is_one(tmp_path: Path) -> None:
    result = go(covered_sound(tmp_path, "flac"), tmp_path / "out", {"type": "audio", "format": "m4a"})
    assert find_boxes(tmp_path / "out" / result.outputs[0].path, "ftyp")[0].body[:4] == b"M4A "


def test_a_cover_is_not_taken_for_the_video(tmp_path: Path) -> None:
    result = go(covered_sound(tmp_path, "mp3"), tmp_path / "out", {"type": "mp4", "video": FAST})
    source = probe(LocalFile(tmp_path / "out" / result.outputs[0].path, "x"), Limits())
    assert (source.video, len(source.audio), len(source.pictures)) == ((), 1, 1)


@pytest.mark.parametrize("kind", ["mp4", "mov"])
@pytest.mark.parametrize("copied", [False, True])
def test_hevc_is_hvc1(tmp_path: Path, kind: str, copied: bool) -> None:
    clip = make_video(tmp_path / "in.mkv", size=(64, 64), seconds=1, codec="hevc", audio=())
    video: Any = "copy" if copied else {**FAST, "codec": "hevc"}
    result = go(clip, tmp_path / "out", {"type": kind, "video": video})
    assert sample_entries(tmp_path / "out" / result.outputs[0].path) == ["hvc1"]


@pytest.mark.parametrize(
    ("extension", "codec", "pixel_format"),
    [("png", "png", "rgb24"), ("jpg", "mjpeg", "yuvj420p"), ("webp", "libwebp", "yuv420p"), ("bmp", "bmp", "bgr24"),
     ("gif", "gif", "pal8"), ("tiff", "tiff", "rgb24")],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["mp4", "webm", "ts"])
def test_a_still_becomes_a_video_of_one_frame(
    tmp_path: Path, extension: str, codec: str, pixel_format: str, kind: str
) -> None:
    path = tmp_path / f"still.{extension}"
    if extension == "gif":
        make_video(path, size=(96, 64), seconds=Fraction(1, 25), codec="gif", pixel_format="pal8", audio=())
    else:
        make_picture(path, size=(96, 64), codec=codec, pixel_format=pixel_format)
    output = made(path, tmp_path / "out", kind)
    frames = decode_video(output)
    assert len(frames.frames) == 1
    assert (frames.frames[0].width, frames.frames[0].height) == (96, 64)
    assert seen(output).colour.range == "tv"


@pytest.mark.parametrize(("extension", "codec", "pixel_format"), [("gif", "gif", "pal8"), ("apng", "apng", "rgb24")])
def test_an_animation_keeps_its_frames_and_their_times(
    tmp_path: Path, extension: str, codec: str, pixel_format: str
) -> None:
    path = make_video(
        tmp_path / f"anim.{extension}", size=(96, 64), seconds=1, rate=10, codec=codec, pixel_format=pixel_format,
        audio=(),
    )  # fmt: skip
    video = decode_video(made(path, tmp_path / "out", "mp4"))
    assert len(video.frames) == 10
    gaps = (b - a for a, b in zip(video.times, video.times[1:], strict=False))
    assert all(abs(gap - Fraction(1, 10)) < Fraction(1, 100) for gap in gaps)


def test_a_transparent_still_is_black(tmp_path: Path) -> None:
    pixels = np.full((64, 96, 4), 255, np.uint8) * np.array([1, 1, 1, 0], np.uint8)
    frame = VideoFrame.from_ndarray(pixels, format="rgba")
    path = tmp_path / "clear.png"
    with av.open(str(path), "w", format="image2", options={"update": "1"}) as output:
        stream: Any = output.add_stream("png", rate=25, width=96, height=64)
        stream.pix_fmt = "rgba"
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    assert decode_video(made(path, tmp_path / "out", "mp4")).luma().max() <= 18
