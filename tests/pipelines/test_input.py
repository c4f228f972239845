"""Inputs are opened within limits, whatever they are, and leave nothing open."""

from __future__ import annotations

import os
import resource
import socket
import struct
import zlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from pipelines.errors import BadInput, LimitExceeded, Truncated
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, open_input, read_packets
from tests.media import Tone, make_picture, make_video

LIMITS = Limits()


def opened(path: Path, limits: Limits = LIMITS) -> list[str]:
    """The types of a file's tracks."""
    with open_input(LocalFile(path, path.name), limits) as container:
        return [stream.type for stream in container.streams]


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def make_many_tracks(path: Path, count: int, container: str) -> Path:
    """A small file with `count` audio tracks."""
    with av.open(str(path), "w", format=container) as output:
        streams: list[Any] = [output.add_stream("pcm_s16le", rate=48_000) for _ in range(count)]
        for stream in streams:
            stream.codec_context.layout = "mono"
        output.start_encoding()
        for stream in streams:
            frame = av.AudioFrame("s16", "mono", 64)
            frame.planes[0].update(bytes(frame.planes[0].buffer_size))
            frame.sample_rate, frame.pts, frame.time_base = 48_000, 0, Fraction(1, 48_000)
            output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
    return path


def png(width: int, height: int) -> bytes:
    """A few bytes that claim a large picture."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def noise(count: int, size: tuple[int, int] = (640, 480)) -> Iterator[VideoFrame]:
    """Pictures that no encoder can make small."""
    random = np.random.default_rng(1)
    for _ in range(count):
        yield VideoFrame.from_ndarray(
            random.integers(0, 255, (size[1] * 3 // 2, size[0]), dtype=np.uint8), format="yuv420p"
        )


def test_descriptors_are_closed_whatever_happens(tmp_path: Path) -> None:
    good = make_video(tmp_path / "good.mp4", seconds=Fraction(1, 5))
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(good.read_bytes()[:100])
    before = open_descriptors()
    for _ in range(20):
        assert opened(good) == ["video", "audio"]
        with pytest.raises(BadInput):
            opened(bad)
        with pytest.raises(ZeroDivisionError), open_input(LocalFile(good, "good"), LIMITS):
            raise ZeroDivisionError
    assert open_descriptors() == before


def test_names_that_look_like_protocols_are_only_names(tmp_path: Path) -> None:
    for name in ("a:b.mp4", "concat:x.mp4", "-i.mp4", "%d.mp4", "a\nb.mp4"):
        path = make_video(tmp_path / "plain.mp4", seconds=Fraction(1, 5), audio=()).rename(tmp_path / name)
        assert opened(path) == ["video"]


def test_a_playlist_named_mp4_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_text("#EXTM3U\n#EXTINF:1,\n/etc/passwd\n")
    with pytest.raises(BadInput, match="playlist"):
        opened(path)


def test_fifo_directory_and_missing_file_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", ".", "missing"):
        with pytest.raises(BadInput) as refused:
            opened(tmp_path / name)
        assert refused.value.stage == "open"


@pytest.mark.parametrize("size", [1, 7, 32, 1000])
def test_scraps_are_bad_input(tmp_path: Path, size: int) -> None:
    path = tmp_path / "scrap"
    path.write_bytes(make_video(tmp_path / "a.mp4", seconds=Fraction(1, 5)).read_bytes()[:size])
    with pytest.raises(BadInput):
        opened(path)


def test_ftyp_only_is_bad_input_and_a_lost_index_is_truncated(tmp_path: Path) -> None:
    data = make_video(tmp_path / "a.mp4", seconds=Fraction(1, 2)).read_bytes()
    ftyp = int.from_bytes(data[:4])
    (tmp_path / "ftyp").write_bytes(data[:ftyp])
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    with pytest.raises(BadInput) as refused:
        opened(tmp_path / "ftyp")
    assert refused.value.code == "bad_input"
    with pytest.raises(Truncated):
        opened(tmp_path / "cut")


@pytest.mark.parametrize("container", ["matroska", "mov"])
def test_900_tracks_are_limit_streams(tmp_path: Path, container: str) -> None:
    path = make_many_tracks(tmp_path / "many", 900, container)
    with pytest.raises(LimitExceeded) as refused:
        opened(path)
    assert refused.value.code == "limit_streams"
    assert len(opened(path, Limits(max_streams=900))) == 900


@pytest.mark.parametrize("container", ["matroska", "mov"])
def test_as_many_tracks_as_allowed_open(tmp_path: Path, container: str) -> None:
    path = make_many_tracks(tmp_path / "few", 64, container)
    assert len(opened(path)) == 64


def test_16000x16000_png_is_limit_pixels_without_allocating(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png(16_000, 16_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LimitExceeded) as refused:
        opened(path)
    assert refused.value.code == "limit_pixels"
    assert refused.value.facts["width"] == 16_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


@pytest.mark.parametrize("codec", ["png", "mjpeg", "libwebp", "tiff", "bmp", "jpeg2000"])
def test_large_still_pictures_are_limit_pixels(tmp_path: Path, codec: str) -> None:
    pixel_format = {"mjpeg": "yuvj420p", "libwebp": "yuv420p", "bmp": "bgr24"}.get(codec, "rgb24")
    path = make_picture(tmp_path / "picture", size=(1000, 1000), codec=codec, pixel_format=pixel_format)
    assert opened(path, Limits(max_pixels=1_000_000)) == ["video"]
    with pytest.raises(LimitExceeded) as refused:
        opened(path, Limits(max_pixels=500_000))
    assert refused.value.code == "limit_pixels"


@pytest.mark.parametrize(
    ("container", "codec"), [("mp4", "h264"), ("mpegts", "h264"), ("webm", "vp9"), ("h264", "h264"), ("flv", "flv")]
)
def test_large_video_is_limit_pixels(tmp_path: Path, container: str, codec: str) -> None:
    path = make_video(
        tmp_path / "a", container=container, codec=codec, size=(1000, 1000), audio=(), seconds=Fraction(1, 5)
    )
    assert opened(path, Limits(max_pixels=1_000_000)) == ["video"]
    with pytest.raises(LimitExceeded) as refused:
        opened(path, Limits(max_pixels=500_000))
    assert refused.value.code == "limit_pixels"


def test_pictures_that_grow_within_a_stream_are_not_decoded(tmp_path: Path) -> None:
    small = make_video(tmp_path / "s", container="h264", audio=(), seconds=8, size=(64, 64))
    large = make_video(tmp_path / "l", container="h264", audio=(), seconds=Fraction(1, 5), size=(1280, 720))
    path = tmp_path / "grows.h264"
    path.write_bytes(small.read_bytes() + large.read_bytes())
    sizes = set()
    with open_input(LocalFile(path, "grows"), Limits(max_pixels=64 * 64)) as container:
        for packet in container.demux(container.streams.video[0]):
            try:
                sizes |= {frame.width for frame in packet.decode()}
            except av.error.FFmpegError:
                break
    assert sizes == {64}


def test_sound_that_starts_after_megabytes_of_picture_is_found(tmp_path: Path) -> None:
    tone = Tone("mp2", start=Fraction(8, 5), seconds=Fraction(2, 5))
    path = make_video(
        tmp_path / "late.ts", codec="mpeg2video", size=(640, 480), frames=noise(50), audio=(tone,), bit_rate=60_000_000
    )
    assert path.stat().st_size > 6_000_000
    with open_input(LocalFile(path, "late.ts"), LIMITS) as container:
        assert container.streams.audio[0].codec_context.sample_rate == 48_000


def test_subtitles_inside_an_avi_can_not_name_other_files(tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.avi", codec="mpeg4", audio=(Tone("mp3"),), seconds=Fraction(2, 5))
    with socket.create_server(("127.0.0.1", 0)) as canary:
        canary.setblocking(False)
        playlist = f"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:{canary.getsockname()[1]}/\n".encode()
        # a GAB2 chunk: magic, version, title, version, and what should be the text of subtitles
        title = b"x\x00"
        gab2 = b"GAB2\x00\x02\x00" + struct.pack("<I", len(title)) + title + struct.pack("<HI", 4, len(playlist))
        chunk = b"01tx" + struct.pack("<I", len(gab2 + playlist)) + gab2 + playlist
        data = path.read_bytes().replace(b"auds", b"txts")
        first = data.index(b"00dc", data.index(b"movi"))
        path.write_bytes(data[:first] + chunk + data[first:])
        with open_input(LocalFile(path, "a.avi"), LIMITS) as container:
            assert next(container.decode(container.streams.video[0])).width == 320
        with pytest.raises(BlockingIOError):
            canary.accept()


class LateTrack:
    """A container in which PyAV trips over a track that appeared while the file was read."""

    def demux(self, *streams: str) -> Iterator[str]:
        yield from streams
        raise IndexError("list index out of range")


def test_tracks_that_appear_late_end_the_reading_quietly() -> None:
    assert list(read_packets(LateTrack(), ["a", "b"])) == ["a", "b"]  # type: ignore[arg-type]


def test_no_streams_give_no_packets(tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.mp4", seconds=Fraction(1, 5))
    with open_input(LocalFile(path, "a"), LIMITS) as container:
        assert list(read_packets(container, [])) == []
