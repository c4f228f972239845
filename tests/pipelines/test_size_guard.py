"""The size guard: early where the end is foreseen, exact at the end, silent otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import LargerThanSource
from pipelines.rendition import SizeLimit
from pipelines.result import Progress
from pipelines.size_guard import check_projection, check_sizes, size_limit
from pipelines.source import SourceInfo
from tests.jobs import SMALL, run_job, transcoded
from tests.media import make_video
from transcoder.attempts.retry import Fail, RetryPolicy, decide
from transcoder.clock import utc_now
from transcoder.jobs import Attempt, ErrorInfo

LIMIT = SizeLimit(share=1.0, source_bytes=1000, max_bytes=1000)


@pytest.mark.parametrize(
    ("written", "seconds", "whole", "ends"),
    [
        (1001, 0.0, None, True),
        (1000, 50.0, 100.0, True),
        (600, 20.0, 100.0, True),
        (260, 20.0, 100.0, False),
        (900, 4.0, 100.0, False),
        (900, 9.0, 1000.0, False),
        (500, 3.0, 10.0, True),
        (999, 100.0, 100.0, False),
        (500, 0.0, None, False),
    ],
)
def test_projection_is_believed_by_what_was_seen(written: int, seconds: float, whole: float | None, ends: bool) -> None:
    if not ends:
        check_projection(LIMIT, "film", written, [(written, seconds)], whole)
        return
    with pytest.raises(LargerThanSource) as error:
        check_projection(LIMIT, "film", written, [(written, seconds)], whole)
    assert (error.value.code, error.value.retryable) == ("larger_than_source", False)
    assert error.value.facts["max_bytes"] == 1000
    assert error.value.facts["bytes"] > 1000


def test_clip_is_compared_with_its_part_of_the_source() -> None:
    source = SourceInfo(format="mov", size_bytes=1000, duration_seconds=10.0)
    assert size_limit(0.5, source, 10.0) == SizeLimit(share=0.5, source_bytes=1000, max_bytes=500)
    assert size_limit(0.5, source, 1.0) == SizeLimit(share=0.5, source_bytes=100, max_bytes=50)
    assert size_limit(None, source, 10.0) is None


def test_output_that_gets_larger_ends_the_run_early(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", size=(160, 120), seconds=8, audio=(), options={"crf": "45"})
    seen: list[Progress] = []
    rung = {**SMALL, "height": 120, "rate_control": {"mode": "crf", "crf": 1}}
    with pytest.raises(LargerThanSource) as error:
        run_job(path, tmp_path / "out", {"type": "mkv", "video": rung}, abort_if_larger=1.0, on_progress=seen.append)
    assert error.value.facts["source_bytes"] == path.stat().st_size
    assert all(progress.fraction is None or progress.fraction < 1 for progress in seen)


def test_sound_that_is_ahead_of_the_picture_counts_for_what_it_lasts() -> None:
    check_projection(LIMIT, "film", 700, [(500, 100.0), (200, 50.0)], 100.0)
    with pytest.raises(LargerThanSource):
        check_projection(LIMIT, "film", 900, [(500, 100.0), (400, 50.0)], 100.0)


def test_finished_output_is_compared_exactly(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", size=(160, 120), seconds=1)
    made, result = transcoded(path, tmp_path / "first", {"type": "mp4", "video": SMALL}, abort_if_larger=100)
    size = made.stat().st_size
    check_sizes(SizeLimit(share=1.0, source_bytes=size, max_bytes=size), result.outputs)
    with pytest.raises(LargerThanSource) as error:
        check_sizes(SizeLimit(share=1.0, source_bytes=size - 1, max_bytes=size - 1), result.outputs)
    assert error.value.facts["bytes"] == size
    assert "already" not in error.value.message


def test_job_that_got_too_large_is_not_tried_again() -> None:
    for device in ("software", "pci-0000:03:00.0"):
        failed = Attempt(
            number=1, device=device, status="failed", started_at=utc_now(),
            error=ErrorInfo(code="larger_than_source", message="…", stage="mux", device=device),
        )  # fmt: skip
        assert isinstance(decide([failed], RetryPolicy(3, 1.0)), Fail)
