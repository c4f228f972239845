"""Target quality: what is measured on the samples is what the target says, and on the finished file too."""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pipelines.asked.rungs import Rung
from pipelines.devices import software_device
from pipelines.errors import Cancelled, UnsupportedSpec
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.plan import plan
from pipelines.planning.placement import Site
from pipelines.planning.video import plan_video
from pipelines.probe import probe
from pipelines.quality import target
from pipelines.quality.metrics import measure, paired, timed_frames
from pipelines.quality.search import MAX_PROBES, RANGES, Search, search_for
from pipelines.quality.spans import sample_spans
from pipelines.rate_control import TargetQuality
from pipelines.rendition import Plan, VideoRendition
from pipelines.result import Progress, Result
from pipelines.source import VideoInfo
from pipelines.spec import FileJob
from pipelines.stitch.cuts import spec_refusal
from pipelines.transcode import transcode
from tests.jobs import DEVICE, rest_slow, run_job
from tests.media import make_video


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("media") / "in.mp4", size=(160, 120), seconds=2, options={"crf": "10"})


def goal(value: float, metric: str = "ssim", **more: Any) -> dict[str, Any]:
    return {"mode": "target_quality", "metric": metric, "value": value, **more}


def made_with(clip: Path, folder: Path, rate: dict[str, Any], codec: str = "h264", **rung: Any) -> Result:
    video = {"speed": "ultrafast", "codec": codec, "rate_control": rate, **rung}
    return run_job(clip, folder, {"type": "mkv", "video": video, "audio": None})


def measured(reference: Path, other: Path, metric: Any = "ssim") -> float:
    pairs = paired(timed_frames(reference), timed_frames(other), Fraction(1, 500))
    score = measure(pairs, [metric])[0].score()
    assert score is not None
    return score.mean


@pytest.mark.slow
@pytest.mark.parametrize("codec", rest_slow(["h264", "hevc", "av1", "vp9"], 1))
def test_finished_file_has_the_quality_that_was_asked_for(clip: Path, tmp_path: Path, codec: str) -> None:
    sizes = []
    for value in (0.95, 0.99):
        result = made_with(clip, tmp_path / str(value), goal(value), codec)
        assert result.report is not None
        (finding,) = result.report.findings.targets
        assert finding.reached
        assert abs(finding.score.mean - value) <= 0.01
        assert len(finding.probes) <= MAX_PROBES
        output = tmp_path / str(value) / result.outputs[0].path
        assert abs(measured(clip, output) - finding.score.mean) <= 0.003
        sizes.append(result.outputs[0].size)
        assert not list((tmp_path / str(value)).glob(".samples*"))
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize(("metric", "value"), [("psnr", 36.0), ("xpsnr", 36.0)])
def test_decibels_are_met_as_well(clip: Path, tmp_path: Path, metric: str, value: float) -> None:
    result = made_with(clip, tmp_path / "out", goal(value, metric))
    assert result.report is not None
    (finding,) = result.report.findings.targets
    assert 0 <= finding.score.mean - value <= 1.0
    assert abs(measured(clip, tmp_path / "out" / result.outputs[0].path, metric) - finding.score.mean) < 0.2


@pytest.mark.slow
def test_search_is_deterministic(clip: Path, tmp_path: Path) -> None:
    found = [made_with(clip, tmp_path / str(n), goal(0.97)).report for n in range(2)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].findings == found[1].findings


@pytest.mark.slow
def test_each_rung_has_a_crf_of_its_own_at_its_own_size(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", size=(320, 240), seconds=2, rotation=90, audio=())
    rungs = [
        {"height": height, "codec": "h264", "speed": "ultrafast", "rate_control": goal(0.96)} for height in (320, 160)
    ]
    ladder = {"type": "hls", "segment_seconds": 1, "video": rungs, "audio": None}
    result = run_job(path, tmp_path / "out", ladder)
    assert result.report is not None
    findings = result.report.findings.targets
    assert [finding.rung for finding in findings] == [0, 1]
    assert all(abs(finding.score.mean - 0.96) <= 0.01 for finding in findings)
    assert all(finding.score.frames == 50 for finding in findings)
    assert findings[0].crf != findings[1].crf


def test_what_is_out_of_reach_is_done_as_well_as_it_can_with_a_warning(clip: Path, tmp_path: Path) -> None:
    result = made_with(clip, tmp_path / "out", goal(0.9999, min_crf=40, max_crf=45))
    assert result.report is not None
    (finding,) = result.report.findings.targets
    assert (finding.crf, finding.reached) == (40, False)
    (warning,) = [each for each in result.warnings if each.code == "target_quality_missed"]
    assert warning.facts["renditions"][0]["crf"] == 40


@pytest.mark.slow
def test_reason_and_options_are_in_the_plan_that_is_followed(clip: Path, tmp_path: Path) -> None:
    plans: list[Plan] = []
    spec = FileJob.model_validate(
        {
            "input": {"path": "in"},
            "outputs": [
                {"type": "mp4", "video": {"speed": "ultrafast", "rate_control": goal(0.95, max_bitrate=900_000)}}
            ],
        }
    )
    (tmp_path / "out").mkdir()
    transcode(spec, LocalFile(clip, "in"), tmp_path / "out", device=DEVICE, limits=Limits(), on_plan=plans.append)
    drafts = [next(r for r in each.outputs[0].renditions if isinstance(r, VideoRendition)) for each in plans]
    assert "its CRF is found by measuring samples when it runs" in drafts[0].reason
    assert "ssim 0.95" in drafts[-1].reason
    assert drafts[-1].options["maxrate"] == "900000"
    assert f"crf {float(drafts[-1].options['crf']):g} by measuring" in drafts[-1].reason


def test_cancelling_ends_the_measuring(clip: Path, tmp_path: Path) -> None:
    cancelled = threading.Event()
    spec = FileJob.model_validate(
        {"input": {"path": "in"}, "outputs": [{"type": "mp4", "video": {"rate_control": goal(0.95)}}]}
    )
    seen: list[Progress] = []

    def stop(progress: Progress) -> None:
        seen.append(progress)
        cancelled.set()

    (tmp_path / "out").mkdir()
    with pytest.raises(Cancelled):
        transcode(
            spec, LocalFile(clip, "in"), tmp_path / "out", device=DEVICE, limits=Limits(), on_progress=stop,
            cancelled=cancelled,
        )  # fmt: skip
    assert {progress.fraction for progress in seen} == {0.0}
    assert list((tmp_path / "out").iterdir()) == []


def test_metric_that_this_ffmpeg_lacks_is_refused(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "has_metric", lambda metric: False)
    with pytest.raises(UnsupportedSpec) as refused:
        made_with(clip, tmp_path / "out", goal(0.95))
    assert refused.value.facts["metric"] == "ssim"


@pytest.mark.parametrize(
    "wrong",
    [
        goal(1.0), goal(0), goal(math.nan), goal(5, "psnr"), goal(81, "psnr"), goal(0.9, "vmaf"),
        goal(0.9, min_crf=30, max_crf=20), goal(0.9, max_crf=64), {**goal(0.9), "filter": "movie=x"},
    ],
)  # fmt: skip
def test_values_off_the_scale_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TargetQuality.model_validate(wrong)


def test_job_that_asks_for_it_is_not_cut_and_a_stream_can_not_have_it() -> None:
    rung = {"rate_control": goal(0.95)}
    spec = FileJob.model_validate({"input": {"path": "in"}, "outputs": [{"type": "mp4", "video": rung}]})
    assert spec_refusal(spec) == "rate control target_quality is for the whole"
    source = VideoInfo(
        index=0, position=0, codec="h264", decodable=True, width=160, height=120, time_base=Fraction(1, 90_000)
    )
    with pytest.raises(UnsupportedSpec, match="no rate control target_quality"):
        plan_video(Rung.model_validate(rung), source, "mp4", Site(DEVICE, DEVICE, (), cpu_encodes=True))


CURVES = {
    "steep": lambda crf: 1 - 10 ** (-(3.2 - 0.07 * crf)),
    "flat": lambda crf: 1 - 10 ** (-(2.0 - 0.01 * crf)),
    "bent": lambda crf: 1 - 10 ** (-(2.6 - 0.0012 * crf * crf)),
}


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("value", [0.9, 0.95, 0.98, 0.995])
@pytest.mark.parametrize("codec", RANGES)
def test_search_ends_within_its_probes_with_the_highest_crf_that_was_good_enough(
    curve: str, value: float, codec: str
) -> None:
    search = search_for(TargetQuality(metric="ssim", value=value), codec, 25, hardware=False)
    known: dict[float, float] = {}
    while (crf := search.next_probe(known)) is not None:
        assert crf not in known
        assert search.low <= crf <= search.high
        assert (crf / search.step).is_integer()
        known[crf] = CURVES[curve](crf)
    assert len(known) <= MAX_PROBES
    chosen = search.chosen(known)
    best = max((c for c in _steps(search) if CURVES[curve](c) >= value), default=None)
    assert search.reached(known) == (best is not None)
    if best is not None:
        assert known[chosen] >= value
        assert CURVES[curve](chosen) - CURVES[curve](best) <= 0.01


def _steps(search: Search) -> list[float]:
    return [search.low + n * search.step for n in range(int((search.high - search.low) / search.step) + 1)]


@pytest.mark.parametrize("seconds", [0.5, 5.0, 9.0, 60.0, 600.0, 7200.0])
@pytest.mark.parametrize("size", [(160, 120), (1920, 1080), (3840, 2160)])
def test_samples_lie_within_the_source_and_are_a_bounded_share_of_it(
    clip: Path, seconds: float, size: tuple[int, int]
) -> None:
    source = probe(LocalFile(clip, "in"), Limits())
    spec = FileJob.model_validate({"input": {"path": "in"}, "outputs": [{"type": "mp4"}]})
    made = plan(spec, source, software_device(1))
    made = made.model_copy(update={"duration_seconds": seconds, "start_seconds": 1.0})
    rendition = next(r for r in made.outputs[0].renditions if isinstance(r, VideoRendition))
    spans = sample_spans(made, [rendition.model_copy(update={"width": size[0], "height": size[1]})])
    assert spans[0].start >= 1
    ends = [span.end if span.end is not None else Fraction(1 + seconds) for span in spans]
    assert ends[-1] <= 1 + seconds + 0.001
    assert all(a <= b.start for a, b in zip(ends, spans[1:], strict=False))
    total = sum(end - span.start for end, span in zip(ends, spans, strict=True))
    assert total <= 24
    if seconds >= 600:
        assert total * MAX_PROBES <= seconds * 0.2
