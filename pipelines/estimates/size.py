"""How many bytes a plan will write: bitrates as they are asked for, qualities as pictures usually need. Pure.

A bitrate times the duration is nearly right. What constant quality comes to depends on the pictures; the only thing
known of them is how many bits the source has spent, so this is a rough guess: within a factor of two most often.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.encoders import DEFAULT_CRF, Options
from pipelines.hardware.encoders import API_OF, CODEC_OF, LAMBDA_PER_QP
from pipelines.rendition import AudioRendition, CopyRendition, OutputPlan, Plan, SubtitleRendition, VideoRendition
from pipelines.source import SourceInfo, VideoInfo

BITS_PER_PIXEL: Mapping[str, float] = {
    "h264": 0.085, "hevc": 0.05, "av1": 0.045, "vp9": 0.055, "mpeg2video": 0.2, "mpeg4": 0.13, "vp8": 0.1, "vc1": 0.09,
}  # fmt: skip
"""What films usually have at 1080p and 30 pictures a second, at each codec's usual quality."""

HALVES_AFTER: Mapping[str, float] = {"h264": 6.0, "hevc": 6.0, "av1": 10.0, "vp9": 10.0}
"""Steps of quality after which half the bits are enough."""

_USUAL_PIXELS, _USUAL_RATE = 1920 * 1080, 30.0
_SIZE_EXPONENT, _RATE_EXPONENT = -0.25, -0.5
"""Larger pictures, and more of them, need fewer bits for each pixel."""
_COMPLEXITY_EXPONENT = 0.7
_COMPLEXITY_BOUNDS = (0.1, 4.0)
"""How far a source's own bits are believed: it may have been encoded wastefully, or badly."""

_LOSSLESS_SHARE = 0.6
"""Of sound in FLAC, to 16 bits a sample."""
_OVERHEAD = {"mpegts": 1.04}
_USUAL_OVERHEAD = 1.005


@dataclass(frozen=True)
class _Size:
    bits_per_second: float | None
    reason: str | None = None


def estimated_size(plan: Plan, source: SourceInfo) -> tuple[int | None, list[str]]:
    """Bytes of all outputs; None where the duration or a part is not known. And in words how that comes about."""
    duration = plan.duration_seconds
    if duration is None:
        return None, []
    total = 0.0
    reasons: list[str] = []
    for output in plan.outputs:
        sizes = [_rendition(rendition, output, source) for rendition in output.renditions]
        reasons += [size.reason for size in sizes if size.reason is not None and size.reason not in reasons]
        paces = [float(rendition.pace) for rendition in output.renditions]
        rates = [
            None if size.bits_per_second is None else size.bits_per_second / pace
            for size, pace in zip(sizes, paces, strict=True)
        ]
        if None in rates:
            return None, reasons
        total += sum(rate for rate in rates if rate is not None) * _OVERHEAD.get(output.muxer, _USUAL_OVERHEAD)
    return round(total * duration / 8), reasons


def _rendition(rendition: object, output: OutputPlan, source: SourceInfo) -> _Size:
    match rendition:
        case VideoRendition():
            return _video(rendition, source)
        case AudioRendition():
            return _audio(rendition)
        case SubtitleRendition():
            return _Size(0.0)
        case CopyRendition():
            return _copied(rendition, source)
    return _Size(None, f"how large {output.type} becomes is not predicted")


def _audio(rendition: AudioRendition) -> _Size:
    if rendition.bit_rate is not None:
        return _Size(rendition.bit_rate)
    channels = {"mono": 1, "stereo": 2, "quad": 4, "5.0": 5, "5.1": 6, "6.1": 7, "7.1": 8}.get(rendition.layout, 2)
    return _Size(rendition.sample_rate * channels * 16 * _LOSSLESS_SHARE)


def _copied(rendition: CopyRendition, source: SourceInfo) -> _Size:
    """As the file says; of a track that it says nothing of, what the others leave of the whole."""
    if rendition.media not in ("video", "audio"):
        return _Size(0.0)
    tracks = {track.index: track for track in (*source.video, *source.audio)}
    track = tracks.get(rendition.stream)
    if track is not None and track.bit_rate is not None:
        return _Size(track.bit_rate)
    others = [each.bit_rate for index, each in tracks.items() if index != rendition.stream]
    rate = _file_rate(source)
    if rate is None or None in others:
        return _Size(None, f"the source does not say how large track {rendition.stream} is")
    return _Size(max(0.0, rate - sum(other for other in others if other is not None)))


def _file_rate(source: SourceInfo) -> float | None:
    if source.bit_rate is not None:
        return source.bit_rate
    if source.size_bytes is None or not source.duration_seconds:
        return None
    return source.size_bytes * 8 / source.duration_seconds


def _video(rendition: VideoRendition, source: SourceInfo) -> _Size:
    options = rendition.options
    codec = CODEC_OF.get(rendition.encoder, rendition.codec)
    quality = _quality(rendition.encoder, codec, options)
    bits = int(options.get("b", "0"))
    what = f"{rendition.encoder} at {rendition.width}x{rendition.height}"
    if quality is None:
        if bits <= 0:
            return _Size(None, f"how large {what} becomes is not predicted")
        return _Size(bits, f"size: {what} is to have {bits} bit/s")
    if codec not in HALVES_AFTER:
        return _Size(None, f"how large {what} becomes is not predicted")
    tracks = {track.index: track for track in source.video}
    complexity = _complexity(tracks.get(rendition.stream), source)
    rate = float(rendition.frame_rate)
    usual = _usual(codec, rendition.width * rendition.height, rate)
    halvings = (quality - DEFAULT_CRF[codec]) / HALVES_AFTER[codec]
    guess = usual * math.pow(complexity, _COMPLEXITY_EXPONENT) * math.pow(2.0, -halvings)
    cap = int(options.get("maxrate", "0")) or (bits if rendition.encoder == "libvpx-vp9" else 0)
    reason = f"size: {what} at quality {quality:g} is a rough guess by {'the source' if complexity != 1 else 'films'}"
    if 0 < cap < guess:
        return _Size(cap, f"{reason}, capped at {cap} bit/s")
    return _Size(guess, reason)


def _usual(codec: str, pixels: int, rate: float) -> float:
    """Bit/s."""
    size = math.pow(pixels / _USUAL_PIXELS, _SIZE_EXPONENT)
    return BITS_PER_PIXEL[codec] * pixels * rate * size * math.pow(max(rate, 1.0) / _USUAL_RATE, _RATE_EXPONENT)


def _complexity(track: VideoInfo | None, source: SourceInfo) -> float:
    """The source's bits to what its codec usually needs; 1 where that says nothing."""
    if track is None or track.codec not in BITS_PER_PIXEL:
        return 1.0
    rate = track.bit_rate
    if rate is None:
        whole = _file_rate(source)
        others = sum(each.bit_rate or 128_000 for each in source.audio)
        rate = None if whole is None or len(source.video) > 1 else round(max(0.0, whole - others))
    if not rate:
        return 1.0
    usual = _usual(track.codec, track.width * track.height, float(track.frame_rate or 25))
    low, high = _COMPLEXITY_BOUNDS
    return min(high, max(low, rate / usual))


def _quality(encoder: str, codec: str, options: Options) -> float | None:
    """On the software encoder's scale; None where a bitrate rules."""
    if encoder not in API_OF:
        said = options.get("crf", options.get("qp"))
        return None if said is None else float(said)
    said = options.get("global_quality")
    if said is None:
        return None
    value = float(said) / LAMBDA_PER_QP if "qscale" in options.get("flags", "") else float(said)
    if codec in ("h264", "hevc"):
        return value
    # the way back of `hardware_encoders`' scales
    constant_quantiser = options.get("rc_mode") == "CQP" or "qscale" in options.get("flags", "")
    return value / 4 if constant_quantiser else value * 63 / 51
