"""Probe tells what is in a file: compared by equality on media whose facts are known."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import pytest

from pipelines.errors import BadInput, LimitExceeded, NoFrames
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.probe import probe
from pipelines.source import (
    AudioInfo,
    Chapter,
    Colour,
    MasteringDisplay,
    OtherTrack,
    SourceInfo,
    SubtitleInfo,
    VideoInfo,
)
from tests.media import Mark, Subtitles, Tone, make_audio, make_picture, make_video

SHORT = Fraction(2, 5)


def facts(path: Path, limits: Limits | None = None) -> SourceInfo:
    return probe(LocalFile(path, path.name), limits or Limits())


def without_rates(track: Any) -> Any:
    """A track without its bit rate, which depends on the encoder."""
    return track.model_copy(update={"bit_rate": None})


def test_an_mp4_with_everything(tmp_path: Path) -> None:
    path = make_video(
        tmp_path / "all.mp4",
        seconds=2,
        audio=(Tone(language="eng", title="Main", default=True), Tone(layout="5.1", language="deu", title="Ton")),
        subtitles=(Subtitles(codec="mov_text", language="fra"),),
        cover=True,
        chapters=(Mark(0, 1, "one"), Mark(1, 2, "zwei ü")),
        metadata={"title": "Clip", "artist": "Nobody"},
    )
    source = facts(path)
    common = {"decodable": True, "start_seconds": 0.0, "duration_seconds": 2.0}
    assert [without_rates(track) for track in source.video] == [
        VideoInfo(
            **common, index=0, position=0, codec="h264", default=True, profile="Constrained Baseline", width=320,
            height=240, pixel_format="yuv420p", frame_rate=Fraction(25), frame_count=50, time_base=Fraction(1, 12800),
            field_order="progressive", interlacing="progressive", keyframe_seconds=1.96,
        )
    ]  # fmt: skip
    assert [without_rates(track) for track in source.audio] == [
        AudioInfo(
            **common, index=1, position=0, codec="aac", language="eng", title="Main", default=True, sample_rate=48_000,
            channels=2, layout="stereo", sample_format="fltp",
        ),
        AudioInfo(
            **common, index=2, position=1, codec="aac", language="deu", title="Ton", sample_rate=48_000, channels=6,
            layout="5.1", sample_format="fltp",
        ),
    ]  # fmt: skip
    assert [(s.codec, s.kind, s.language) for s in source.subtitles] == [("mov_text", "text", "fra")]
    assert [(p.codec, p.width, p.height) for p in source.pictures] == [("mjpeg", 64, 64)]
    assert source.other == (OtherTrack(index=4, kind="data", codec="bin_data"),)
    assert source.chapters == (
        Chapter(start_seconds=0.0, end_seconds=1.0, title="one"),
        Chapter(start_seconds=1.0, end_seconds=2.0, title="zwei ü"),
    )
    assert (source.metadata["title"], source.metadata["artist"]) == ("Clip", "Nobody")
    assert (source.duration_seconds, source.start_seconds) == (2.0, 0.0)
    assert source.size_bytes == path.stat().st_size


def test_a_matroska_with_everything(tmp_path: Path) -> None:
    path = make_video(
        tmp_path / "all.mkv",
        audio=(Tone("opus", language="eng"), Tone("flac", language="und")),
        subtitles=(Subtitles(language="eng", forced=True), Subtitles(codec="ass")),
        attachments=(("font.ttf", "font/ttf", b"not a font"),),
        cover=True,
    )
    source = facts(path)
    assert [(a.codec, a.language, a.layout, a.bits_per_sample) for a in source.audio] == [
        ("opus", "eng", "stereo", None),
        ("flac", None, "stereo", 16),
    ]
    assert [(s.codec, s.kind, s.forced) for s in source.subtitles] == [("subrip", "text", True), ("ass", "text", False)]
    assert isinstance(source.subtitles[0], SubtitleInfo)
    assert len(source.video) == len(source.pictures) == 1
    assert [(o.kind, o.codec) for o in source.other] == [("attachment", "font/ttf")]


@pytest.mark.parametrize("container", ["mp4", "mkv"])
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_rotation_and_mirror_are_told_clockwise(tmp_path: Path, rotation: int, mirrored: bool, container: str) -> None:
    path = make_video(tmp_path / f"a.{container}", rotation=rotation, mirrored=mirrored, seconds=SHORT, audio=())
    video = facts(path).video[0]
    assert (video.rotation, video.mirrored) == (rotation, mirrored)
    expected = (240, 320) if rotation in (90, 270) else (320, 240)
    assert video.display_size == expected


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
def test_sample_aspect_ratio_is_told(tmp_path: Path, container: str) -> None:
    path = make_video(tmp_path / f"a.{container}", sar=Fraction(4, 3), seconds=SHORT, audio=())
    assert facts(path).video[0].sample_aspect_ratio == Fraction(4, 3)


def test_hdr10_is_told_with_its_mastering_display(tmp_path: Path) -> None:
    x265 = (
        "hdr10=1:repeat-headers=1:max-cll=1000,400:"
        "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50)"
    )
    tags = Colour(primaries="bt2020", transfer="smpte2084", matrix="bt2020nc", range="tv")
    path = make_video(
        tmp_path / "hdr.mp4", codec="hevc", pixel_format="yuv420p10le", colour=tags, options={"x265-params": x265},
        seconds=SHORT, audio=(),
    )  # fmt: skip
    video = facts(path).video[0]
    assert (video.pixel_format, video.bit_depth, video.profile) == ("yuv420p10le", 10, "Main 10")
    assert video.colour == tags.model_copy(
        update={
            "mastering_display": MasteringDisplay(
                green=(13250, 34500), blue=(7500, 3000), red=(34000, 16000), white=(15635, 16450),
                max_luminance=10_000_000, min_luminance=50,
            ),
            "max_cll": (1000, 400),
        }
    )  # fmt: skip
    assert video.colour.is_hdr


@pytest.mark.parametrize("range_", ["tv", "pc"])
def test_colour_tags_are_told_by_name(tmp_path: Path, range_: Literal["tv", "pc"]) -> None:
    tags = Colour(primaries="smpte170m", transfer="bt709", matrix="bt470bg", range=range_)
    path = make_video(tmp_path / "a.mp4", colour=tags, seconds=SHORT, audio=())
    assert facts(path).video[0].colour == tags


def test_untagged_colours_are_none(tmp_path: Path) -> None:
    assert facts(make_video(tmp_path / "a.mp4", seconds=SHORT, audio=())).video[0].colour == Colour()


def test_yuvj_is_full_range(tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.avi", codec="mjpeg", pixel_format="yuvj420p", seconds=SHORT, audio=())
    assert facts(path).video[0].colour.range == "pc"


@pytest.mark.parametrize(("field", "order"), [("top", "tt"), ("bottom", "bb")])
@pytest.mark.parametrize("codec", ["h264", "mpeg2video"])
def test_field_order_is_told_and_the_rate_is_that_of_frames(
    tmp_path: Path, codec: str, field: Literal["top", "bottom"], order: str
) -> None:
    video = facts(make_video(tmp_path / "a.ts", codec=codec, interlaced=field, audio=())).video[0]
    assert (video.field_order, video.frame_rate) == (order, 25)


def test_channels_and_pcm_depth_are_told(tmp_path: Path) -> None:
    path = make_audio(tmp_path / "a.mov", tracks=(Tone("pcm_s24le", "5.1"), Tone("pcm_s16be", "mono")), seconds=SHORT)
    told = [(a.codec, a.channels, a.layout, a.bits_per_sample) for a in facts(path).audio]
    assert told == [("pcm_s24le", 6, "5.1", 24), ("pcm_s16be", 1, "mono", 16)]


@pytest.mark.parametrize("extension", ["mp3", "m4a", "flac"])
def test_cover_art_is_no_video(tmp_path: Path, extension: str) -> None:
    source = facts(make_audio(tmp_path / f"a.{extension}", cover=True))
    assert (len(source.video), len(source.audio), len(source.pictures)) == (0, 1, 1)


def test_live_webm_has_no_duration(tmp_path: Path) -> None:
    path = make_video(
        tmp_path / "a.webm", codec="vp9", audio=(Tone("opus"),), container_options={"live": "1"}, seconds=SHORT
    )
    source = facts(path)
    assert source.duration_seconds is None
    assert source.video[0].decodable


def test_a_still_picture_has_one_track_and_no_duration(tmp_path: Path) -> None:
    source = facts(make_picture(tmp_path / "a.png"))
    assert (source.duration_seconds, source.video[0].pixel_format, source.video[0].decodable) == (None, "rgb24", True)


def test_start_is_that_of_the_earliest_track(tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.mkv", start=Fraction(3), audio=(Tone("flac", start=Fraction(1, 2)),))
    source = facts(path)
    assert source.start_seconds == source.video[0].start_seconds == 3.0
    assert source.audio[0].start_seconds == 3.5
    assert source.duration_seconds == pytest.approx(2.5, abs=0.05)  # not 5.5, as Matroska counts it


def test_metadata_of_any_encoding_survives_without_controls(tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.mkv", seconds=SHORT, metadata={"title": "AAAAAAAA", "artist": "a\r\nb\x1b[31mc"})
    path.write_bytes(path.read_bytes().replace(b"AAAAAAAA", b"\xff\xfe\x80A\x01\x0d\x0aA"))
    metadata = facts(path).metadata
    assert metadata["title"].endswith("A A")
    assert metadata["ARTIST"] == "a b [31mc"
    assert all(character.isprintable() for value in metadata.values() for character in value)


def test_a_language_that_is_none_is_dropped(tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.mkv", seconds=SHORT, audio=(Tone("flac", language='"><x>'),))
    assert facts(path).audio[0].language is None


def test_facts_survive_json(tmp_path: Path) -> None:
    source = facts(make_video(tmp_path / "a.mp4", rate=Fraction(30_000, 1001), seconds=SHORT))
    assert SourceInfo.model_validate_json(source.model_dump_json()) == source


def test_data_without_pictures_or_sound_is_bad_input(tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.mkv", seconds=SHORT, audio=())
    path.write_bytes(path.read_bytes().replace(b"V_MPEG4/ISO/AVC", b"V_NOSUCHCODEC!!"))
    with pytest.raises(BadInput) as refused:
        facts(path)
    assert (refused.value.code, refused.value.stage) == ("bad_input", "probe")


def test_a_track_without_decoder_does_not_fail_the_others(tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.mkv", seconds=SHORT, audio=(Tone("flac"), Tone("opus")))
    path.write_bytes(path.read_bytes().replace(b"A_OPUS", b"A_NONE"))
    source = facts(path)
    assert [(a.codec, a.decodable) for a in source.audio] == [("flac", True), ("unknown", False)]


def test_tracks_that_give_no_frame_are_no_frames(tmp_path: Path) -> None:
    path = make_video(tmp_path / "a.mp4", seconds=SHORT, audio=())
    data = path.read_bytes()
    start = data.index(b"mdat") + 4
    end = data.index(b"moov") - 4
    path.write_bytes(data[:start] + bytes(end - start) + data[end:])
    with pytest.raises(NoFrames):
        facts(path)


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(max_duration_seconds=1), "limit_duration"),
        (Limits(max_work=320 * 240 * 40), "limit_work"),
        (Limits(max_pixels=320 * 239), "limit_pixels"),
        (Limits(max_streams=1), "limit_streams"),
        (Limits(max_frame_rate=20), "limit_fps"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_limit_has_its_code(tmp_path: Path, limits: Limits, code: str) -> None:
    path = make_video(tmp_path / "a.mp4", seconds=2)
    assert facts(path).duration_seconds == 2.0
    with pytest.raises(LimitExceeded) as refused:
        facts(path, limits)
    assert refused.value.code == code


EXIF_ORIENTATIONS = {1: (0, False), 3: (180, False), 6: (90, False), 8: (270, False)}


@pytest.mark.parametrize("orientation", EXIF_ORIENTATIONS)
def test_exif_orientation_turns_a_photograph(tmp_path: Path, orientation: int) -> None:
    path = make_picture(tmp_path / "a.jpg", codec="mjpeg", pixel_format="yuvj420p")
    entry = struct.pack("<HHIHH", 0x0112, 3, 1, orientation, 0)
    exif = b"Exif\x00\x00II*\x00" + struct.pack("<IH", 8, 1) + entry + bytes(4)
    data = path.read_bytes()
    path.write_bytes(data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:])
    video = facts(path).video[0]
    assert (video.rotation, video.mirrored) == EXIF_ORIENTATIONS[orientation]
