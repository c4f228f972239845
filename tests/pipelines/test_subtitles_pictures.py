"""Picture subtitles go along where the container has them, and are left out with a warning elsewhere."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from tests.captions import make_pgs
from tests.jobs import SMALL, transcoded, warning_counts


@pytest.mark.parametrize("container", ["mp4", pytest.param("webm", marks=pytest.mark.slow), "ts"])
def test_pictures_are_left_out_with_a_warning(tmp_path: Path, container: str) -> None:
    path = make_pgs(tmp_path / "in.mkv")
    video = {**SMALL, "codec": "vp9"} if container == "webm" else SMALL
    output, result = transcoded(path, tmp_path / "out", {"type": container, "video": video})
    assert warning_counts(result) == {"subtitle_dropped": 1}
    with av.open(str(output)) as opened:
        assert [stream.type for stream in opened.streams] == ["video", "audio"]


@pytest.mark.parametrize(("start", "expected"), [(0, [0, 0.5, 1.0, 1.5]), (0.75, [0.25, 0.75])])
def test_pictures_go_along_into_matroska_on_the_clips_clock(
    tmp_path: Path, start: float, expected: list[float]
) -> None:
    path = make_pgs(tmp_path / "in.mkv")
    output, result = transcoded(path, tmp_path / "out", {"type": "mkv", "video": SMALL}, clip={"start": start})
    assert not result.warnings
    with av.open(str(output)) as opened:
        stream = opened.streams.subtitles[0]
        assert stream.codec_context.name == "pgssub"
        assert stream.metadata["language"] == "eng"
        times = [float(packet.pts * stream.time_base) for packet in opened.demux(stream) if packet.pts is not None]
    assert times == pytest.approx(expected, abs=0.03)
