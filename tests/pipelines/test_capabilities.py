"""From the results of checks to what a device can do."""

from __future__ import annotations

from pipelines.capabilities import Support, checks, measured, support, unmeasured, unopened
from pipelines.hardware.discovery import Found
from pipelines.library_log import constraints, reason
from pipelines.trials.checks import CheckResult, DecodeCheck, EncodeCheck, FilterCheck

FOUND = Found(id="pci-0000:03:00.0", node="/dev/dri/renderD128", name="A GPU", pci_address="0000:03:00.0")
DECODE = DecodeCheck(codec="hevc", bit_depth=10, pixel_format="yuv420p10le", software_encoder="libx265")
ENCODE = EncodeCheck(codec="hevc", encoder="hevc_vaapi", api="vaapi", bit_depth=10)
SCALE, OVERLAY = FilterCheck(filter="scale_vaapi"), FilterCheck(filter="overlay_vaapi")
REFUSED = CheckResult(works=False, reason="no")
FULL = Support(vaapi=True, graphs=True)


def test_what_works_becomes_a_capability_and_what_does_not_is_not_there() -> None:
    device = measured(
        unmeasured(FOUND, 4, FULL),
        "a driver",
        {
            DECODE: CheckResult(works=True, max_size=(8192, 8192)),
            ENCODE: CheckResult(works=True, rate_controls=("cqp", "vbr"), min_size=(128, 128)),
            ENCODE.model_copy(update={"bit_depth": 8}): REFUSED,
            SCALE: CheckResult(works=True),
            OVERLAY: REFUSED,
        },
    )
    assert device.driver == "a driver"
    assert device.filters == ("scale_vaapi",)
    assert len(device.capabilities) == 2
    decoder, encoder = device.decoder("hevc", "yuv420p10le"), device.encoder("hevc_vaapi")
    assert decoder is not None
    assert encoder is not None
    assert (decoder.api, decoder.bit_depth, decoder.max_size) == ("vaapi", 10, (8192, 8192))
    assert (encoder.rate_controls, encoder.pixel_formats, encoder.min_size) == (("cqp", "vbr"), ("p010le",), (128, 128))
    assert device.decoder("hevc", "yuv420p") is None


def test_a_decoder_takes_full_range_as_well() -> None:
    check = DecodeCheck(codec="mjpeg", pixel_format="yuvj420p", software_encoder="mjpeg")
    device = measured(unmeasured(FOUND, 1, FULL), None, {check: CheckResult(works=True)})
    assert device.decoder("mjpeg", "yuvj420p") == device.decoder("mjpeg", "yuv420p") is not None


def test_a_gpu_that_can_nothing_has_a_problem() -> None:
    device = measured(unmeasured(FOUND, 1, FULL), "a driver", {ENCODE: REFUSED, SCALE: CheckResult(works=True)})
    assert device.problem is not None


def test_a_driver_that_does_not_open_is_said_with_its_reason() -> None:
    device = unopened(unmeasured(FOUND, 1, FULL), "unknown libva error")
    assert "unknown libva error" in str(device.problem)
    assert "vainfo" in str(device.problem)


def test_a_gpu_is_not_used_where_pyav_has_no_vaapi() -> None:
    assert "PyAV" in str(unmeasured(FOUND, 1, Support(vaapi=False, graphs=False)).problem)
    assert unmeasured(FOUND, 1, Support(vaapi=True, graphs=False)).problem is None


def test_what_is_wrong_with_the_node_comes_before_what_is_wrong_with_pyav() -> None:
    found = FOUND.model_copy(update={"problem": "may not be opened"})
    assert unmeasured(found, 1, Support(vaapi=False, graphs=False)).problem == "may not be opened"


def test_without_graphs_of_surfaces_neither_filters_nor_qsv_are_tried_and_a_note_says_so() -> None:
    plain = Support(vaapi=True, graphs=False)
    kinds = {check.kind for check in checks(plain)}
    apis = {check.api for check in checks(plain) if isinstance(check, EncodeCheck)}
    assert "filter" not in kinds
    assert "qsv" not in apis
    assert any("filter graphs" in note for note in unmeasured(FOUND, 1, plain).notes)
    assert unmeasured(FOUND, 1, FULL).notes == ()


def test_only_what_this_build_can_make_is_decoded() -> None:
    encoders = {check.software_encoder for check in checks(FULL) if isinstance(check, DecodeCheck)}
    assert {"libx264", "libx265", "mpeg2video"} <= encoders


def test_what_pyav_can_is_found_out_without_a_gpu() -> None:
    assert isinstance(support().graphs, bool)


def test_limits_are_read_from_what_ffmpeg_says() -> None:
    text = (
        "[h264_vaapi @ 0x34644f00] Hardware does not support encoding at size 16x16 "
        "(constraints: width 32-4096 height 48-2304).\n"
    )
    assert constraints(text) == ((32, 48), (4096, 2304))
    assert constraints("something else") == (None, None)


def test_the_reason_is_what_ffmpeg_said_first() -> None:
    text = (
        "[VAAPI @ 0x10793c00] libva: vaGetDriverNames() failed with unknown libva error\n"
        "[av1_vaapi @ 0x34644f00] No usable encoding profile found.\n"
        "[out#0 @ 0x34644f01] Nothing was written\n"
    )
    assert reason(text) == "No usable encoding profile found."
    assert reason("") is None
