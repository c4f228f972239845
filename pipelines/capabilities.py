"""What a GPU can do: which checks there are, and the device that follows from their results. Pure.

Each check is for a process of its own, so that a driver that crashes or hangs costs one answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import av
from av.codec.hwaccel import hwdevices_available
from av.filter import Graph

from pipelines.devices import Capability, Device, HardwareApi
from pipelines.hardware.discovery import Found
from pipelines.hardware.encoders import LOOKS_AHEAD
from pipelines.source import Facts
from pipelines.trials.checks import FILTERS, Check, CheckResult, DecodeCheck, EncodeCheck, FilterCheck, OpenCheck
from pipelines.trials.speed import SpeedCheck

SCHEMA = 3
"""Of what is measured: what an older one measured is measured again."""

_DECODE = (
    ("h264", 8, "yuv420p", "libx264"),
    ("hevc", 8, "yuv420p", "libx265"),
    ("hevc", 10, "yuv420p10le", "libx265"),
    ("vp9", 8, "yuv420p", "libvpx-vp9"),
    ("vp9", 10, "yuv420p10le", "libvpx-vp9"),
    ("av1", 8, "yuv420p", "libsvtav1"),
    ("av1", 10, "yuv420p10le", "libsvtav1"),
    ("mpeg2video", 8, "yuv420p", "mpeg2video"),
    ("mjpeg", 8, "yuvj420p", "mjpeg"),
    ("vp8", 8, "yuv420p", "libvpx"),
)
_ENCODE = (("h264", 8), ("hevc", 8), ("hevc", 10), ("av1", 8), ("av1", 10), ("vp9", 8), ("mjpeg", 8))

SPEED_CODECS = ("h264", "hevc", "vp9", "av1", "mpeg2video")
"""Decoders whose speed is tried."""

_SAME_BUT_FULL_RANGE = {"yuv420p": ("yuv420p", "yuvj420p"), "yuvj420p": ("yuvj420p", "yuv420p")}
"""FFmpeg's `yuvj` formats are the others with a wider range: a decoder does both or none."""

NO_VAAPI = (
    "this PyAV's FFmpeg has no VAAPI: use the container image, or build PyAV against the system's FFmpeg "
    "(docs/hardware.md)"
)
NO_GRAPHS = "this PyAV's filter graphs carry no surfaces: filters run on the CPU (docs/hardware.md, PyAV's patch)"


class Support(Facts):
    """What the PyAV that is installed can do with GPUs."""

    vaapi: bool
    graphs: bool
    """Filter graphs take surfaces: PyAV is patched for it."""


def support() -> Support:
    try:
        Graph().add("null", hw_device=None)  # type: ignore[arg-type]
    except (TypeError, ValueError, OSError):
        return Support(vaapi="vaapi" in hwdevices_available(), graphs=False)
    return Support(vaapi="vaapi" in hwdevices_available(), graphs=True)


def build() -> str:
    """The libraries that measure: others may find other things."""
    versions = "/".join(".".join(map(str, version)) for _, version in sorted(av.library_versions.items()))
    return f"PyAV {av.__version__}, FFmpeg {av.ffmpeg_version_info} ({versions})"


def checks(support: Support) -> tuple[Check, ...]:
    """All that this build of FFmpeg lets one check; OpenCheck is not among them, it goes first."""
    decode = (
        DecodeCheck(codec=codec, bit_depth=depth, pixel_format=pixel_format, software_encoder=encoder)
        for codec, depth, pixel_format, encoder in _DECODE
        if _exists(encoder)
    )
    apis: tuple[HardwareApi, ...] = ("vaapi", "qsv") if support.graphs else ("vaapi",)
    encode = tuple(
        EncodeCheck(codec=codec, encoder=f"{codec}_{api}", api=api, bit_depth=depth)
        for api in apis
        for codec, depth in _ENCODE
        if _exists(f"{codec}_{api}")
    )
    ahead = (_looking_ahead(check) for check in encode if check.encoder in LOOKS_AHEAD)
    filters = (FilterCheck(filter=name) for name in FILTERS) if support.graphs else ()
    return (*decode, *encode, *ahead, *filters)


def _looking_ahead(check: EncodeCheck) -> EncodeCheck:
    return check.model_copy(update={"look_ahead": True})


def _exists(encoder: str) -> bool:
    try:
        av.Codec(encoder, "w")
    except av.codec.codec.UnknownCodecError:
        return False
    return True


def speed_checks(results: Mapping[Check, CheckResult]) -> tuple[SpeedCheck, ...]:
    """Of what was seen to work on a GPU, each codec once."""
    working = [check for check, result in results.items() if result.works]
    encoders = {
        c.encoder: None for c in working if isinstance(c, EncodeCheck) and c.api == "vaapi" and c.bit_depth == 8
    }
    decoders = {c.codec: c.software_encoder for c in working if isinstance(c, DecodeCheck) and c.codec in SPEED_CODECS}
    return (
        *(SpeedCheck(stage="encode", coder=encoder) for encoder in encoders),
        *(SpeedCheck(stage="decode", coder=codec, software_encoder=maker) for codec, maker in decoders.items()),
    )


def with_speeds(device: Device, results: Mapping[SpeedCheck, CheckResult]) -> Device:
    """The device with what came of its trials."""
    told = (
        check.speed(result.pixels_per_second)
        for check, result in results.items()
        if result.works and result.pixels_per_second is not None
    )
    return device.model_copy(update={"speeds": tuple(told)})


def unmeasured(found: Found, slots: int, support: Support) -> Device:
    """The device as long as nothing is known but that it is there."""
    return Device(
        id=found.id,
        kind="vaapi",
        path=found.node,
        name=found.name,
        slots=slots,
        pci_address=found.pci_address,
        kernel_driver=found.kernel_driver,
        generation=found.generation,
        engines=found.engines,
        problem=found.problem or (None if support.vaapi else NO_VAAPI),
        notes=() if support.graphs or not support.vaapi else (NO_GRAPHS,),
    )


def measured(device: Device, driver: str | None, results: Mapping[Check, CheckResult]) -> Device:
    """The device with all that was seen to work on it."""
    working = {check: result for check, result in results.items() if result.works}
    capabilities = tuple(_capability(check, result, working) for check, result in working.items() if _is_codec(check))
    problem = None if capabilities else "nothing could be decoded or encoded on it; the service's log tells why"
    return device.model_copy(
        update={
            "driver": driver,
            "capabilities": capabilities,
            "filters": tuple(check.filter for check in working if isinstance(check, FilterCheck)),
            "problem": problem,
        }
    )


def unopened(device: Device, reason: str | None) -> Device:
    """The device whose driver can't be opened."""
    return device.model_copy(
        update={
            "problem": f"the VA driver can't be opened ({reason or 'no reason given'}): install intel-media-va-driver, "
            "and see what `vainfo` says"
        }
    )


def described(check: Check) -> str:
    """Such as `decode hevc (10 bit)`."""
    match check:
        case OpenCheck():
            return "open the driver"
        case DecodeCheck():
            return f"decode {check.codec} ({check.bit_depth} bit)"
        case EncodeCheck():
            return f"encode with {check.encoder} ({check.bit_depth} bit{', looking ahead' * check.look_ahead})"
        case FilterCheck():
            return f"filter with {check.filter}"
        case SpeedCheck():
            return f"be timed: {check.stage} {check.coder}"


def _is_codec(check: Any) -> bool:
    return isinstance(check, DecodeCheck) or (isinstance(check, EncodeCheck) and not check.look_ahead)


def _capability(check: Any, result: CheckResult, working: Mapping[Check, CheckResult]) -> Capability:
    if isinstance(check, DecodeCheck):
        formats = _SAME_BUT_FULL_RANGE.get(check.pixel_format, (check.pixel_format,))
        return Capability(
            direction="decode",
            codec=check.codec,
            api="vaapi",
            bit_depth=check.bit_depth,
            pixel_formats=formats,
            min_size=result.min_size,
            max_size=result.max_size,
        )
    ahead = working.get(_looking_ahead(check))
    return Capability(
        direction="encode",
        codec=check.codec,
        encoder=check.encoder,
        api=check.api,
        bit_depth=check.bit_depth,
        rate_controls=result.rate_controls,
        look_ahead=() if ahead is None else ahead.rate_controls,
        pixel_formats=("p010le",) if check.bit_depth == 10 else ("nv12",),
        min_size=result.min_size,
        max_size=result.max_size,
    )
