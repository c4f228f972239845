"""Per-title ladders: plain pictures get less and fewer rungs, noise gets more; all of it said."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from av.video.frame import VideoFrame
from pydantic import ValidationError

from pipelines.ladder import auto_rungs
from pipelines.quality.per_title import decide_rungs
from pipelines.rate_control import Crf
from pipelines.source import VideoInfo
from pipelines.spec import FileJob
from tests.jobs import run_job
from tests.media import make_video
from tests.signals import plain_picture

SOURCE = VideoInfo(
    index=0, position=0, codec="h264", decodable=True, width=1920, height=1080, frame_rate=Fraction(30),
    time_base=Fraction(1, 90_000), bit_rate=40_000_000,
)  # fmt: skip
RUNGS = auto_rungs(SOURCE, "h264")


def decided(*rates: float) -> list[Any]:
    padded = [*rates, *[rates[-1] * 0.1 ** (n + 1) for n in range(len(RUNGS) - len(rates))]]
    return decide_rungs("film", RUNGS, [(rate, rate) for rate in padded], SOURCE)


def test_caps_follow_what_was_measured_within_bounds() -> None:
    control = RUNGS[0].rate_control
    assert isinstance(control, Crf)
    assert control.maxrate is not None
    assert decided(1_000_000)[0].maxrate == 1_500_000 < control.maxrate
    assert decided(4_000_000)[0].maxrate == 6_000_000 > control.maxrate
    assert decided(90_000_000)[0].maxrate == 2 * control.maxrate


def test_rung_that_saves_too_little_goes_and_so_does_what_is_below_enough() -> None:
    first, second, third, *rest = decided(1_000_000, 900_000, 140_000)
    assert (first.kept, second.kept, third.kept) == (True, False, True)
    assert "saves less than a quarter of the 1000 kbit/s" in second.reason
    assert not any(title.kept for title in rest)
    assert "takes 140 kbit/s alone" in rest[0].reason


@pytest.mark.slow
def test_plain_film_has_fewer_and_smaller_rungs_than_noise(tmp_path: Path) -> None:
    random = np.random.default_rng(1)

    def noise() -> VideoFrame:
        return VideoFrame.from_ndarray(random.integers(16, 235, (720, 640), dtype=np.uint8), format="yuv420p")

    films = {
        "plain": [plain_picture((640, 480), 100) for _ in range(25)],
        "noise": [noise() for _ in range(25)],
    }
    ladder = {"type": "hls", "name": "film", "segment_seconds": 1, "per_title": True, "audio": None}
    rungs: dict[str, int] = {}
    caps: dict[str, int] = {}
    for name, frames in films.items():
        path = make_video(tmp_path / f"{name}.mkv", size=(640, 480), seconds=1, frames=frames, audio=())
        result = run_job(path, tmp_path / name, ladder)
        assert result.report is not None
        titles = result.report.findings.titles
        assert len([t for t in titles if t.kept]) == len(result.outputs[0].renditions)
        rungs[name], caps[name] = len(result.outputs[0].renditions), titles[0].maxrate or 0
        assert len([w for w in result.warnings if w.code == "rung_dropped"]) == len([t for t in titles if not t.kept])
    assert rungs["plain"] == 1
    assert rungs["plain"] < rungs["noise"]
    assert caps["plain"] < caps["noise"]


def test_it_is_for_automatic_ladders_alone() -> None:
    with pytest.raises(ValidationError, match="per_title"):
        FileJob.model_validate(
            {"input": {"path": "in"}, "outputs": [{"type": "hls", "per_title": True, "video": [{"height": 240}]}]}
        )
