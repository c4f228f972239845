"""HLS: playlists by the rules, cuts at the same times, segments that stand alone."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.hls_rules import Multivariant, check_multivariant
from tests.ladders import form, frame_times, make_ladder, rung, starts, whole
from tests.measure import click_times, decode_audio, decode_video, flash_times, psnr
from tests.media import Subtitles, Tone, make_audio, make_flash_click, make_video

NTSC = Fraction(1001, 1000)
AAC_FRAME = Fraction(1024, 48_000)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(
        tmp_path_factory.mktemp("source") / "in.mkv",
        size=(320, 180),
        seconds=7,
        audio=(Tone(language="eng", title='The "best" & <loudest>'), Tone(language="fra", layout="mono")),
        subtitles=(Subtitles(cues=((0.5, 2.5, "First"), (2.5, 6.2, "a --> b")), language="ger"),),
    )


LADDER: dict[str, Any] = {"segment_seconds": 2, "video": [rung(180), rung(90, gop_seconds=1)]}


@pytest.fixture(
    scope="module",
    params=[{"type": "hls"}, {"type": "hls", "single_file": True}, {"type": "hls", "segment_type": "ts"}],
    ids=["fmp4", "one file", "ts"],
)
def ladder(request: pytest.FixtureRequest, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Multivariant:
    folder = tmp_path_factory.mktemp("ladder")
    make_ladder(source, folder, {**LADDER, **request.param})
    return check_multivariant(folder / "output" / "index.m3u8")


@pytest.mark.slow
def test_variants_say_what_they_are(ladder: Multivariant) -> None:
    facts = [facts for facts, _ in ladder.variants]
    assert [each["RESOLUTION"] for each in facts] == ["320x180", "160x90"]
    assert {each["FRAME-RATE"] for each in facts} == {"25.0"}
    assert {each["VIDEO-RANGE"] for each in facts} == {"SDR"}
    assert all(each["CODECS"].startswith("avc1.42C0") and each["CODECS"].endswith(",mp4a.40.2") for each in facts)


def test_sound_is_a_group_with_languages_names_and_one_default(ladder: Multivariant) -> None:
    sounds = [facts for facts, _ in ladder.alternatives if facts["TYPE"] == "AUDIO"]
    told = [(each["LANGUAGE"], each["NAME"], each["DEFAULT"], each["CHANNELS"]) for each in sounds]
    assert told == [("en", "The 'best' & <loudest>", "YES", "2"), ("fr", "fr", "NO", "1")]


def test_all_rungs_are_cut_at_the_same_times(ladder: Multivariant) -> None:
    cuts = [starts(media) for _, media in ladder.variants]
    assert cuts[0] == cuts[1]
    first = cuts[0][0]
    assert [cut - first for cut in cuts[0]] == [0, 2, 4, 6]


def test_listed_durations_are_those_of_the_pictures(ladder: Multivariant) -> None:
    for _, media in ladder.variants:
        assert [entry.seconds for entry in media.entries] == [2, 2, 2, 1]


def test_every_segment_begins_with_an_idr_and_no_picture_is_lost(ladder: Multivariant) -> None:
    for _, media in ladder.variants:
        for entry in media.entries:
            with av.open(io.BytesIO(media.read(entry)), "r", format=form(media)) as container:
                assert next(container.demux(video=0)).is_keyframe
        counts = [len(frame_times(media, number)) for number in range(len(media.entries))]
        assert counts == [50, 50, 50, 25]


def test_sound_is_cut_within_a_frame_of_the_pictures(ladder: Multivariant) -> None:
    _, pictures = ladder.variants[0]
    for facts, media in ladder.alternatives:
        if facts["TYPE"] == "AUDIO":
            assert len(media.entries) == len(pictures.entries)
            pairs = zip(starts(media), starts(pictures), strict=True)
            assert all(0 <= sound - picture <= AAC_FRAME for sound, picture in pairs)


def test_iframe_playlists_list_pictures_that_decode_alone(ladder: Multivariant) -> None:
    assert len(ladder.iframes) == 2
    for _, media in ladder.iframes:
        assert media.seconds == 7
        for entry in media.entries:
            with av.open(io.BytesIO(media.read(entry)), "r", format=form(media)) as container:
                assert len(list(container.decode(video=0))) == 1


def test_subtitles_are_segments_on_the_clock_of_the_pictures(ladder: Multivariant) -> None:
    [(facts, media)] = [(facts, media) for facts, media in ladder.alternatives if facts["TYPE"] == "SUBTITLES"]
    assert facts["LANGUAGE"] == "de"
    texts = [entry.path.read_text() for entry in media.entries]
    assert ["First" in text for text in texts] == [True, True, False, False]
    assert ["a --&gt; b" in text for text in texts] == [False, True, True, True]
    clock = starts(ladder.variants[0][1])[0] * 90_000
    assert clock == (900_000 if form(ladder.variants[0][1]) == "mpegts" else 0)
    assert all(f"X-TIMESTAMP-MAP=MPEGTS:{clock},LOCAL:00:00:00.000" in text for text in texts)


RATES = {
    "23.976": {"rate": 24 / NTSC},
    "29.97": {"rate": 30 / NTSC},
    "59.94": {"rate": 60 / NTSC},
    "variable": {
        "timestamps": [Fraction(number * number % 7 + 40 * number, 1000) for number in range(150)],
        "end": Fraction(6),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_cuts_are_the_first_pictures_of_each_cell_at_any_rate(tmp_path: Path, rate: str, codec: str) -> None:
    path = make_video(tmp_path / "in.mp4", size=(128, 72), seconds=6, audio=(), **RATES[rate])
    rungs = [rung(72, codec=codec), rung(48, codec=codec, speed="veryfast", rate_control={"mode": "crf", "crf": 40})]
    make_ladder(path, tmp_path, {"type": "hls", "segment_seconds": 2, "video": rungs})
    ladder = check_multivariant(tmp_path / "output" / "index.m3u8")
    times = decode_video(path).times
    expected = [next(t - times[0] for t in times if t - times[0] >= 2 * cell) for cell in range(3)]
    for _, media in ladder.variants:
        pairs = zip(starts(media), expected, strict=True)
        assert all(abs(found - wanted) < Fraction(1, 1000) for found, wanted in pairs)


@pytest.mark.parametrize("kind", ["fmp4", "ts"])
def test_flash_and_click_stay_together(tmp_path: Path, kind: str) -> None:
    times = tuple(Fraction(n, 2) for n in (1, 4, 7))
    path = make_flash_click(tmp_path / "in.mp4", times=times, seconds=5)
    make_ladder(path, tmp_path, {"type": "hls", "segment_type": kind, "segment_seconds": 2, "video": [rung(240)]})
    ladder = check_multivariant(tmp_path / "output" / "index.m3u8")
    suffix = "ts" if kind == "ts" else "mp4"
    flashes = flash_times(whole(ladder.variants[0][1], tmp_path / f"video.{suffix}"))
    clicks = click_times(whole(ladder.alternatives[0][1], tmp_path / f"sound.{suffix}"))
    assert len(flashes) == len(clicks) == 3
    assert all(abs(float(flash) - click) <= float(AAC_FRAME) for flash, click in zip(flashes, clicks, strict=True))


@pytest.mark.slow
def test_sound_alone_is_a_variant_of_its_own(source: Path, tmp_path: Path) -> None:
    make_ladder(source, tmp_path, {"type": "hls", "video": None, "subtitles": None})
    ladder = check_multivariant(tmp_path / "output" / "index.m3u8")
    [(facts, _)] = ladder.variants
    assert facts["CODECS"] == "mp4a.40.2"
    assert [each["LANGUAGE"] for each, _ in ladder.alternatives] == ["en", "fr"]


def test_a_clip_begins_at_zero(source: Path, tmp_path: Path) -> None:
    output = {"type": "hls", "segment_seconds": 2, "video": [rung(90)]}
    make_ladder(source, tmp_path, output, input={"clip": {"start": 1.5, "end": 5}})
    ladder = check_multivariant(tmp_path / "output" / "index.m3u8")
    _, media = ladder.variants[0]
    # the picture on screen at 1.5 s, and the first one after 3.5 s
    assert starts(media) == [0, Fraction("2.02")]
    assert media.seconds == Fraction(7, 2)


@pytest.mark.slow
def test_a_copied_rung_keeps_its_packets_and_the_others_stay_in_step(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", size=(320, 180), seconds=6, gop=50, b_frames=2, bit_rate=300_000)
    rungs = [rung(180, codec="h264", rate_control={"mode": "crf", "crf": 23}), rung(90)]
    output = {"type": "cmaf", "segment_seconds": 2, "video": rungs, "copy_if_fits": True}
    result = make_ladder(path, tmp_path, output)
    ladder = check_multivariant(tmp_path / "output" / "index.m3u8")
    copied, encoded, *_ = result.outputs[0].renditions
    assert (copied.encoder, encoded.encoder) == (None, "libx264")
    assert [starts(media) for _, media in ladder.variants] == [[0, 2, 4], [0, 2, 4]]
    first = decode_video(whole(ladder.variants[0][1], tmp_path / "copied.mp4"))
    assert psnr(decode_video(path), first) == float("inf")
    assert copied.packets == 150


def test_pictures_without_sound_and_sound_without_pictures_are_ladders(tmp_path: Path) -> None:
    silent = make_video(tmp_path / "in.mp4", size=(128, 72), seconds=2, audio=())
    make_ladder(silent, tmp_path / "silent", {"type": "hls", "segment_seconds": 1})
    ladder = check_multivariant(tmp_path / "silent" / "output" / "index.m3u8")
    assert (len(ladder.variants), ladder.alternatives) == (1, [])
    song = make_audio(tmp_path / "in.flac", cover=False)
    make_ladder(song, tmp_path / "song", {"type": "hls", "segment_seconds": 1})
    ladder = check_multivariant(tmp_path / "song" / "output" / "index.m3u8")
    assert [facts["CODECS"] for facts, _ in ladder.variants] == ["mp4a.40.2"]


@pytest.mark.slow
def test_a_track_that_begins_later_stays_later(tmp_path: Path) -> None:
    late = Tone(start=Fraction(3, 2))
    path = make_video(tmp_path / "in.mkv", size=(128, 72), seconds=4, audio=(late,))
    make_ladder(path, tmp_path, {"type": "hls", "segment_seconds": 2, "video": [rung(72, speed="veryfast")]})
    ladder = check_multivariant(tmp_path / "output" / "index.m3u8")
    sound = decode_audio(whole(ladder.alternatives[0][1], tmp_path / "sound.mp4"))
    level = np.abs(sound.samples).max(axis=0)
    heard = float(sound.start) + int(np.flatnonzero(level > 0.01)[0]) / sound.sample_rate
    assert heard == pytest.approx(1.5, abs=float(2 * AAC_FRAME))
    assert starts(ladder.variants[0][1])[0] == 0
