"""CODECS strings, against what encoders write, what muxers record and what other programs say."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import Any

import av
import pytest

from pipelines.packaging.codecs import Shape, codec_string, nal_units, without_emulation
from pipelines.scheduling import ordinary_threads


@ordinary_threads()
def opened(encoder: str, **options: str) -> Any:
    container = av.open(io.BytesIO(), "w", format="mp4")
    stream: Any = container.add_stream(encoder, rate=25, width=320, height=240, options=options)
    stream.pix_fmt = options.pop("pix_fmt", "yuv420p")
    stream.codec_context.open(strict=False)
    return stream.codec_context


@pytest.mark.parametrize(
    ("profile", "level", "expected"),
    [("baseline", "3.0", "avc1.42C01E"), ("main", "4.0", "avc1.4D4028"), ("high", "5.1", "avc1.640033")],
)
def test_h264_says_profile_constraints_and_level(profile: str, level: str, expected: str) -> None:
    assert codec_string("h264", bytes(opened("libx264", profile=profile, level=level).extradata)) == expected


def test_the_record_of_an_mp4_gives_the_same_as_the_parameter_sets() -> None:
    annex_b = bytes(opened("libx264", profile="high", level="3.1").extradata)
    sps = next(unit for unit in nal_units(annex_b) if unit[0] & 0x1F == 7)
    record = b"\x01" + sps[1:4] + b"\xff\xe1" + len(sps).to_bytes(2, "big") + sps
    assert codec_string("h264", record) == codec_string("h264", annex_b) == "avc1.64001F"


def test_hevc_main_is_written_as_apple_and_mozilla_document_it() -> None:
    record = bytes.fromhex("01016000000090000000000 05d".replace(" ", ""))
    assert codec_string("hevc", record) == "hvc1.1.6.L93.90"


def test_hevc_from_an_encoder_says_its_profile_tier_and_level() -> None:
    context = opened("libx265", **{"x265-params": "level-idc=4.0:high-tier=0:log-level=none"})
    assert codec_string("hevc", bytes(context.extradata)) == "hvc1.1.6.L120.90"


def test_hevc_level_bytes_that_look_like_emulation_are_read_right() -> None:
    unit = bytes.fromhex("4201 01 01 600000 03 00 9000000300000300 5d".replace(" ", ""))
    assert without_emulation(unit)[3:15] == bytes.fromhex("01600000009000000000005d")
    assert codec_string("hevc", b"\0\0\0\1" + unit) == "hvc1.1.6.L93.90"


@pytest.mark.parametrize(
    ("record", "expected"),
    [("81004c00", "av01.0.00M.10"), ("81080c00", "av01.0.08M.08"), ("812d8c00", "av01.1.13H.08")],
)
def test_av1_record_says_profile_level_tier_and_depth(record: str, expected: str) -> None:
    assert codec_string("av1", bytes.fromhex(record)) == expected


def test_av1_from_an_encoder_has_the_level_that_its_size_needs() -> None:
    extradata = bytes(opened("libsvtav1").extradata)
    assert codec_string("av1", extradata) == "av01.0.00M.08"
    assert codec_string("av1", extradata, Shape(bit_depth=10)) == "av01.0.00M.10"


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (Shape(1920, 1080, Fraction(30)), "vp09.00.40.08"),
        (Shape(1280, 720, Fraction(30)), "vp09.00.31.08"),
        (Shape(3840, 2160, Fraction(60), 10), "vp09.02.51.10"),
    ],
)
def test_vp9_has_the_lowest_level_that_takes_size_and_rate(shape: Shape, expected: str) -> None:
    assert codec_string("vp9", b"", shape) == expected


@pytest.mark.parametrize(
    ("config", "expected"), [("1190", "mp4a.40.2"), ("2b92", "mp4a.40.5"), ("f8e8", "mp4a.40.39"), ("", "mp4a.40.2")]
)
def test_aac_says_its_object_type(config: str, expected: str) -> None:
    assert codec_string("aac", bytes.fromhex(config)) == expected


def test_sound_without_profiles_has_one_name() -> None:
    named = {codec: codec_string(codec) for codec in ("mp3", "opus", "flac", "ac3", "eac3")}
    assert named == {"mp3": "mp4a.40.34", "opus": "opus", "flac": "fLaC", "ac3": "ac-3", "eac3": "ec-3"}


@pytest.mark.parametrize("codec", ["h264", "hevc", "av1", "prores"])
def test_a_track_without_headers_or_name_is_refused(codec: str) -> None:
    with pytest.raises(ValueError, match=r"without|no codec string"):
        codec_string(codec, b"\0\0\1\x09\x10")
