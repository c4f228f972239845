"""Encoders by codec, and their option tables.

A table's row turns a rate control, or a speed, into an encoder's own options. What has no row can't be asked for, and
what an encoder leaves unused is refused when it is opened (`EncoderRejected`): FFmpeg itself says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.errors import UnsupportedSpec
from pipelines.rate_control import Cbr, Cqp, Crf, Icq, RateControl, Vbr
from pipelines.source import Colour, MasteringDisplay

Options = dict[str, str]

SOFTWARE_ENCODERS: dict[str, str] = {
    "h264": "libx264",
    "hevc": "libx265",
    "av1": "libsvtav1",
    "vp9": "libvpx-vp9",
    "aac": "aac",
    "opus": "libopus",
    "mp3": "libmp3lame",
    "flac": "flac",
}

DEFAULT_CRF: dict[str, float] = {"h264": 21, "hevc": 23, "av1": 30, "vp9": 32}
"""About equal quality at 1080p; each codec has a scale of its own."""

PIXEL_FORMATS: dict[str, tuple[str, ...]] = {
    "libx264": ("yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "yuv422p10le", "yuv444p10le"),
    "libx265": ("yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "yuv422p10le", "yuv444p10le"),
    "libsvtav1": ("yuv420p", "yuv420p10le"),
    "libvpx-vp9": ("yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "yuv422p10le", "yuv444p10le"),
}

MIN_SIDES: dict[str, int] = {"libx264": 2, "libx265": 16, "libsvtav1": 32, "libvpx-vp9": 2}
"""Pixels, measured: x265 refuses less; SVT-AV1 4.1 never finishes long and narrow pictures of 16 and less."""
MAX_SIZES: dict[str, tuple[int, int]] = {"libx264": (16384, 16384), "libsvtav1": (16384, 8704)}

SAMPLE_RATES: dict[str, tuple[int, ...]] = {
    "aac": (48000, 44100, 96000, 88200, 64000, 32000, 24000, 22050, 16000, 12000, 11025, 8000),
    "opus": (48000, 24000, 16000, 12000, 8000),
    "mp3": (48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000),
    "flac": (),
}
"""Rates that a codec takes; empty: any up to 192 kHz."""

LAYOUTS: dict[str, tuple[str, ...]] = {
    "aac": ("mono", "stereo", "3.0", "4.0", "5.0", "5.1", "7.1"),
    "opus": ("mono", "stereo", "3.0", "quad", "5.0", "5.1", "6.1", "7.1"),
    "mp3": ("mono", "stereo"),
    "flac": ("mono", "stereo", "3.0", "quad", "5.0", "5.1", "6.1", "7.1"),
}

SAMPLE_FORMATS: dict[str, str] = {"aac": "fltp", "libopus": "flt", "libmp3lame": "fltp", "flac": "s16"}

_SVT_PRESETS = dict(ultrafast=9, superfast=9, veryfast=8, faster=8, fast=7, medium=6, slow=5, slower=4, veryslow=3)
_VPX_SPEEDS = dict(
    ultrafast=("realtime", 8), superfast=("realtime", 7), veryfast=("good", 5), faster=("good", 4), fast=("good", 3),
    medium=("good", 2), slow=("good", 1), slower=("good", 1), veryslow=("good", 0),
)  # fmt: skip

SPEED_OPTIONS: dict[str, Callable[[str], Options]] = {
    "libx264": lambda speed: {"preset": speed},
    "libx265": lambda speed: {"preset": speed},
    "libsvtav1": lambda speed: {"preset": str(_SVT_PRESETS[speed])},
    "libvpx-vp9": lambda speed: {"deadline": _VPX_SPEEDS[speed][0], "cpu-used": str(_VPX_SPEEDS[speed][1])},
}


def _number(value: float) -> str:
    return f"{value:g}"


def _caps(rc: Crf | Vbr, default_maxrate: int | None = None) -> Options:
    maxrate = rc.maxrate or default_maxrate
    if maxrate is None:
        return {}
    return {"maxrate": str(maxrate), "bufsize": str(rc.bufsize or 2 * maxrate)}


def _vbr(rc: Vbr) -> Options:
    return {"b": str(rc.bitrate), **_caps(rc, rc.bitrate * 3 // 2)}


def _cbr(rc: Cbr) -> Options:
    return {"b": str(rc.bitrate), "maxrate": str(rc.bitrate), "bufsize": str(rc.bufsize or rc.bitrate)}


def _vpx_crf(rc: Crf) -> Options:
    # libvpx's constrained quality takes its cap as the target bitrate; 0 leaves quality alone in charge
    return {"crf": _number(round(rc.crf)), "b": str(rc.maxrate or 0)}


RATE_OPTIONS: dict[tuple[str, type[Any]], Callable[[Any], Options]] = {
    ("libx264", Crf): lambda rc: {"crf": _number(rc.crf), **_caps(rc)},
    ("libx264", Cqp): lambda rc: {"qp": str(rc.qp)},
    ("libx264", Icq): lambda rc: {"crf": str(rc.quality)},
    ("libx264", Vbr): _vbr,
    ("libx264", Cbr): lambda rc: {**_cbr(rc), "nal-hrd": "cbr"},
    ("libx265", Crf): lambda rc: {"crf": _number(rc.crf), **_caps(rc)},
    ("libx265", Cqp): lambda rc: {"qp": str(rc.qp)},
    ("libx265", Icq): lambda rc: {"crf": str(rc.quality)},
    ("libx265", Vbr): _vbr,
    ("libx265", Cbr): lambda rc: {**_cbr(rc), "x265-params": "strict-cbr=1"},
    ("libsvtav1", Crf): lambda rc: {"crf": _number(round(rc.crf)), **_caps(rc)},
    ("libsvtav1", Cqp): lambda rc: {"qp": str(min(rc.qp, 63)), "svtav1-params": "aq-mode=0"},
    # SVT-AV1 bounds peaks in CRF only: in VBR it refuses a maximum, so the average stands alone
    ("libsvtav1", Vbr): lambda rc: {"b": str(rc.bitrate)},
    ("libsvtav1", Cbr): lambda rc: {**_cbr(rc), "svtav1-params": "pred-struct=1"},
    ("libvpx-vp9", Crf): _vpx_crf,
    ("libvpx-vp9", Cqp): lambda rc: {"crf": str(rc.qp), "qmin": str(rc.qp), "qmax": str(rc.qp), "b": "0"},
    ("libvpx-vp9", Vbr): _vbr,
    ("libvpx-vp9", Cbr): lambda rc: {**_cbr(rc), "minrate": str(rc.bitrate)},
}

MAX_QUALITY: dict[str, int] = {"libx264": 51, "libx265": 51, "libsvtav1": 63, "libvpx-vp9": 63}


def rate_options(encoder: str, rc: RateControl) -> Options:
    """The encoder's options for `rc`; UnsupportedSpec where it has no such mode or the value is off its scale."""
    row = RATE_OPTIONS.get((encoder, type(rc)))
    if row is None:
        raise UnsupportedSpec(f"{encoder} has no rate control {rc.mode}", stage="plan", encoder=encoder, mode=rc.mode)
    quality = {Crf: "crf", Cqp: "qp"}.get(type(rc))
    if quality is not None and getattr(rc, quality) > MAX_QUALITY[encoder]:
        raise UnsupportedSpec(
            f"{quality} {getattr(rc, quality):g} is above {encoder}'s scale (0-{MAX_QUALITY[encoder]})",
            stage="plan",
            encoder=encoder,
        )
    return row(rc)


def merge(*parts: Options) -> Options:
    """One option set; `*-params` strings of several parts are joined."""
    merged: Options = {}
    for part in parts:
        for key, value in part.items():
            merged[key] = f"{merged[key]}:{value}" if key.endswith("-params") and key in merged else value
    return merged


def _x265_params(gop: int, colour: Colour) -> Options:
    params = [f"keyint={gop}", "open-gop=0", "log-level=warning"]
    if colour.is_hdr:
        params += ["hdr10=1", "repeat-headers=1"] if colour.transfer == "smpte2084" else ["repeat-headers=1"]
    if colour.mastering_display is not None:
        params.append(f"master-display={x265_mastering_display(colour.mastering_display)}")
    if colour.max_cll is not None:
        params.append(f"max-cll={colour.max_cll[0]},{colour.max_cll[1]}")
    return {"x265-params": ":".join(params)}


def _svt_params(gop: int, colour: Colour) -> Options:
    params = []
    if colour.mastering_display is not None:
        params.append(f"mastering-display={svt_mastering_display(colour.mastering_display)}")
    if colour.max_cll is not None:
        params.append(f"content-light={colour.max_cll[0]},{colour.max_cll[1]}")
    return {"svtav1-params": ":".join(params)} if params else {}


STREAM_OPTIONS: dict[str, Callable[[int, Colour], Options]] = {
    "libx264": lambda gop, colour: {"g": str(gop), "forced-idr": "1"},
    "libx265": lambda gop, colour: {"g": str(gop), "forced-idr": "1", **_x265_params(gop, colour)},
    "libsvtav1": lambda gop, colour: {"g": str(gop), **_svt_params(gop, colour)},
    "libvpx-vp9": lambda gop, colour: {"g": str(gop), "row-mt": "1", "auto-alt-ref": "1", "lag-in-frames": "25"},
}
"""Options that follow from the stream itself: GOP length in frames, HDR metadata."""

NARROW_X265 = 48
"""Pixels. The look-ahead sees a quarter of the picture in blocks of 8; of three blocks a line and fewer, x265 4.2's
tree of references writes past its end and corrupts the heap (measured: 16 to 48 wide, whatever the height and depth;
none from 50 on, and none without the tree)."""


def size_options(encoder: str, width: int) -> Options:
    """What a picture's size asks for."""
    return {"x265-params": "cutree=0"} if encoder == "libx265" and width <= NARROW_X265 else {}


def x265_mastering_display(display: MasteringDisplay) -> str:
    """In x265's integers (see MasteringDisplay), in its order G B R WP L(max,min)."""
    points = "".join(
        f"{letter}({x},{y})"
        for letter, (x, y) in (("G", display.green), ("B", display.blue), ("R", display.red), ("WP", display.white))
    )
    return f"{points}L({display.max_luminance},{display.min_luminance})"


def svt_mastering_display(display: MasteringDisplay) -> str:
    """As decimal coordinates and cd/m², in the same order."""
    points = "".join(
        f"{letter}({x / 50_000:.5f},{y / 50_000:.5f})"
        for letter, (x, y) in (("G", display.green), ("B", display.blue), ("R", display.red), ("WP", display.white))
    )
    return f"{points}L({display.max_luminance / 10_000:.4f},{display.min_luminance / 10_000:.4f})"


def default_rate_control(codec: str) -> RateControl:
    return Crf(crf=DEFAULT_CRF[codec])


def software_rate_controls(encoder: str) -> tuple[str, ...]:
    """Names of the modes that the encoder has a row for."""
    return tuple(mode.model_fields["mode"].default for name, mode in RATE_OPTIONS if name == encoder)
