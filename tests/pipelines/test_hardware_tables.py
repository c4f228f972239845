"""Tables of hardware encoders and filters: every row says its mode, keeps its bounds and means what software means."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.errors import UnsupportedSpec
from pipelines.filters import Crop, Deinterlace, Flatten, Pad, Retag, Scale, ToneMap, Transpose
from pipelines.hardware.encoders import (
    API_OF,
    DRIVER_MODES,
    HARDWARE_ENCODERS,
    driver_mode,
    encoder_options,
    hardware_rate_controls,
    rate_options,
    speed_options,
)
from pipelines.hardware.filters import hardware_names, hardware_steps, needs_mastering_display
from pipelines.rate_control import Cbr, Cqp, Crf, Icq, Vbr
from pipelines.source import Colour

VIDEO = sorted(encoder for (codec, _), encoder in HARDWARE_ENCODERS.items() if codec != "mjpeg")
MODES: list[Any] = [
    Crf(crf=23), Crf(crf=23, maxrate=2_000_000), Cqp(qp=30), Icq(quality=20), Vbr(bitrate=1_000_000),
    Cbr(bitrate=1_000_000),
]  # fmt: skip


@pytest.mark.parametrize("encoder", [encoder for encoder in VIDEO if API_OF[encoder] == "vaapi"])
@pytest.mark.parametrize("mode", MODES)
def test_vaapi_is_always_told_its_mode(encoder: str, mode: Any) -> None:
    options = rate_options(encoder, mode)
    assert options["rc_mode"] == str(driver_mode(encoder, mode)).upper()


@pytest.mark.parametrize("encoder", VIDEO)
@pytest.mark.parametrize("mode", [Vbr(bitrate=1_000_000), Cbr(bitrate=1_000_000), Crf(crf=23, maxrate=2_000_000)])
def test_bitrates_have_their_bounds(encoder: str, mode: Any) -> None:
    options = rate_options(encoder, mode)
    assert int(options["b"]) <= int(options["maxrate"])
    assert int(options["bufsize"]) > 0
    cap = mode.maxrate if isinstance(mode, Crf) else None
    assert cap is None or int(options["maxrate"]) == cap


def test_qsv_takes_variable_for_variable_though_both_rates_are_equal() -> None:
    options = rate_options("h264_qsv", Vbr(bitrate=1_000_000, maxrate=1_000_000))
    assert options["maxrate"] != options["b"]


@pytest.mark.parametrize(
    ("mode", "modes", "expected"),
    [
        (Crf(crf=23), DRIVER_MODES, "icq"),
        (Crf(crf=23), ("cqp", "vbr"), "cqp"),
        (Crf(crf=23, maxrate=2_000_000), DRIVER_MODES, "qvbr"),
        (Crf(crf=23, maxrate=2_000_000), ("cqp", "icq", "vbr"), "vbr"),
        (Crf(crf=23, maxrate=2_000_000), ("cqp", "icq"), None),
        (Vbr(bitrate=1_000_000), ("cqp",), None),
        (Icq(quality=20), ("cqp",), "cqp"),
    ],
)
def test_the_best_mode_that_a_driver_has_is_taken(mode: Any, modes: tuple[str, ...], expected: str | None) -> None:
    assert driver_mode("h264_vaapi", mode, modes) == expected
    if expected is None:
        with pytest.raises(UnsupportedSpec):
            rate_options("h264_vaapi", mode, modes)


def test_a_gpu_without_its_firmware_has_constant_quality_alone() -> None:
    assert hardware_rate_controls("h264_vaapi", ("cqp",)) == ("crf", "cqp", "icq")
    assert hardware_rate_controls("h264_vaapi", DRIVER_MODES) == ("crf", "cqp", "icq", "vbr", "cbr")


@pytest.mark.parametrize("encoder", VIDEO)
def test_a_higher_crf_is_never_finer(encoder: str) -> None:
    for modes in (("icq",), ("cqp",)):
        end = 64 if encoder.startswith(("av1", "vp9")) else 52
        numbers = [int(rate_options(encoder, Crf(crf=crf), modes)["global_quality"]) for crf in range(end)]
        assert numbers == sorted(numbers)
        assert numbers[0] >= 1


@pytest.mark.parametrize(("encoder", "crf"), [("h264_vaapi", 52), ("hevc_qsv", 52)])
def test_quality_beyond_the_scale_is_refused_as_in_software(encoder: str, crf: float) -> None:
    with pytest.raises(UnsupportedSpec, match="above"):
        rate_options(encoder, Crf(crf=crf))


@pytest.mark.parametrize("encoder", VIDEO)
def test_fast_speeds_wait_for_nothing(encoder: str) -> None:
    fast, slow = speed_options(encoder, "ultrafast"), speed_options(encoder, "slow")
    assert (fast["async_depth"], fast["bf"]) == ("1", "0")
    assert int(slow["async_depth"]) > 1
    assert "look_ahead_depth" not in fast


def test_flags_of_several_parts_are_joined() -> None:
    options = encoder_options("h264_qsv", Cqp(qp=20), "medium", 50, Colour())
    assert options["flags"] == "+qscale+cgop"


SCALE = Scale(width=640, height=360, pixel_format="nv12", in_matrix="bt709", out_matrix="bt709")
PQ_MAP = ToneMap(width=640, height=360, pixel_format="nv12", transfer="smpte2084")


@pytest.mark.parametrize(
    ("step", "names"),
    [
        (SCALE, ("scale_vaapi",)),
        (SCALE.model_copy(update={"in_matrix": None}), None),
        (Deinterlace(), ("deinterlace_vaapi",)),
        (Crop(width=2, height=2), ("scale_vaapi",)),
        (Transpose(degrees=90), ("transpose_vaapi",)),
        (Pad(width=2, height=2), ("pad_vaapi",)),
        (PQ_MAP, ("tonemap_vaapi", "scale_vaapi")),
        (PQ_MAP.model_copy(update={"transfer": "arib-std-b67"}), None),
        (Flatten(), None),
        (Retag(progressive=True), ()),
    ],
)
def test_each_filter_names_what_it_needs_of_the_gpu(step: Any, names: tuple[str, ...] | None) -> None:
    assert hardware_names(step) == names
    assert needs_mastering_display(step) == isinstance(step, ToneMap)


def test_colours_that_stay_are_not_converted() -> None:
    (_, options) = hardware_steps([SCALE])[-1]
    assert options == {"w": "640", "h": "360", "format": "nv12"}
    changed = SCALE.model_copy(update={"in_matrix": "smpte170m", "in_range": "pc", "out_range": "tv"})
    (_, options) = hardware_steps([changed])[-1]
    assert (options["out_color_matrix"], options["out_range"]) == ("bt709", "tv")


def test_look_ahead_is_asked_for_where_it_was_measured_and_pictures_may_wait() -> None:
    rate = Vbr(bitrate=1_000_000)
    ahead = encoder_options("h264_qsv", rate, "slow", 50, Colour(), ("vbr",), ("vbr",))
    assert (ahead["look_ahead_depth"], ahead["extbrc"]) == ("40", "1")
    for speed, measured in (("slow", ()), ("slow", ("cbr",)), ("ultrafast", ("vbr",))):
        plain = encoder_options("h264_qsv", rate, speed, 50, Colour(), ("vbr",), measured)
        assert {"look_ahead_depth", "extbrc", "adaptive_i"}.isdisjoint(plain)


@pytest.mark.parametrize("encoder", ["mjpeg_vaapi", "mjpeg_qsv"])
def test_quality_of_jpeg_is_in_percent_on_both_apis(encoder: str) -> None:
    assert rate_options(encoder, Cqp(qp=1)) == {"global_quality": "100"}
    assert rate_options(encoder, Cqp(qp=31)) == {"global_quality": "10"}
