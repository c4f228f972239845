"""Intel's encoders by codec and API, and their option tables: the same shape as those of the software encoders.

The values of a RateControl mean the same here as in software: a job that falls back keeps its meaning. `rc_mode`
is always said: left to itself, VAAPI takes a mode that ignores `maxrate` on some generations. Which modes a GPU has is
measured; where it lacks the best one for what is asked, the next row of `WAYS` is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.encoders import Options, merge
from pipelines.errors import UnsupportedSpec
from pipelines.rate_control import Cbr, Cqp, Crf, Icq, RateControl, Vbr
from pipelines.source import Colour

DriverMode = Literal["cqp", "icq", "cbr", "vbr", "qvbr"]
"""What a driver calls its rate controls, in lower case: what capabilities name and `rc_mode` takes."""

DRIVER_MODES: tuple[DriverMode, ...] = ("cqp", "icq", "cbr", "vbr", "qvbr")

HARDWARE_ENCODERS: dict[tuple[str, str], str] = {
    (codec, api): f"{codec}_{api}" for api in ("vaapi", "qsv") for codec in ("h264", "hevc", "av1", "vp9", "mjpeg")
}
"""FFmpeg's encoders by (codec, API)."""

CODEC_OF: dict[str, str] = {encoder: codec for (codec, _), encoder in HARDWARE_ENCODERS.items()}
API_OF: dict[str, str] = {encoder: api for (_, api), encoder in HARDWARE_ENCODERS.items()}

SURFACES: dict[str, dict[str, str]] = {
    "h264": {"yuv420p": "nv12"},
    "hevc": {"yuv420p": "nv12", "yuv420p10le": "p010le", "yuv422p10le": "y210le", "yuv444p": "vuyx"},
    "av1": {"yuv420p": "nv12", "yuv420p10le": "p010le"},
    "vp9": {"yuv420p": "nv12", "yuv420p10le": "p010le", "yuv444p": "vuyx"},
    "mjpeg": {"yuv420p": "nv12"},
}
"""The surface that stands for a planar format. H.264 has no 10 bits and no 4:2:2 on any generation."""

MIN_SIZES: dict[str, tuple[int, int]] = {
    "h264": (32, 32), "hevc": (128, 128), "vp9": (128, 96), "av1": (128, 96), "mjpeg": (16, 16),
}  # fmt: skip
MAX_SIDES: dict[str, int] = {"h264": 4096, "hevc": 8192, "vp9": 8192, "av1": 8192, "mjpeg": 16384}
"""Limits in Intel's driver, for when they could not be measured."""

MAX_QUALITY: dict[str, int] = {"h264": 51, "hevc": 51, "av1": 63, "vp9": 63, "mjpeg": 31}
"""Ends of the scales of `crf` and `qp`: those of the software encoders, and MJPEG's `qscale`."""


def _same(value: float) -> int:
    """H.264 and HEVC: QP runs from 0 to 51 in both standards, x264 and x265 scale CRF to the same range."""
    return min(51, max(1, round(value)))


def _index(value: float) -> int:
    """VP9 and AV1: libvpx's and SVT-AV1's 0 to 63 stand for the standards' index of 0 to 255 in steps of 4."""
    return min(255, max(1, round(value * 4)))


def _share(value: float) -> int:
    """VP9 and AV1: the same share of the 1 to 51 that VA-API and VPL count constant quality in, whatever the codec."""
    return max(1, round(value * 51 / 63))


def _percent(value: float) -> int:
    """MJPEG: `qscale` of 1 (best) to 31 as percents, best last."""
    return max(1, round(100 - 3 * (value - 1)))


QP_SCALES: dict[str, Callable[[float], int]] = {
    "h264": _same, "hevc": _same, "av1": _index, "vp9": _index, "mjpeg": _percent,
}  # fmt: skip
"""From a software encoder's `crf` or `qp` to what the hardware takes as quantiser."""

QUALITY_SCALES: dict[str, Callable[[float], int]] = {
    "h264": _same, "hevc": _same, "av1": _share, "vp9": _share, "mjpeg": _percent,
}  # fmt: skip
"""From a software encoder's `crf` to VA-API's quality factor of ICQ and QVBR, 1 (best) to 51.

Both tables follow from what the scales are defined as. No Intel encoder was measured: equal numbers look alike, they do
not promise equal pictures.
"""


@dataclass(frozen=True)
class Demand:
    """A RateControl in the driver's numbers: bits and bit/s, `qp` for CQP, `quality` for ICQ and QVBR."""

    qp: int | None = None
    quality: int | None = None
    bitrate: int | None = None
    maxrate: int | None = None
    bufsize: int | None = None


def _icq(rc: Icq, codec: str) -> Demand:
    return Demand(qp=rc.quality, quality=rc.quality)


def _cqp(rc: Cqp, codec: str) -> Demand:
    return Demand(qp=QP_SCALES[codec](rc.qp))


def _vbr(rc: Vbr, codec: str) -> Demand:
    maxrate = rc.maxrate or rc.bitrate * 3 // 2
    return Demand(bitrate=rc.bitrate, maxrate=maxrate, bufsize=rc.bufsize or 2 * maxrate)


def _cbr(rc: Cbr, codec: str) -> Demand:
    return Demand(bitrate=rc.bitrate, maxrate=rc.bitrate, bufsize=rc.bufsize or rc.bitrate)


def _crf(rc: Crf, codec: str) -> Demand:
    qp, quality = QP_SCALES[codec](rc.crf), QUALITY_SCALES[codec](rc.crf)
    if rc.maxrate is None:
        return Demand(qp=qp, quality=quality)
    # the average is where the encoder starts from; quality and the cap decide what it comes to
    return Demand(qp, quality, rc.maxrate * 2 // 3, rc.maxrate, rc.bufsize or 2 * rc.maxrate)


DEMANDS: dict[type[Any], Callable[[Any, str], Demand]] = {Crf: _crf, Cqp: _cqp, Icq: _icq, Vbr: _vbr, Cbr: _cbr}

WAYS: dict[str, tuple[DriverMode, ...]] = {
    "crf": ("icq", "cqp"),
    "capped crf": ("qvbr", "vbr"),
    "icq": ("icq", "cqp"),
    "cqp": ("cqp",),
    "vbr": ("vbr",),
    "cbr": ("cbr",),
}
"""Driver modes that do what a rate control asks for, best first. A cap is a promise: a capped CRF without QVBR becomes
a bitrate below the cap, never a quality without one."""


def rate_kind(rc: RateControl) -> str:
    """The row of `WAYS` for `rc`."""
    return "capped crf" if isinstance(rc, Crf) and rc.maxrate is not None else rc.mode


def driver_mode(encoder: str, rc: RateControl, modes: Collection[str] = DRIVER_MODES) -> DriverMode | None:
    """How a GPU whose `encoder` has `modes` does what `rc` asks for; None when it can't."""
    offered = [mode for mode in WAYS.get(rate_kind(rc), ()) if mode in modes]
    if CODEC_OF[encoder] in ("av1", "vp9") and isinstance(rc, Icq):
        # their quantisers run to 255
        offered = [mode for mode in offered if mode == "icq"]
    return next((mode for mode in offered if (API_OF[encoder], mode) in RATE_ROWS), None)


def hardware_rate_controls(encoder: str, modes: Collection[str]) -> tuple[str, ...]:
    """Names of the RateControl modes that a GPU whose `encoder` has `modes` can do, `crf` with or without a cap."""
    usual = ("cqp",) if CODEC_OF[encoder] == "mjpeg" else ("crf", "cqp", "icq", "vbr", "cbr")
    return tuple(kind for kind in usual if any(mode in modes for mode in WAYS[kind]))


def _peaks(demand: Demand) -> Options:
    return {"b": str(demand.bitrate), "maxrate": str(demand.maxrate), "bufsize": str(demand.bufsize)}


def _vaapi(mode: DriverMode, *, number: Literal["qp", "quality"] | None, bits: bool) -> Callable[[Demand], Options]:
    def row(demand: Demand) -> Options:
        options = {"rc_mode": mode.upper()}
        if number is not None:
            options["global_quality"] = str(getattr(demand, number))
        return {**options, **(_peaks(demand) if bits else {})}

    return row


LAMBDA_PER_QP = 118
"""FFmpeg's FF_QP2LAMBDA: what `global_quality` counts in where `flags` has `qscale`."""


def _qsv_vbr(demand: Demand) -> Options:
    # with the same number twice it would be CBR
    peaks = _peaks(demand)
    if demand.maxrate == demand.bitrate:
        peaks["maxrate"] = str((demand.bitrate or 0) + 1)
    return peaks


RATE_ROWS: dict[tuple[str, DriverMode], Callable[[Demand], Options]] = {
    ("vaapi", "cqp"): _vaapi("cqp", number="qp", bits=False),
    ("vaapi", "icq"): _vaapi("icq", number="quality", bits=False),
    ("vaapi", "cbr"): _vaapi("cbr", number=None, bits=True),
    ("vaapi", "vbr"): _vaapi("vbr", number=None, bits=True),
    ("vaapi", "qvbr"): _vaapi("qvbr", number="quality", bits=True),
    # QSV has no option for the mode: it follows from what is set
    ("qsv", "cqp"): lambda demand: {
        "flags": "+qscale",
        "global_quality": str((demand.qp or 0) * LAMBDA_PER_QP),
    },
    ("qsv", "icq"): lambda demand: {"global_quality": str(demand.quality)},
    ("qsv", "cbr"): _peaks,
    ("qsv", "vbr"): _qsv_vbr,
    ("qsv", "qvbr"): lambda demand: {**_peaks(demand), "global_quality": str(demand.quality)},
}

LOOKS_AHEAD = ("h264_qsv", "hevc_qsv", "av1_qsv")
"""Encoders that may have look-ahead and extended rate control; whether a GPU's do is measured, mode by mode."""


def rate_options(encoder: str, rc: RateControl, modes: Collection[str] = DRIVER_MODES) -> Options:
    """The encoder's options for `rc` on a GPU that has `modes`; UnsupportedSpec where it has no way to do it."""
    codec = CODEC_OF[encoder]
    asked = {Crf: "crf", Cqp: "qp"}.get(type(rc))
    if asked is not None and getattr(rc, asked) > MAX_QUALITY[codec]:
        raise UnsupportedSpec(
            f"{asked} {getattr(rc, asked):g} is above {encoder}'s scale (0-{MAX_QUALITY[codec]})",
            stage="plan",
            encoder=encoder,
        )
    mode = driver_mode(encoder, rc, modes)
    if mode is None or (codec == "mjpeg" and not isinstance(rc, Cqp)):
        raise UnsupportedSpec(
            f"{encoder} has no rate control for {rate_kind(rc)} here", stage="plan", encoder=encoder, mode=rc.mode
        )
    demand = DEMANDS[type(rc)](rc, codec)
    if codec == "mjpeg":
        # percents on both APIs, and nothing else
        return {"global_quality": str(demand.qp)}
    return RATE_ROWS[API_OF[encoder], mode](demand)


_COMPRESSION_LEVELS = dict(
    ultrafast=7, superfast=7, veryfast=7, faster=6, fast=5, medium=4, slow=3, slower=2, veryslow=1
)  # fmt: skip
"""Intel's driver: 1 is best, 7 fastest; drivers without the attribute ignore it."""

_QSV_PRESETS = dict(
    ultrafast="veryfast", superfast="veryfast", veryfast="veryfast", faster="faster", fast="fast", medium="medium",
    slow="slow", slower="slower", veryslow="veryslow",
)  # fmt: skip

LOW_LATENCY_SPEEDS = ("ultrafast", "superfast")
"""Speeds that wait for nothing: no B-frames, no pictures in flight, no look-ahead."""
PATIENT_SPEEDS = ("slow", "slower", "veryslow")

_LOOK_AHEAD_FRAMES = (8, 40)
"""QSV's look-ahead for usual and for patient speeds."""


def _vaapi_speed(encoder: str, speed: str) -> Options:
    options = {"compression_level": str(_COMPRESSION_LEVELS[speed])}
    return (
        {**options, "async_depth": "1", "bf": "0"} if speed in LOW_LATENCY_SPEEDS else {**options, "async_depth": "2"}
    )


def _qsv_speed(encoder: str, speed: str) -> Options:
    options = {"preset": _QSV_PRESETS[speed]}
    if speed in LOW_LATENCY_SPEEDS:
        return {**options, "async_depth": "1", "bf": "0"}
    options["async_depth"] = "4"
    return {**options, "b_strategy": "1", "bf": "7", "refs": "5"} if encoder in LOOKS_AHEAD else options


def look_ahead_options(encoder: str, mode: str, speed: str) -> Options:
    """Of an encoder that was seen to look ahead in this driver mode; nothing where pictures must not wait."""
    if encoder not in LOOKS_AHEAD or speed in LOW_LATENCY_SPEEDS:
        return {}
    frames = str(_LOOK_AHEAD_FRAMES[speed in PATIENT_SPEEDS])
    extended = {"extbrc": "1"} if mode == "vbr" else {}
    return {**extended, "look_ahead_depth": frames, "adaptive_i": "1", "adaptive_b": "1"}


def speed_options(encoder: str, speed: str) -> Options:
    """The encoder's own trade of time for quality, for a speed by x264's names."""
    if CODEC_OF[encoder] == "mjpeg":
        return {}
    return {"vaapi": _vaapi_speed, "qsv": _qsv_speed}[API_OF[encoder]](encoder, speed)


_STREAM_OPTIONS: dict[str, Options] = {
    # captions in SEI have made access units larger than the driver allows for
    "h264_vaapi": {"idr_interval": "0", "sei": "-a53_cc", "flags": "+cgop"},
    "hevc_vaapi": {"idr_interval": "0", "sei": "-a53_cc", "flags": "+cgop"},
    "av1_vaapi": {"idr_interval": "0"},
    "vp9_vaapi": {"idr_interval": "0"},
    "h264_qsv": {"forced_idr": "1", "idr_interval": "0", "flags": "+cgop", "a53cc": "0"},
    "hevc_qsv": {"forced_idr": "1", "idr_interval": "0", "flags": "+cgop"},
    "av1_qsv": {"forced_idr": "1"},
    "vp9_qsv": {"forced_idr": "1"},
}


def stream_options(encoder: str, gop: int, colour: Colour) -> Options:
    """Options that follow from the stream: `gop` in frames. A forced keyframe is an IDR, and no group is open.

    HDR's metadata are not options here: encoders take them from the frames.
    """
    return {} if CODEC_OF[encoder] == "mjpeg" else {"g": str(gop), **_STREAM_OPTIONS[encoder]}


def encoder_options(
    encoder: str,
    rc: RateControl,
    speed: str,
    gop: int,
    colour: Colour,
    modes: Collection[str] = DRIVER_MODES,
    look_ahead: Collection[str] = (),
) -> Options:
    """All of an encoder's options in one. `look_ahead`: the driver modes in which it can look ahead."""
    mode = driver_mode(encoder, rc, modes)
    ahead = look_ahead_options(encoder, mode, speed) if mode in look_ahead and mode is not None else {}
    parts = (
        *(speed_options(encoder, speed), ahead),
        *(rate_options(encoder, rc, modes), stream_options(encoder, gop, colour)),
    )
    options = merge(*parts)
    flags = "".join(part.get("flags", "") for part in parts)
    return {**options, "flags": flags} if flags else options
