"""The sampled quality of finished files: what a comparison of all pictures shows, whatever the output is."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipelines.quality.metrics import measure, paired, timed_frames
from pipelines.spec import FileJob
from pipelines.stitch.cuts import spec_refusal
from tests.jobs import rest_slow, run_job
from tests.media import make_video

WANTED = {"receipt": {"quality": True}}
RUNG: dict[str, Any] = {"speed": "ultrafast", "codec": "h264"}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("media") / "in.mp4", size=(160, 120), seconds=10, options={"crf": "10"})


def scores(result: Any) -> list[dict[str, float]]:
    assert result.report is not None
    return [{score.metric: score.mean for score in each.scores} for each in result.report.quality]


OUTPUTS: list[dict[str, Any]] = [
    {"type": "mp4", "video": RUNG},
    {"type": "mkv", "video": {**RUNG, "frame_rate": 25}},
    {"type": "ts", "video": RUNG},
    {"type": "cmaf", "segment_seconds": 1, "video": [RUNG]},
    {"type": "hls", "segment_type": "ts", "segment_seconds": 2, "video": [RUNG]},
    {"type": "hls", "segment_seconds": 2, "single_file": True, "video": [RUNG]},
]


@pytest.mark.slow
@pytest.mark.parametrize("output", rest_slow(OUTPUTS, 2))
def test_every_kind_of_output_is_measured_at_the_same_pictures(
    clip: Path, tmp_path: Path, output: dict[str, Any]
) -> None:
    found = []
    for crf in (20, 38):
        video = output["video"]
        rated = [
            {**r, "rate_control": {"mode": "crf", "crf": crf}} for r in (video if isinstance(video, list) else [video])
        ]
        rungs: Any = rated if isinstance(video, list) else rated[0]
        result = run_job(clip, tmp_path / str(crf), {**output, "video": rungs}, **WANTED)
        assert result.report is not None
        (checked,) = result.report.quality
        assert checked.samples > 1
        assert checked.scores[0].frames >= 80
        found += scores(result)
        assert not list((tmp_path / str(crf)).glob(".samples*"))
    assert found[0]["ssim"] > 0.97
    assert found[0]["ssim"] > found[1]["ssim"] > 0.8
    assert found[0]["psnr"] > found[1]["psnr"] > 20


@pytest.mark.slow
def test_samples_agree_with_all_pictures(clip: Path, tmp_path: Path) -> None:
    result = run_job(clip, tmp_path / "out", {"type": "mp4", "video": RUNG}, **WANTED)
    pairs = paired(timed_frames(clip), timed_frames(tmp_path / "out" / result.outputs[0].path), Fraction(1, 500))
    whole = measure(pairs, ["ssim"])[0].score()
    assert whole is not None
    assert abs(whole.mean - scores(result)[0]["ssim"]) < 0.005


@pytest.mark.parametrize("rung", [{"height": 80}, {"frame_rate": 30}, {"deinterlace": "bob"}])
def test_turned_scaled_and_timed_pictures_are_compared_with_the_like(tmp_path: Path, rung: dict[str, Any]) -> None:
    path = make_video(
        tmp_path / "in.mp4", size=(160, 120), seconds=2, rotation=90, options={"crf": "10"}, interlaced="top",
    )  # fmt: skip
    good = {**RUNG, **rung, "rate_control": {"mode": "crf", "crf": 8}}
    result = run_job(path, tmp_path / "out", {"type": "mkv", "video": good}, **WANTED)
    assert scores(result)[0]["ssim"] > 0.985


def test_jobs_whose_quality_is_asked_for_are_not_cut_and_sound_has_none(clip: Path, tmp_path: Path) -> None:
    spec = FileJob.model_validate({"input": {"path": "in"}, "outputs": [{"type": "mp4"}], **WANTED})
    assert spec_refusal(spec) == "its quality is to be measured"
    assert scores(run_job(clip, tmp_path / "out", {"type": "audio"}, **WANTED)) == []
