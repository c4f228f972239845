"""Animated GIF and WebP: which moments, how long each, how large they may get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from av.container import open as av_open

from pipelines.errors import LimitExceeded
from pipelines.result import Result
from tests.media import make_video
from tests.pictures import PATCHES, go, patch_colours, patches, still, yuv_frame
from tests.stills import frames_in, make_counted, time_shown


def animated(source: Path, folder: Path, **fields: Any) -> Result:
    return go(source, folder, {"type": "gif", "name": "a", "fps": 5, "cuts": None, **fields})


def gif_delays(content: bytes) -> list[int]:
    """Hundredths of a second of each frame, from its graphic control extension."""
    marks = [at for at in range(len(content)) if content.startswith(b"\x21\xf9\x04", at)]
    return [int.from_bytes(content[at + 4 : at + 6], "little") for at in marks]


def webp_frames(content: bytes) -> list[int]:
    """Milliseconds of each frame, from its ANMF chunk."""
    at, found = 12, []
    while at + 8 <= len(content):
        size = int.from_bytes(content[at + 4 : at + 8], "little")
        if content[at : at + 4] == b"ANMF":
            found.append(int.from_bytes(content[at + 8 + 12 : at + 8 + 15], "little"))
        at += 8 + size + size % 2
    return found


def test_gif_shows_each_moment_for_as_long_as_it_lasts(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4")
    animated(source, tmp_path / "out")
    content = (tmp_path / "out" / "a.gif").read_bytes()
    shown = [time_shown(frame) for frame in frames_in(tmp_path / "out" / "a.gif")]
    assert shown == pytest.approx([n / 5 for n in range(20)], abs=0.05)
    assert gif_delays(content) == [20] * 20
    assert b"NETSCAPE2.0\x03\x01\x00\x00" in content, "for ever"


def test_gif_is_shown_once_where_that_is_asked_for(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4", seconds=1)
    animated(source, tmp_path / "out", loop=False)
    assert b"NETSCAPE2.0" not in (tmp_path / "out" / "a.gif").read_bytes()


def test_cuts_are_spread_over_the_film(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4")
    animated(source, tmp_path / "out", cuts={"count": 2, "seconds": 0.6})
    shown = [time_shown(frame) for frame in frames_in(tmp_path / "out" / "a.gif")]
    assert shown == pytest.approx([0.7, 0.9, 1.1, 2.7, 2.9, 3.1], abs=0.05)


def test_gif_has_the_colours_of_the_film(tmp_path: Path) -> None:
    frame = yuv_frame(patches(), "smpte170m")
    source = make_video(
        tmp_path / "in.mkv", size=(256, 64), rate=10, frames=still(frame, 10), audio=(), options={"crf": "1"}, seconds=1
    )
    animated(source, tmp_path / "out")
    found = patch_colours(frames_in(tmp_path / "out" / "a.gif")[0])
    assert np.abs(found - np.array(PATCHES)).max() < 8


def test_fewer_colours_make_a_smaller_file(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", size=(96, 64), rate=10, seconds=1, audio=())
    sizes = [
        animated(source, tmp_path / f"out{colors}", colors=colors, dither="none").outputs[0].size for colors in (256, 8)
    ]
    assert sizes[0] > sizes[1]


def test_webp_has_every_frame_with_its_time_and_is_smaller(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", size=(160, 96), rate=10, seconds=2, audio=())
    gif = animated(source, tmp_path / "out").outputs[0]
    webp = animated(source, tmp_path / "out", type="webp").outputs[0]
    content = (tmp_path / "out" / webp.path).read_bytes()
    assert content[:4] == b"RIFF"
    assert content[8:16] == b"WEBPVP8X"
    assert webp_frames(content) == [200] * 10
    assert (int.from_bytes(content[24:27], "little") + 1, int.from_bytes(content[27:30], "little") + 1) == (160, 96)
    assert webp.size < gif.size


def test_more_frames_than_allowed_are_refused(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4")
    with pytest.raises(LimitExceeded) as caught:
        animated(source, tmp_path / "out", max_frames=19)
    assert caught.value.code == "limit_pictures"
    large = make_counted(tmp_path / "large.mp4", size=(1920, 1080), seconds=1)
    with pytest.raises(LimitExceeded, match="in all"):
        animated(large, tmp_path / "out", width=1920, fps=50)


def test_input_without_duration_is_whole(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.webm", codec="vp9", container_options={"live": "1"}, seconds=2)
    animated(source, tmp_path / "out")
    with av_open(str(tmp_path / "out" / "a.gif")) as made:
        assert sum(1 for _ in made.decode(video=0)) == 10
