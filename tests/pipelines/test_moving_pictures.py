"""GIF, APNG, AVIF and WebP that move: each picture for as long as players show it, or a clear refusal."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from pipelines.errors import UnsupportedSpec
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.probe import probe
from tests.jobs import SMALL, transcoded
from tests.measure import decode_video
from tests.photos import flip_book
from tests.pictures import plane_of
from tests.stills import frames_in

DELAYS = {
    "even": ([40] * 5, [40] * 5),
    "fast": ([20] * 5, [20] * 5),
    "slow": ([1000, 5000, 200, 200, 3000], [1000, 5000, 200, 200, 3000]),
    "none": ([0] * 5, [100] * 5),
    "a hundredth": ([10] * 5, [100] * 5),
    "odd": ([100, 0, 10, 500, 40], [100, 100, 100, 500, 40]),
}
READS_MOVING_WEBP = "webp_anim" in av.formats_available


def assert_timed(source: Path, folder: Path, milliseconds: list[int], speed: str) -> None:
    path, result = transcoded(source, folder, {"type": "mp4", "video": {**SMALL, "speed": speed}})
    begins = [sum(milliseconds[:number]) / 1000 for number in range(len(milliseconds))]
    film = decode_video(path)
    assert [float(time) for time in film.times] == pytest.approx(begins, abs=0.001)
    assert result.outputs[0].duration_seconds == pytest.approx(sum(milliseconds) / 1000, abs=0.001)
    greys = [float(plane_of(frame).mean()) for frame in film.frames]
    assert all(np.diff(greys) > 10)


@pytest.mark.parametrize("speed", ["ultrafast", "veryfast"])
@pytest.mark.parametrize("name", DELAYS)
def test_a_gif_is_as_fast_as_players_show_it(tmp_path: Path, name: str, speed: str) -> None:
    written, shown = DELAYS[name]
    assert_timed(flip_book(tmp_path / "in.gif", written), tmp_path / "out", shown, speed)


def test_a_clip_of_a_hurried_gif_is_where_players_are_then(tmp_path: Path) -> None:
    source = flip_book(tmp_path / "in.gif", [10] * 8)
    path, _ = transcoded(source, tmp_path / "out", {"type": "mp4", "video": SMALL}, clip={"start": 0.3, "end": 0.6})
    shown = [float(plane_of(frame).mean()) for frame in decode_video(path).frames]
    all_of_it = [float(frame.mean()) for frame in frames_in(source)]
    expected = [16 + all_of_it[number] * 219 / 255 for number in (3, 4, 5)]
    assert shown == pytest.approx(expected, abs=3)


@pytest.mark.parametrize("kind", ["png", "avif"])
def test_a_sequence_of_pictures_plays_and_is_no_still(tmp_path: Path, kind: str) -> None:
    delays = [100, 200, 300, 40, 500]
    assert_timed(flip_book(tmp_path / f"in.{kind}", delays), tmp_path / "out", delays, "veryfast")


@pytest.mark.skipif(not READS_MOVING_WEBP, reason="this FFmpeg does not read animated WebP")
def test_a_moving_webp_plays(tmp_path: Path) -> None:
    delays = [100, 200, 300, 40, 500]
    assert_timed(flip_book(tmp_path / "in.webp", delays), tmp_path / "out", delays, "veryfast")


@pytest.mark.skipif(READS_MOVING_WEBP, reason="this FFmpeg reads animated WebP")
def test_a_moving_webp_is_refused_for_what_it_is(tmp_path: Path) -> None:
    source = flip_book(tmp_path / "in.webp", [100] * 3)
    with pytest.raises(UnsupportedSpec, match="animated WebP"):
        probe(LocalFile(source, source.name), Limits())


def test_a_webp_with_an_extended_header_that_does_not_move_is_a_picture(tmp_path: Path) -> None:
    source = flip_book(tmp_path / "in.webp", [100])
    data = source.read_bytes()
    chunk = b"VP8X" + (10).to_bytes(4, "little") + bytes([8, 0, 0, 0, 95, 0, 0, 63, 0, 0])
    source.write_bytes(data[:4] + (len(data) - 8 + len(chunk)).to_bytes(4, "little") + data[8:12] + chunk + data[12:])
    path, _ = transcoded(source, tmp_path / "out", {"type": "mp4", "video": SMALL})
    assert len(decode_video(path).frames) == 1
