"""Whether a source's video already is what a rung asks for, so that it can be taken as it is. Pure."""

from __future__ import annotations

from pipelines.asked.rungs import Rung
from pipelines.ladder import fit
from pipelines.rate_control import Cbr, Crf, Vbr
from pipelines.source import VideoInfo

PLAIN_FORMATS = {"h264": ("yuv420p", "yuvj420p"), "hevc": ("yuv420p", "yuv420p10le"), "av1": ("yuv420p", "yuv420p10le"),
                 "vp9": ("yuv420p",)}  # fmt: skip
"""What players take of a codec."""


def misfit(rung: Rung, source: VideoInfo, segment_seconds: float, *, clipped: bool) -> str | None:
    """The first thing that is not as `rung` asks (its codec and rate control are named); None: it fits."""
    found = {
        f"it is {source.codec}": source.codec != rung.codec,
        "filters change it": bool(rung.filters),
        "a clip can't start anywhere in copied video": clipped,
        "it would be scaled": fit(source.display_size, (rung.width, rung.height), upscale=rung.upscale) is not None,
        "it is turned, mirrored or of pixels that are not square": bool(
            source.rotation or source.mirrored or source.sample_aspect_ratio != 1
        ),
        "it is interlaced": source.interlacing in ("top", "bottom")
        or (source.interlacing is None and source.field_order not in (None, "progressive"))
        or rung.deinterlace in ("on", "bob", "ivtc"),
        f"its pictures are {source.pixel_format}": source.pixel_format not in PLAIN_FORMATS.get(source.codec, ())
        or rung.pixel_format not in (None, source.pixel_format),
        "its frame rate is another": rung.frame_rate not in (None, source.frame_rate),
        **_bitrate(rung, source),
        **_keyframes(source, segment_seconds),
    }
    return next((reason for reason, holds in found.items() if holds), None)


def _bitrate(rung: Rung, source: VideoInfo) -> dict[str, bool]:
    control = rung.rate_control
    limit = control.maxrate if isinstance(control, Crf) else None
    if isinstance(control, Vbr | Cbr):
        limit = control.bitrate
    if limit is None:
        return {}
    if source.bit_rate is None:
        return {"its bitrate is not known": True}
    return {f"its {source.bit_rate / 1e6:.2f} Mbit/s are above {limit / 1e6:.2f}": source.bit_rate > limit}


def _keyframes(source: VideoInfo, segment_seconds: float) -> dict[str, bool]:
    gap = source.keyframe_seconds
    if gap is None:
        return {"where its keyframes are is not known": True}
    return {f"up to {gap:.1f} s lie between its keyframes": gap > segment_seconds}
