"""Plans are values: decisions are checked without media."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.errors import UnsupportedSpec
from pipelines.filters import Crop, Deinterlace, Flatten, Scale, ToneMap, Transpose
from pipelines.ladder import fit
from pipelines.rate_control import Cbr, Crf, Vbr
from pipelines.rendition import CopyRendition
from pipelines.source import Colour, OtherTrack, SubtitleInfo
from pipelines.spec import FileJob, Rung
from tests.pipelines.facts import audio, audio_of, only_output, planned, source, video, video_of


@given(
    width=st.integers(16, 8192),
    height=st.integers(16, 8192),
    box=st.tuples(st.one_of(st.none(), st.integers(16, 4096)), st.one_of(st.none(), st.integers(16, 4096))),
    upscale=st.booleans(),
)
def test_a_fitted_size_is_even_inside_the_box_and_never_enlarged_unasked(
    width: int, height: int, box: tuple[int | None, int | None], upscale: bool
) -> None:
    fitted = fit((Fraction(width), Fraction(height)), box, upscale=upscale)
    if fitted is None:
        return
    assert all(side % 2 == 0 and side >= 2 for side in fitted)
    assert all(limit is None or side <= max(limit, 2) for side, limit in zip(fitted, box, strict=True))
    if not upscale:
        assert fitted[0] <= width + 1
        assert fitted[1] <= height + 1


def test_aspect_is_kept_when_scaled() -> None:
    assert fit((Fraction(1920), Fraction(1080)), (None, 720), upscale=False) == (1280, 720)
    assert fit((Fraction(1440), Fraction(1080)), (1280, 720), upscale=False) == (960, 720)
    assert fit((Fraction(3840), Fraction(1608)), (1920, 1080), upscale=False) == (1920, 804)


def test_rung_above_the_source_is_not_enlarged_and_says_so() -> None:
    rendition = video_of({"type": "mp4", "video": {"height": 2160}})
    assert (rendition.width, rendition.height) == (1920, 1080)
    assert "not scaled" in rendition.reason


def test_upscale_is_done_when_asked() -> None:
    rendition = video_of({"type": "mp4", "video": {"height": 2160, "upscale": True}})
    assert (rendition.width, rendition.height) == (3840, 2160)


def test_limits_apply_to_the_displayed_size_after_rotation() -> None:
    rendition = video_of({"type": "mp4", "video": {"height": 720}}, source(video(rotation=90)))
    assert (rendition.width, rendition.height) == (404, 720) or (rendition.width, rendition.height) == (406, 720)
    assert rendition.filters[-1] == Transpose(degrees=90)


def test_anamorphic_source_keeps_its_aspect_unscaled_and_becomes_square_when_scaled() -> None:
    pal = video(width=720, height=576, sample_aspect_ratio=Fraction(64, 45))
    kept = video_of({"type": "mp4"}, source(pal))
    assert (kept.width, kept.height, kept.sample_aspect_ratio) == (720, 576, Fraction(64, 45))
    scaled = video_of({"type": "mp4", "video": {"height": 288}}, source(pal))
    assert (scaled.width, scaled.height, scaled.sample_aspect_ratio) == (512, 288, Fraction(1))


def test_odd_size_is_cropped_by_one_pixel() -> None:
    rendition = video_of({"type": "mp4"}, source(video(width=1919, height=1079)))
    assert (rendition.width, rendition.height) == (1918, 1078)
    assert Crop(width=1918, height=1078) in rendition.filters


@pytest.mark.parametrize(
    ("codec", "expected"), [("h264", "yuv420p"), ("hevc", "yuv420p10le"), ("av1", "yuv420p10le"), ("vp9", "yuv420p")]
)
def test_deep_sources_stay_deep_where_players_take_it(codec: str, expected: str) -> None:
    deep = video(pixel_format="yuv422p10le", bit_depth=10)
    assert video_of({"type": "mkv", "video": {"codec": codec}}, source(deep)).pixel_format == expected


def test_hdr_to_8_bit_is_tone_mapped_and_tagged_bt709() -> None:
    hdr = video(
        pixel_format="yuv420p10le", bit_depth=10,
        colour=Colour(primaries="bt2020", transfer="smpte2084", matrix="bt2020nc", range="tv"),
    )  # fmt: skip
    rendition = video_of({"type": "mp4"}, source(hdr))
    assert any(isinstance(step, ToneMap) for step in rendition.filters)
    assert rendition.colour == Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv")
    kept = video_of({"type": "mp4", "video": {"codec": "hevc"}}, source(hdr))
    assert kept.colour == hdr.colour
    assert not any(isinstance(step, ToneMap) for step in kept.filters)


def test_full_range_is_scaled_to_limited() -> None:
    full = video(pixel_format="yuvj420p", colour=Colour(matrix="bt709", range="pc"))
    rendition = video_of({"type": "mp4"}, source(full))
    scale = next(step for step in rendition.filters if isinstance(step, Scale))
    assert (scale.in_range, scale.out_range, rendition.colour.range) == ("pc", "tv", "tv")


def test_unsaid_colours_are_taken_by_size_and_tagged() -> None:
    sd = video_of({"type": "mp4"}, source(video(width=720, height=480, colour=Colour())))
    hd = video_of({"type": "mp4", "video": {"height": 480}}, source(video(colour=Colour())))
    assert sd.colour.matrix == "smpte170m"
    assert hd.colour.matrix == "bt709"


def test_alpha_is_laid_over_black() -> None:
    rendition = video_of({"type": "mp4"}, source(video(pixel_format="rgba", colour=Colour())))
    assert isinstance(rendition.filters[0], Flatten)


def test_interlaced_source_is_deinterlaced_once_with_its_field_order() -> None:
    rendition = video_of({"type": "mp4"}, source(video(field_order="bb")))
    assert [s for s in rendition.filters if isinstance(s, Deinterlace)] == [Deinterlace(field_first="bottom")]


def test_gop_is_counted_in_seconds() -> None:
    rendition = video_of({"type": "mp4", "video": {"gop_seconds": 2}}, source(video(frame_rate=Fraction(30000, 1001))))
    assert rendition.gop_frames == 60


def test_hevc_in_mp4_is_hvc1() -> None:
    assert video_of({"type": "mp4", "video": {"codec": "hevc"}}).codec_tag == "hvc1"
    assert video_of({"type": "mkv", "video": {"codec": "hevc"}}).codec_tag is None


RATES: list[tuple[Any, dict[str, str]]] = [
    (Crf(crf=20), {"crf": "20"}),
    (Crf(crf=20, maxrate=4_000_000), {"crf": "20", "maxrate": "4000000", "bufsize": "8000000"}),
    (Vbr(bitrate=2_000_000), {"b": "2000000", "maxrate": "3000000", "bufsize": "6000000"}),
    (Cbr(bitrate=2_000_000), {"b": "2000000", "maxrate": "2000000", "bufsize": "2000000", "nal-hrd": "cbr"}),
]


@pytest.mark.parametrize(("rate_control", "options"), RATES)
def test_rate_control_becomes_the_encoders_options(rate_control: Any, options: dict[str, str]) -> None:
    rung = Rung(codec="h264", rate_control=rate_control).model_dump(mode="json")
    rendition = video_of({"type": "mp4", "video": rung})
    assert options.items() <= rendition.options.items()


def test_crf_off_the_encoders_scale_is_refused() -> None:
    with pytest.raises(UnsupportedSpec, match="0-51"):
        planned({"type": "mp4", "video": {"codec": "h264", "rate_control": {"mode": "crf", "crf": 60}}})


def test_mode_that_an_encoder_has_not_is_refused() -> None:
    with pytest.raises(UnsupportedSpec, match="icq"):
        planned({"type": "mp4", "video": {"codec": "av1", "rate_control": {"mode": "icq", "quality": 20}}})


@pytest.mark.parametrize(
    ("codec", "layout", "channels", "expected"),
    [
        ("aac", "2 channels", 2, "stereo"),
        ("aac", "mono", 1, "mono"),
        ("opus", "5.1(side)", 6, "5.1"),
        ("mp3", "5.1", 6, "stereo"),
        ("aac", "7.1", 8, "7.1"),
        ("flac", "4 channels", 4, "quad"),
    ],
)
def test_layouts_are_normalised_for_the_codec(codec: str, layout: str, channels: int, expected: str) -> None:
    rendition = audio_of(
        {"type": "mkv", "audio": {"codec": codec}}, source(video(), audio(layout=layout, channels=channels))
    )
    assert rendition.layout == expected


def test_channels_are_never_invented() -> None:
    rendition = audio_of({"type": "mp4", "audio": {"layout": "5.1"}})
    assert rendition.layout == "stereo"


@pytest.mark.parametrize(
    ("codec", "rate", "expected"),
    [
        ("aac", 44100, 44100),
        ("opus", 44100, 48000),
        ("mp3", 96000, 48000),
        ("flac", 192000, 192000),
        ("aac", 9000, 11025),
    ],
)
def test_sample_rates_are_the_nearest_that_the_codec_has(codec: str, rate: int, expected: int) -> None:
    of = source(video(), audio(sample_rate=rate))
    assert audio_of({"type": "mkv", "audio": {"codec": codec}}, of).sample_rate == expected


def test_all_audio_tracks_are_kept_with_one_default() -> None:
    of = source(
        video(),
        audio(index=1, position=0, language="eng"),
        audio(index=2, position=1, language="deu", default=True),
        audio(index=3, position=2, language="fra", default=True),
    )
    sounds = [r for r in only_output({"type": "mp4"}, of).renditions if r.kind == "audio"]
    assert [(r.language, r.default) for r in sounds] == [("eng", False), ("deu", True), ("fra", False)]


def test_tracks_are_chosen_by_position_and_language() -> None:
    of = source(video(), audio(index=1, position=0, language="eng"), audio(index=2, position=1, language="deu"))
    assert audio_of({"type": "mp4", "audio": {"tracks": [1]}}, of).stream == 2
    assert audio_of({"type": "mp4", "audio": {"languages": ["deu"]}}, of).stream == 2
    with pytest.raises(UnsupportedSpec, match="no track 5"):
        planned({"type": "mp4", "audio": {"tracks": [5]}}, of)


def test_track_without_decoder_never_fails_a_job_that_has_another() -> None:
    of = source(video(), audio(index=1, position=0, decodable=False, codec="ac4"), audio(index=2, position=1))
    plan = planned({"type": "mp4"}, of)
    assert [r.stream for r in plan.outputs[0].renditions] == [0, 2]
    assert [w.code for w in plan.warnings] == ["track_dropped"]


def test_data_tracks_are_left_out_with_a_warning() -> None:
    plan = planned({"type": "mp4"}, source(other=(OtherTrack(index=2, kind="data", codec="tmcd"),)))
    assert [(w.code, w.count) for w in plan.warnings] == [("track_dropped", 1)]


def test_picture_subtitles_are_dropped_with_a_warning_where_the_container_takes_none() -> None:
    pgs = SubtitleInfo(index=2, position=0, codec="hdmv_pgs_subtitle", decodable=True, kind="picture", language="eng")
    in_mp4 = planned({"type": "mp4"}, source(subtitles=(pgs,)))
    assert [w.code for w in in_mp4.warnings] == ["subtitle_dropped"]
    in_mkv = planned({"type": "mkv"}, source(subtitles=(pgs,)))
    assert isinstance(in_mkv.outputs[0].renditions[-1], CopyRendition)


def test_remux_refuses_what_the_container_cannot_carry() -> None:
    with pytest.raises(UnsupportedSpec, match="can't carry"):
        planned({"type": "copy", "format": "mp4"}, source(video(codec="vp8"), audio()))
    with pytest.raises(UnsupportedSpec, match=r"can't carry dvvideo as it is; transcode the video$"):
        planned({"type": "copy", "format": "mkv"}, source(video(codec="dvvideo"), audio()))


def test_matroska_takes_copies_of_what_its_muxer_has_a_name_for() -> None:
    plan = planned(
        {"type": "copy", "format": "mkv"}, source(video(codec="ffv1"), audio(codec="pcm_alaw"), audio(codec="dts"))
    )
    assert [r.codec for r in plan.outputs[0].renditions if isinstance(r, CopyRendition)] == ["ffv1", "dts"]
    assert [warning.code for warning in plan.warnings] == ["track_dropped"]


def test_clip_beyond_the_end_is_refused() -> None:
    with pytest.raises(UnsupportedSpec, match="starts at"):
        planned({"type": "mp4"}, input={"clip": {"start": 61}})


def test_the_same_track_is_decoded_once_for_several_outputs() -> None:
    spec = FileJob.model_validate({"input": {"path": "in"}, "outputs": [{"type": "mp4"}, {"type": "webm"}]})
    from pipelines.plan import plan
    from tests.pipelines.facts import SOFTWARE

    assert [d.stream for d in plan(spec, source(), SOFTWARE).decode] == [0, 1]


def test_a_plan_is_pure_and_survives_json() -> None:
    first, second = planned({"type": "mp4"}), planned({"type": "mp4"})
    assert first == second
    assert type(first).model_validate_json(first.model_dump_json()) == first


@pytest.mark.parametrize(
    "output",
    [
        {"type": "webm", "video": {"codec": "h264"}},
        {"type": "mov", "audio": {"codec": "opus"}},
        {"type": "mp4", "name": "../x"},
        {"type": "mp4", "name": "/etc/x"},
        {"type": "mp4", "name": "tee:x"},
        {"type": "mp4", "video": {"frame_rate": "1/0"}},
        {"type": "mp4", "video": {"x264-params": "stats=/tmp/x"}},
        {"type": "audio", "format": "opus", "audio": {"codec": "aac"}},
        {"type": "mp4", "video": None, "audio": None},
        {"type": "exe"},
    ],
)
def test_bad_outputs_are_refused_by_the_spec(output: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FileJob.model_validate({"input": {"path": "in"}, "outputs": [output]})


def test_outputs_without_names_get_different_ones() -> None:
    spec = FileJob.model_validate({"input": {"path": "in"}, "outputs": [{"type": "mp4"}, {"type": "mp4"}]})
    assert [o.name for o in spec.outputs or ()] == ["output-1", "output-2"]


@pytest.mark.parametrize(
    ("given", "exact"), [(29.97, "30000/1001"), ("23.976", "24000/1001"), (25, "25"), ("24000/1001", "24000/1001")]
)
def test_ntsc_rates_are_exact(given: Any, exact: str) -> None:
    assert Rung(frame_rate=given).model_dump(mode="json")["frame_rate"] == exact
