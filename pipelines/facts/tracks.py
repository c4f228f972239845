"""Facts of single tracks, from their headers and their first frames."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, Literal

from av.stream import Disposition

from pipelines.errors import LimitExceeded
from pipelines.facts.frame_rates import best_rate, measure
from pipelines.facts.pictures import colour_of, field_order, orientation, plausible_aspect
from pipelines.facts.pulldown import turns_pattern
from pipelines.facts.samples import Sample
from pipelines.limits import Limits
from pipelines.metadata import roles_of
from pipelines.source import AudioInfo, OtherTrack, SubtitleInfo, VideoInfo

SubtitleKind = Literal["text", "picture", "unknown"]
SUBTITLE_KINDS: dict[str, SubtitleKind] = {
    **dict.fromkeys(
        (
            "subrip", "ass", "ssa", "mov_text", "webvtt", "text", "ttml", "microdvd", "subviewer", "subviewer1",
            "jacosub", "sami", "realtext", "stl", "mpl2", "pjs", "vplayer", "hdmv_text_subtitle",
        ),
        "text",
    ),
    **dict.fromkeys(("hdmv_pgs_subtitle", "dvd_subtitle", "dvb_subtitle", "xsub"), "picture"),
}  # fmt: skip

_LOSSLESS = frozenset(
    {"flac", "alac", "wavpack", "tta", "ape", "tak", "shorten", "truehd", "mlp", "als", "wmalossless"}
)
_PCM_BITS = re.compile(r"pcm_(?:alaw|mulaw|[a-z]+(\d+))")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*")
_CLOCK_TIME = re.compile(r"(\d{1,4}):(\d\d):(\d\d(?:\.\d{1,9})?)")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]+")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
MAX_TEXT = 1000


def clean(text: str) -> str:
    """One line without control characters, of at most MAX_TEXT characters."""
    return _CONTROLS.sub(" ", _SURROGATES.sub("\ufffd", text)).strip()[:MAX_TEXT]


def codec_name(stream: Any) -> str:
    """FFmpeg's name of the codec (not of its decoder); `unknown` where this build has no decoder for it."""
    return stream.codec_context.codec.canonical_name if stream.codec_context is not None else "unknown"


def is_picture(stream: Any) -> bool:
    """Whether a video stream is an attached picture (cover art)."""
    return bool(stream.disposition & (Disposition.attached_pic | Disposition.timed_thumbnails))


def video_info(stream: Any, position: int, sample: Sample | None, limits: Limits) -> VideoInfo:
    """Of a video track or an attached picture, which has no sample. LimitExceeded (limit_fps)."""
    context = stream.codec_context
    if context is None:
        return VideoInfo(**_common(stream, position, sample), width=0, height=0, time_base=_time_base(stream))
    frame = sample.frames[0] if sample is not None and sample.frames else None
    pixel_format = frame.format if frame is not None else context.format
    rotation, mirrored = orientation(frame) if frame is not None else (0, False)
    return VideoInfo(
        **_common(stream, position, sample),
        profile=context.profile,
        width=frame.width if frame is not None else context.width,
        height=frame.height if frame is not None else context.height,
        pixel_format=pixel_format.name if pixel_format is not None else None,
        bit_depth=pixel_format.components[0].bits if pixel_format is not None and pixel_format.components else 8,
        # the container's word counts before the codec's
        sample_aspect_ratio=plausible_aspect(stream.sample_aspect_ratio, context.sample_aspect_ratio),
        rotation=rotation,
        mirrored=mirrored,
        frame_rate=_frame_rate(stream, sample, limits) if sample is not None else None,
        frame_count=stream.frames or None,
        time_base=_time_base(stream),
        field_order=field_order(sample.frames if sample is not None else (), context),
        uneven=sample is not None and turns_pattern(sample.times, sample.time_base) is True,
        interlacing=sample.scan.verdict if sample is not None and sample.scan is not None else None,
        colour=colour_of(frame, context),
    )


def audio_info(stream: Any, position: int, sample: Sample | None) -> AudioInfo:
    context = stream.codec_context
    if context is None:
        return AudioInfo(**_common(stream, position, sample), sample_rate=0, channels=0, layout="0 channels")
    # a frame knows better: HE-AAC doubles the header's rate, parametric stereo its channels
    told = sample.frames[0] if sample is not None and sample.frames else context
    codec = codec_name(stream)
    return AudioInfo(
        **_common(stream, position, sample),
        sample_rate=told.sample_rate,
        channels=told.layout.nb_channels,
        layout=told.layout.name,
        sample_format=told.format.name if told.format is not None else None,
        bits_per_sample=_bits(codec, told.format),
    )


def subtitle_info(stream: Any, position: int) -> SubtitleInfo:
    return SubtitleInfo(**_common(stream, position, None), kind=SUBTITLE_KINDS.get(codec_name(stream), "unknown"))


def other_track(stream: Any) -> OtherTrack:
    names = {"data": lambda: stream.name, "attachment": lambda: stream.mimetype}
    name = names.get(stream.type, lambda: None)()
    return OtherTrack(index=stream.index, kind=stream.type, codec=clean(name) if name else None)


def _common(stream: Any, position: int, sample: Sample | None) -> dict[str, Any]:
    context, base = stream.codec_context, _time_base(stream)
    start = sample.start_seconds if sample is not None else None
    if start is None and stream.start_time is not None:
        start = float(stream.start_time * base)
    duration = _duration_seconds(stream, base)
    language = _LANGUAGE.match(stream.metadata.get("language", ""))
    title = clean(stream.metadata.get("title") or stream.metadata.get("name") or "")
    return {
        "index": stream.index,
        "position": position,
        "codec": codec_name(stream),
        "decodable": context is not None and (sample is None or bool(sample.frames) or sample.packets == 0),
        "empty": sample is not None and sample.packets == 0 and _says_nothing(stream, duration),
        "start_seconds": start,
        "duration_seconds": duration,
        "bit_rate": (getattr(context, "bit_rate", None) or None) if context is not None else None,
        "language": language[0] if language and language[0].lower() != "und" else None,
        "title": title or None,
        "default": bool(stream.disposition & Disposition.default),
        "forced": bool(stream.disposition & Disposition.forced),
        "roles": roles_of(stream.disposition),
    }


def _duration_seconds(stream: Any, base: Fraction) -> float | None:
    """Matroska says it in a tag (00:00:02.005000000), if at all; FFmpeg then gives the whole file's."""
    if "matroska" in stream.container.format.name:
        found = _CLOCK_TIME.match(stream.metadata.get("DURATION", ""))
        return None if found is None else int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])
    return float(stream.duration * base) if stream.duration is not None and stream.duration > 0 else None


def _says_nothing(stream: Any, duration: float | None) -> bool:
    """Whether the header gives a track without packets neither its parameters nor a length."""
    context = stream.codec_context
    known = context is not None and (context.sample_rate if stream.type == "audio" else context.width)
    return not known or duration == 0


def _time_base(stream: Any) -> Fraction:
    return stream.time_base or Fraction(1, 90_000)


def _frame_rate(stream: Any, sample: Sample, limits: Limits) -> Fraction | None:
    measured = measure(sample.times, sample.time_base)
    if measured is not None and measured.rate > limits.max_frame_rate:
        raise LimitExceeded(
            "limit_fps",
            f"{float(measured.rate):.0f} frames per second are more than the {limits.max_frame_rate:g} allowed",
            stage="probe",
            stream=stream.index,
            frame_rate=float(measured.rate),
            limit=limits.max_frame_rate,
        )
    declared = None
    if stream.frames and stream.duration:
        declared = stream.frames / (stream.duration * _time_base(stream))
    return best_rate((stream.average_rate, stream.guessed_rate, stream.base_rate), measured, declared)


def _bits(codec: str, sample_format: Any) -> int | None:
    if (pcm := _PCM_BITS.match(codec)) is not None:
        return int(pcm[1] or 8)
    return sample_format.bits if codec in _LOSSLESS and sample_format is not None else None
