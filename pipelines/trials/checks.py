"""Looking whether a GPU does a thing, by doing it with a few small pictures.

For a child process of its own: drivers crash and hang, and what FFmpeg says is read from the process's stderr.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Annotated, Any, Literal

import av
from av.codec.hwaccel import HWAccel
from av.filter import Graph
from av.video.frame import VideoFrame
from pydantic import Field

from pipelines.devices import HardwareApi
from pipelines.errors import cause
from pipelines.hardware.encoders import DRIVER_MODES
from pipelines.library_log import MAX_REASON, constraints, library_log, reason
from pipelines.source import Facts
from pipelines.trials.clips import FRAMES, HEIGHT, RATE, WIDTH, clip, hdr_pictures, pictures
from pipelines.trials.rates import trials
from pipelines.trials.speed import SpeedCheck, run_trial

TINY = (8, 8)
WIDE = (16384, 64)
"""Sizes that a driver most likely refuses: FFmpeg then says what its limits are."""

FilterName = str
Steps = tuple[tuple[str, dict[str, str]], ...]


class OpenCheck(Facts):
    """Whether the driver can be opened at all, and which it is."""

    kind: Literal["open"] = "open"


class DecodeCheck(Facts):
    """`decoder` is FFmpeg's own: those of libraries (such as libdav1d) know nothing of GPUs."""

    kind: Literal["decode"] = "decode"
    codec: str
    bit_depth: int = 8
    pixel_format: str
    software_encoder: str


class EncodeCheck(Facts):
    kind: Literal["encode"] = "encode"
    codec: str
    encoder: str
    api: HardwareApi
    bit_depth: int = 8
    look_ahead: bool = False
    """With what looking ahead needs besides; the rate controls of the result are those that it works with."""


class FilterCheck(Facts):
    kind: Literal["filter"] = "filter"
    filter: str


Check = Annotated[OpenCheck | DecodeCheck | EncodeCheck | FilterCheck | SpeedCheck, Field(discriminator="kind")]


class CheckResult(Facts):
    """What came of a check. `reason`: why it does not work."""

    works: bool
    reason: str | None = None
    driver: str | None = None
    rate_controls: tuple[str, ...] = ()
    min_size: tuple[int, int] | None = None
    max_size: tuple[int, int] | None = None
    pixels_per_second: float | None = None
    """Of a trial of speed."""


_FAILURES = (av.FFmpegError, OSError, ValueError, RuntimeError, MemoryError)
"""What PyAV raises when FFmpeg or the driver refuses."""

_TEN_BIT = {8: "nv12", 10: "p010le"}

FILTERS: dict[FilterName, Steps] = {
    "hwupload": (),
    "hwdownload": (),
    "scale_vaapi": (("scale_vaapi", {"w": "256", "h": "128"}),),
    "deinterlace_vaapi": (("deinterlace_vaapi", {"mode": "bob"}),),
    "transpose_vaapi": (("transpose_vaapi", {"dir": "clock"}),),
    "pad_vaapi": (("pad_vaapi", {"w": "512", "h": "512", "x": "96", "y": "128"}),),
    "denoise_vaapi": (("denoise_vaapi", {"denoise": "16"}),),
    "sharpness_vaapi": (("sharpness_vaapi", {"sharpness": "50"}),),
    "procamp_vaapi": (("procamp_vaapi", {"b": "5"}),),
    "drawbox_vaapi": (("drawbox_vaapi", {"w": "32", "h": "32", "color": "red"}),),
    "tonemap_vaapi": (("tonemap_vaapi", {"format": "nv12"}),),
    "overlay_vaapi": (),
}
"""One graph for each, between an upload and a download."""

_DRIVER = re.compile(r"VAAPI driver: (.+?)\.?$", re.MULTILINE)


def run_check(check: Check, node: str | None) -> CheckResult:
    """Does it on the GPU behind `node`, or a trial of speed on the CPU (None); a refusal is a result like another."""
    with library_log() as log:
        try:
            return _RUNNERS[type(check)](check, node, log)
        except _FAILURES as error:
            return CheckResult(works=False, reason=reason(log()) or _words(error))


def open_device(node: str) -> HWAccel:
    """The GPU, opened; OSError or ValueError where it can't be."""
    return HWAccel("vaapi", device=node).create(av.Codec("h264_vaapi", "w"), for_encoding=True)


def _open(check: OpenCheck, node: str, log: Callable[[], str]) -> CheckResult:
    av.logging.set_libav_level(av.logging.VERBOSE)
    open_device(node)
    told = _DRIVER.search(log())
    return CheckResult(works=True, driver=told.group(1) if told else None)


def _decode(check: DecodeCheck, node: str, log: Callable[[], str]) -> CheckResult:
    made = clip(check.software_encoder, check.pixel_format)
    decoded = _decoded(check.codec, made, node)
    if any(name != "vaapi" for name in decoded):
        return CheckResult(works=False, reason="decoded by the CPU")
    if len(decoded) != FRAMES:
        return CheckResult(works=False, reason=f"{len(decoded)} of {FRAMES} pictures came out")
    min_size, max_size = _decode_limits(check, node, log)
    return CheckResult(works=True, min_size=min_size, max_size=max_size)


def _decoded(codec: str, file: io.BytesIO, node: str) -> list[str]:
    """The formats of the pictures that come out: `vaapi` for those on the GPU."""
    hwaccel = HWAccel("vaapi", device=node, is_hw_owned=True, allow_software_fallback=False)
    decoder: Any = av.CodecContext.create(av.Codec(codec, "r"), hwaccel=hwaccel)
    with av.open(file, "r") as container:
        stream = container.streams.video[0]
        decoder.extradata = stream.codec_context.extradata
        return [frame.format.name for packet in container.demux(stream) for frame in decoder.decode(packet)]


def _decode_limits(check: DecodeCheck, node: str, log: Callable[[], str]) -> tuple[Any, Any]:
    """From what FFmpeg says when a picture is too wide; unknown where it is not, or can't be made."""
    try:
        made = clip(check.software_encoder, check.pixel_format, size=WIDE, frames=1)
        _decoded(check.codec, made, node)
    except _FAILURES:
        return constraints(log())
    return None, None


def _encode(check: EncodeCheck, node: str, log: Callable[[], str]) -> CheckResult:
    """Each rate control in turn; then what the driver says its sizes are, where it refuses one."""
    trial = _TRIALS[check.api]
    working: list[str] = []
    reasons: list[str] = []
    for name, options in trials(check.encoder, check.api, look_ahead=check.look_ahead).items():
        if check.look_ahead and reasons and not working:
            break
        try:
            packets = trial(check, node, options, (WIDTH, HEIGHT))
        except _FAILURES as error:
            reasons.append(reason(log()) or _words(error))
            continue
        if packets == FRAMES:
            working.append(name)
        else:
            reasons.append(f"{packets} of {FRAMES} pictures came out")
    if not working:
        return CheckResult(works=False, reason=reasons[0])
    working.sort(key=DRIVER_MODES.index)
    if check.look_ahead:
        return CheckResult(works=True, rate_controls=tuple(working))
    min_size, max_size = _encode_limits(check, node, working[0], log)
    return CheckResult(works=True, rate_controls=tuple(working), min_size=min_size, max_size=max_size)


def _encode_limits(check: EncodeCheck, node: str, mode: str, log: Callable[[], str]) -> tuple[Any, Any]:
    for size in (TINY, WIDE):
        try:
            _TRIALS[check.api](check, node, trials(check.encoder, check.api, look_ahead=False)[mode], size)
        except _FAILURES:
            limits = constraints(log())
            if limits != (None, None):
                return limits
    return None, None


def _vaapi_trial(check: EncodeCheck, node: str, options: dict[str, str], size: tuple[int, int]) -> int:
    """How many packets come out of FRAMES pictures, which the encoder uploads itself."""
    encoder: Any = av.CodecContext.create(check.encoder, "w", hwaccel=HWAccel("vaapi", device=node))
    pixel_format = _TEN_BIT[check.bit_depth]
    encoder.pix_fmt = pixel_format
    return _encoded(encoder, options, size, pictures(pixel_format, size=size))


def _qsv_trial(check: EncodeCheck, node: str, options: dict[str, str], size: tuple[int, int]) -> int:
    """The same, with surfaces of VAAPI that are handed to QSV: needs graphs that carry surfaces."""
    device = open_device(node)
    steps: Steps = (("hwupload", {}), ("hwmap", {"derive_device": "qsv"}), ("format", {"pix_fmts": "qsv"}))
    pixel_format = _TEN_BIT[check.bit_depth]
    surfaces = list(_filtered(steps, device, list(pictures(pixel_format, size=size))))
    encoder: Any = av.CodecContext.create(check.encoder, "w")
    encoder.pix_fmt = "qsv"
    return _encoded(encoder, options, size, iter(surfaces))


_TRIALS = {"vaapi": _vaapi_trial, "qsv": _qsv_trial}


def _encoded(encoder: Any, options: dict[str, str], size: tuple[int, int], frames: Iterator[VideoFrame]) -> int:
    encoder.options = options
    encoder.width, encoder.height = size
    encoder.time_base = Fraction(1, RATE)
    encoder.framerate = Fraction(RATE)
    return sum(len(encoder.encode(frame)) for frame in (*frames, None))


def _filter(check: FilterCheck, node: str, log: Callable[[], str]) -> CheckResult:
    device = open_device(node)
    if check.filter == "overlay_vaapi":
        made = list(_overlaid(device))
    else:
        deep = check.filter == "tonemap_vaapi"
        frames = hdr_pictures() if deep else list(pictures("nv12"))
        steps = (("hwupload", {}), *FILTERS[check.filter], ("hwdownload", {}), ("format", {"pix_fmts": "nv12"}))
        made = list(_filtered(steps, device, frames))
    if not made:
        return CheckResult(works=False, reason="no picture came out")
    return CheckResult(works=True)


def _filtered(steps: Steps, device: HWAccel, frames: list[VideoFrame]) -> Iterator[VideoFrame]:
    graph: Any = Graph()
    nodes = [graph.add("buffer", **_source(frames[0]))]
    nodes += [graph.add(name, hw_device=device, **options) for name, options in steps]
    graph.link_nodes(*nodes, graph.add("buffersink")).configure()
    for frame in (*frames, None):
        graph.vpush(frame)
        yield from _drained(graph)


def _overlaid(device: HWAccel) -> Iterator[VideoFrame]:
    graph: Any = Graph()
    frames = list(pictures("nv12"))
    overlay = graph.add("overlay_vaapi", hw_device=device, x="16", y="16", w="64", h="64")
    sources = [graph.add("buffer", **_source(frames[0])) for _ in range(2)]
    for pad, source in enumerate(sources):
        upload = graph.add("hwupload", hw_device=device)
        source.link_to(upload)
        upload.link_to(overlay, 0, pad)
    download, shape, sink = graph.add("hwdownload"), graph.add("format", pix_fmts="nv12"), graph.add("buffersink")
    graph.link_nodes(overlay, download, shape, sink).configure()
    for frame in (*frames, None):
        for source in sources:
            source.push(frame)
        yield from _drained(graph)


def _drained(graph: Any) -> Iterator[VideoFrame]:
    while True:
        try:
            yield graph.vpull()
        except (BlockingIOError, EOFError):
            return


def _source(frame: VideoFrame) -> dict[str, str]:
    return {
        "video_size": f"{frame.width}x{frame.height}",
        "pix_fmt": frame.format.name,
        "time_base": f"1/{RATE}",
    }


def _speed(check: SpeedCheck, node: str | None, log: Callable[[], str]) -> CheckResult:
    return CheckResult(works=True, pixels_per_second=run_trial(check, node))


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {cause(error)}"[:MAX_REASON]


_RUNNERS: dict[type[Any], Callable[[Any, Any, Callable[[], str]], CheckResult]] = {
    OpenCheck: _open,
    DecodeCheck: _decode,
    EncodeCheck: _encode,
    FilterCheck: _filter,
    SpeedCheck: _speed,
}
