"""Times that are missing, out of order, equal or falling: repaired by rule, and counted."""

from __future__ import annotations

import struct
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import pytest

from tests.jobs import SMALL, rest_slow, transcoded, warning_counts
from tests.measure import assert_dts_rising, click_times, decode_video, flash_times, frame_psnr
from tests.media import Tone, make_video
from tests.signals import plain_picture

SIZE = (96, 64)
RATE = 25
FLASHES = (Fraction(12, 25), Fraction(38, 25))
"""On frames."""


def avi(path: Path, codec: str, b_frames: int, sound: str = "pcm_s16le") -> Path:
    flashes = {int(time * RATE) for time in FLASHES}
    return make_video(
        path, size=SIZE, rate=RATE, codec=codec, b_frames=b_frames, gop=12,
        frames=(plain_picture(SIZE, 235 if number in flashes else 16) for number in range(2 * RATE)),
        audio=(Tone(sound, "mono", clicks=FLASHES, amplitude=0.8),),
    )  # fmt: skip


def delay_avi_sound(path: Path, milliseconds: int) -> None:
    """Sets dwStart of the PCM track's header, in its own units (samples)."""
    data = bytearray(path.read_bytes())
    at = data.index(b"auds")
    scale, rate = struct.unpack_from("<II", data, at + 20)
    struct.pack_into("<I", data, at + 28, milliseconds * rate // scale // 1000)
    path.write_bytes(data)


@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize("codec", ["h264", "mpeg4"])
def test_reordered_pictures_in_avi_are_shown_in_order_and_in_time(tmp_path: Path, codec: str, b_frames: int) -> None:
    source = avi(tmp_path / "in.avi", codec, b_frames)
    outputs: list[dict[str, Any]] = [{"type": "mp4", "video": SMALL}, {"type": "copy", "format": "mkv"}]
    for number, output in enumerate(outputs):
        path, result = transcoded(source, tmp_path / f"{number}", output)
        times = decode_video(path).times
        assert len(times) == 50
        assert all(later - earlier == Fraction(1, RATE) for earlier, later in pairwise(times))
        shown, heard = flash_times(path), click_times(path)
        assert len(shown) == len(heard) == 2
        # copied, MPEG-4 keeps the one picture that its decoders hold back
        late = 0.045 if codec == "mpeg4" and output["type"] == "copy" and b_frames else 0.005
        assert all(abs(float(flash) - click) <= late for flash, click in zip(shown, heard, strict=True))
        assert_dts_rising(path)
        assert not result.warnings


@pytest.mark.parametrize("codec", ["h264", "mpeg4"])
def test_sound_that_avi_starts_late_stays_late(tmp_path: Path, codec: str) -> None:
    source = avi(tmp_path / "in.avi", codec, 2)
    delay_avi_sound(source, 250)
    path, _ = transcoded(source, tmp_path / "out", {"type": "mp4", "video": SMALL})
    shown, heard = flash_times(path), click_times(path)
    late = [click - float(flash) for flash, click in zip(shown, heard, strict=True)]
    assert late == pytest.approx([0.25] * 2, abs=0.005)
    assert len(decode_video(path).frames) == 50


RAW = [("h264", "h264"), ("hevc", "hevc"), ("mpeg2video", "m2v"), ("mpeg4", "m4v")]


@pytest.mark.parametrize("rate", rest_slow([Fraction(30_000, 1001), 25, 50], 1))
@pytest.mark.parametrize(("codec", "suffix"), RAW, ids=[codec for codec, _ in RAW])
def test_raw_streams_play_at_their_own_rate_in_the_right_order(
    tmp_path: Path, codec: str, suffix: str, rate: int | Fraction
) -> None:
    clip: dict[str, Any] = {"size": SIZE, "rate": rate, "seconds": 1, "codec": codec, "b_frames": 2, "gop": 12}
    source = make_video(
        tmp_path / f"in.{suffix}", container="mpeg2video" if suffix == "m2v" else None, audio=(), **clip
    )
    same = decode_video(make_video(tmp_path / "same.mkv", audio=(), **clip))
    outputs: list[dict[str, Any]] = [
        {"type": "mp4", "video": {**SMALL, "speed": "veryfast"}},
        {"type": "copy", "format": "mp4"},
    ]
    for number, output in enumerate(outputs):
        path, _ = transcoded(source, tmp_path / f"{number}", output)
        got = decode_video(path)
        assert len(got.frames) == len(same.frames)
        assert all(abs((b - a) - 1 / Fraction(rate)) < Fraction(1, 10_000) for a, b in pairwise(got.times))
        assert frame_psnr(same.frames, got.frames) > (22 if output["type"] == "mp4" else 60)
        assert_dts_rising(path)


def stamp_blocks(path: Path, changes: dict[int, int]) -> None:
    """Gives video packets of a short Matroska file (one cluster) other times: {number: milliseconds}."""
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        payloads = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    for number, milliseconds in changes.items():
        at = data.index(payloads[number]) - 3
        struct.pack_into(">h", data, at, milliseconds)
    path.write_bytes(data)


def plain_clip(path: Path, **more: Any) -> Path:
    return make_video(path, size=SIZE, seconds=1, audio=(), **more)


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
def test_equal_times_are_one_picture_and_counted(tmp_path: Path, container: str) -> None:
    source = plain_clip(tmp_path / "in.mkv")
    stamp_blocks(source, {10: 360, 15: 560})
    path, result = transcoded(source, tmp_path / "out", {"type": container, "video": SMALL})
    assert len(decode_video(path).frames) == 23
    assert warning_counts(result) == {"duplicate_timestamp": 2}
    assert result.warnings[0].first_seconds == 0.36


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
def test_falling_times_are_repaired_and_counted(tmp_path: Path, container: str) -> None:
    source = plain_clip(tmp_path / "in.mkv")
    stamp_blocks(source, {10: 330, 11: 350})
    path, result = transcoded(source, tmp_path / "out", {"type": container, "video": SMALL})
    times = decode_video(path).times
    assert all(later > earlier for earlier, later in pairwise(times))
    assert warning_counts(result) == {"falling_timestamp": 2}
    assert len(times) == 25
    assert abs(times[12] - times[0] - Fraction(12, 25)) <= Fraction(1, 1000)
    assert_dts_rising(path)


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
def test_copied_packets_never_fall_back(tmp_path: Path, container: str) -> None:
    source = plain_clip(tmp_path / "in.mkv")
    stamp_blocks(source, {10: 330, 11: 350, 15: 560})
    path, result = transcoded(source, tmp_path / "out", {"type": "copy", "format": container})
    assert len(decode_video(path).frames) == 25
    assert_dts_rising(path)
    assert warning_counts(result)["falling_timestamp"] >= 2
