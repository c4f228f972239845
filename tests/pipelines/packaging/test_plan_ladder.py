"""Plans of ladders: rungs, groups, places; without media."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.errors import UnsupportedSpec
from pipelines.ladder import auto_rungs
from pipelines.packaging.languages import language_tag
from pipelines.plan import plan
from pipelines.rendition import CopyRendition, VideoRendition
from pipelines.source import SourceInfo, VideoInfo
from pipelines.spec import FileJob
from tests.pipelines.facts import SOFTWARE, audio, only_output, planned, source, video


def rungs(*heights: int, **facts: Any) -> list[dict[str, Any]]:
    return [{"height": height, **facts} for height in heights]


def ladder(of: SourceInfo | None = None, **output: Any) -> list[VideoRendition]:
    made = only_output({"type": "hls", **output}, of)
    return [each for each in made.renditions if isinstance(each, VideoRendition)]


def sizes(of: SourceInfo | None = None, **output: Any) -> list[tuple[int, int]]:
    return [(each.width, each.height) for each in ladder(of, **output)]


def test_rungs_come_in_the_order_asked_for() -> None:
    assert sizes(video=rungs(1080, 720, 360)) == [(1920, 1080), (1280, 720), (640, 360)]


def test_rung_above_source_is_dropped_where_another_gives_the_same() -> None:
    small = source(video(width=1280, height=720), audio())
    assert sizes(small, video=rungs(2160, 1080, 720, 360)) == [(1280, 720), (640, 360)]
    warnings = planned({"type": "hls", "video": rungs(2160, 1080, 720, 360)}, small).warnings
    assert [warning.code for warning in warnings] == ["rung_dropped", "rung_dropped"]


def test_the_nearest_rung_above_the_source_stays_at_the_sources_size() -> None:
    between = source(video(width=1422, height=800), audio())
    made = ladder(between, video=rungs(2160, 1080, 720, rate_control={"mode": "crf", "crf": 22}))
    assert [(each.width, each.height) for each in made] == [(1422, 800), (1280, 720)]


def test_rungs_of_one_size_and_two_rates_both_stay() -> None:
    two = [{"height": 720, "rate_control": {"mode": "vbr", "bitrate": rate}} for rate in (3_000_000, 1_500_000)]
    assert sizes(video=two) == [(1280, 720), (1280, 720)]


@pytest.mark.parametrize(
    ("gop", "segment", "expected"), [(4, 4, 4), (4, 6, 3), (2, 6, 2), (10, 4, 4), (2.5, 4, 2), (1, 1.5, 0.75)]
)
def test_segments_are_whole_numbers_of_gops(gop: float, segment: float, expected: float) -> None:
    [made] = ladder(video=rungs(720, gop_seconds=gop), segment_seconds=segment)
    assert made.gop_seconds == expected


def test_a_rung_without_rate_control_has_a_cap_by_its_size_and_rate() -> None:
    caps = [int(each.options["maxrate"]) for each in ladder(video=rungs(1080, 720, 360))]
    assert caps == sorted(caps, reverse=True)
    assert 4_000_000 < caps[0] < 6_000_000
    fast = ladder(source(video(frame_rate=Fraction(60)), audio()), video=rungs(1080))
    assert int(fast[0].options["maxrate"]) > caps[0]


def test_no_rung_takes_more_than_the_source_has() -> None:
    poor = source(video(bit_rate=900_000), audio())
    assert all(int(each.options["maxrate"]) <= 900_000 for each in ladder(poor, video="auto"))


SIDES = st.integers(64, 4400)


@given(SIDES, SIDES)
def test_an_automatic_ladder_falls_from_the_sources_size_and_never_rises_above_it(width: int, height: int) -> None:
    track: VideoInfo = video(width=width, height=height)
    boxes = [(rung.width, rung.height) for rung in auto_rungs(track, "h264")]
    assert boxes[0] == (None, None)
    shorts = [side or other or 0 for side, other in boxes[1:]]
    assert all(a > b for a, b in zip([min(width, height), *shorts], shorts, strict=False))
    assert len(boxes) <= 6


def test_an_automatic_ladder_of_full_hd_has_the_usual_rungs() -> None:
    assert sizes(video="auto") == [(1920, 1080), (1280, 720), (854, 480), (640, 360), (426, 240)]


def test_an_automatic_ladder_of_a_portrait_counts_its_short_side() -> None:
    portrait = source(video(width=1080, height=1920), audio())
    assert sizes(portrait, video="auto")[:2] == [(1080, 1920), (720, 1280)]


def test_every_track_has_a_folder_and_a_name_of_its_own() -> None:
    many = source(
        video(), audio(language="eng"), audio(index=2, position=1, language="eng"), audio(index=3, position=2)
    )
    packaging = only_output(
        {"type": "dash", "video": [*rungs(720), *rungs(720, codec="hevc"), *rungs(720, codec="hevc", speed="slow")],
         "audio": [{"codec": "aac"}, {"codec": "opus"}]}, many,
    ).packaging  # fmt: skip
    assert packaging is not None
    folders = [track.folder for track in packaging.tracks]
    assert folders == [
        "720p", "720p-hevc", "720p-hevc-2", "audio-en-aac", "audio-en-aac-2", "audio-aac",
        "audio-en-opus", "audio-en-opus-2", "audio-opus",
    ]  # fmt: skip
    named = [(track.group, track.name) for track in packaging.tracks if track.kind == "audio"]
    assert len(set(named)) == len(named)
    assert {group for group, _ in named} == {"audio-aac", "audio-opus"}


def test_a_ladder_is_never_where_a_file_is() -> None:
    outputs = [{"type": "hls", "name": "film.mp4"}, {"type": "mp4", "name": "film"}]
    spec = FileJob.model_validate({"input": {"path": "x"}, "outputs": outputs})
    with pytest.raises(UnsupportedSpec, match=r"film\.mp4"):
        plan(spec, source(), SOFTWARE)


def test_hdr_is_said_by_its_transfer() -> None:
    hdr = video(
        pixel_format="yuv420p10le", bit_depth=10,
        colour={"primaries": "bt2020", "transfer": "smpte2084", "matrix": "bt2020nc", "range": "tv"},
    )  # fmt: skip
    packaging = only_output({"type": "hls", "video": rungs(720, codec="hevc")}, source(hdr, audio())).packaging
    assert packaging is not None
    assert packaging.tracks[0].picture is not None
    assert packaging.tracks[0].picture.video_range == "PQ"


FITS = {"keyframe_seconds": 2.0, "bit_rate": 3_000_000}
COPY = {"type": "hls", "copy_if_fits": True, "video": rungs(1080, 720, codec="h264")}


def test_a_rung_that_the_source_satisfies_is_copied_and_says_so() -> None:
    first, second, *_ = only_output(COPY, source(video(**FITS), audio())).renditions
    assert isinstance(first, CopyRendition)
    assert "satisfy the rung" in first.reason
    assert isinstance(second, VideoRendition)
    assert "not copied: it would be scaled" in second.reason


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"codec": "hevc"}, "it is hevc"),
        ({"keyframe_seconds": 5.0}, "up to 5.0 s lie between its keyframes"),
        ({"keyframe_seconds": None}, "where its keyframes are is not known"),
        ({"bit_rate": 30_000_000}, "its 30.00 Mbit/s are above 5.00"),
        ({"bit_rate": None}, "its bitrate is not known"),
        ({"interlacing": "top"}, "it is interlaced"),
        ({"pixel_format": "yuv422p10le"}, "its pictures are yuv422p10le"),
        ({"rotation": 180}, "it is turned"),
        ({"sample_aspect_ratio": Fraction(4, 3)}, "it is turned, mirrored or of pixels that are not square"),
    ],
)
def test_what_does_not_fit_is_encoded_and_says_why(facts: dict[str, Any], reason: str) -> None:
    output = {**COPY, "video": [{"codec": "h264", "rate_control": {"mode": "crf", "crf": 21, "maxrate": 5_000_000}}]}
    made = only_output(output, source(video(**{**FITS, **facts}), audio())).renditions[0]
    assert isinstance(made, VideoRendition)
    assert f"not copied: {reason}" in made.reason


def test_nothing_is_copied_unasked_nor_into_a_clip() -> None:
    whole = source(video(**FITS), audio())
    assert isinstance(only_output({**COPY, "copy_if_fits": False}, whole).renditions[0], VideoRendition)
    clip = only_output(COPY, whole, input={"clip": {"start": 3}}).renditions[0]
    assert isinstance(clip, VideoRendition)


@pytest.mark.parametrize(
    "output",
    [
        {"type": "hls", "segment_type": "ts", "video": [{"codec": "hevc"}]},
        {"type": "hls", "audio": {"codec": "mp3"}},
        {"type": "hls", "segment_seconds": 0.5},
        {"type": "hls", "video": []},
        {"type": "dash", "video": None, "audio": None},
        {"type": "cmaf", "video": [{"codec": "vp9"}]},
    ],
)
def test_what_players_would_not_take_is_refused_with_the_request(output: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FileJob.model_validate({"input": {"path": "x"}, "outputs": [output]})


@pytest.mark.parametrize(
    ("language", "tag"),
    [("eng", "en"), ("fre", "fr"), ("fra", "fr"), ("de-AT", "de-at"), ("pt_BR", "pt-br"), ("gsw", "gsw"),
     ("und", None), (None, None)],
)  # fmt: skip
def test_languages_have_their_shortest_tag(language: str | None, tag: str | None) -> None:
    assert language_tag(language) == tag
