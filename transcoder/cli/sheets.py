"""A source and a plan as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from pipelines.estimates.work import Estimate
from pipelines.rendition import (
    AudioRendition,
    CopyRendition,
    PictureRendition,
    Plan,
    RenditionPlan,
    SubtitleRendition,
    VideoRendition,
)
from pipelines.source import AudioInfo, SourceInfo, SubtitleInfo, Track, VideoInfo
from transcoder.cli.screen import out, show_warnings, table
from transcoder.cli.values import format_bitrate, format_bytes, format_seconds


def show_source(name: str, info: SourceInfo) -> None:
    """The file in a line, a row for each track, then what has no row."""
    console = out()
    console.print(name, style="bold", markup=False)
    facts = [info.format, format_bytes(info.size_bytes), format_seconds(info.duration_seconds)]
    if info.bit_rate is not None:
        facts.append(format_bitrate(info.bit_rate))
    console.print(", ".join(facts), markup=False)
    table(("#", "track", "codec", "what", "bitrate", "language"), sorted(_tracks(info), key=lambda row: int(row[0])))
    for other in info.other:
        console.print(f"{other.index}: {other.kind} ({other.codec or 'unknown'})", markup=False)
    if info.chapters:
        console.print(f"{len(info.chapters)} chapters", markup=False)
    for key, value in info.metadata.items():
        console.print(f"{key}: {value}", markup=False)


def _tracks(info: SourceInfo) -> Iterator[Sequence[str]]:
    for video in info.video:
        yield _row(video, "video", _picture(video))
    for picture in info.pictures:
        yield _row(picture, "cover", f"{picture.width}×{picture.height}")
    for audio in info.audio:
        yield _row(audio, "audio", _sound(audio))
    for subtitle in info.subtitles:
        yield _row(subtitle, "subtitles", _subtitle(subtitle))


def _row(track: Track, kind: str, what: str) -> Sequence[str]:
    marks = [mark for mark, on in (("default", track.default), ("forced", track.forced)) if on]
    if not track.decodable:
        what = f"not decodable here; {what}"
    language = " ".join(filter(None, (track.language, track.title and f'"{track.title}"', *marks)))
    return str(track.index), kind, track.codec, what, format_bitrate(track.bit_rate), language


def _picture(video: VideoInfo) -> str:
    width, height = (round(side) for side in video.display_size)
    facts = [f"{video.width}×{video.height}"]
    if (width, height) != (video.width, video.height):
        facts.append(f"shown at {width}×{height}")
    if video.rotation:
        facts.append(f"turned {video.rotation}°")
    if video.frame_rate is not None:
        facts.append(f"{_rate(video.frame_rate)} fps")
    if video.pixel_format is not None:
        facts.append(video.pixel_format)
    colour = video.colour
    tags = (colour.matrix, colour.primaries, colour.transfer)
    names = dict.fromkeys(tag for tag in tags if tag is not None)
    facts += ["/".join(names)] if names else []
    facts += ["HDR"] if colour.is_hdr else []
    facts += ["full range"] if colour.range == "pc" else []
    facts += [f"interlaced ({video.field_order})"] if video.field_order not in (None, "progressive") else []
    return ", ".join(facts)


def _sound(audio: AudioInfo) -> str:
    bits = "" if audio.bits_per_sample is None else f", {audio.bits_per_sample} bits"
    return f"{audio.layout}, {audio.sample_rate / 1000:g} kHz{bits}"


def _subtitle(subtitle: SubtitleInfo) -> str:
    return subtitle.kind


def _rate(rate: Fraction) -> str:
    return f"{float(rate):.5g}"


def show_plan(plan: Plan) -> None:
    """What is decoded, then a row for each track that is written, each with its reason."""
    console = out()
    console.print(f"on {plan.device}, {format_seconds(plan.duration_seconds)} to make", markup=False)
    if plan.decode:
        table(
            ("decode", "decoder", "where", "why"),
            ((f"track {step.stream} ({step.kind})", step.decoder, step.placement, step.reason) for step in plan.decode),
        )
    if plan.refusals:
        rows = ((refusal.device, refusal.option, refusal.reason) for refusal in plan.refusals)
        table(("device", "not taken", "why"), rows)
    for output in plan.outputs:
        table(
            ("track", "made by", "what", "why"),
            ((str(r.stream), *_made(r), r.reason) for r in output.renditions),
            title=f"{output.path} ({output.type})",
        )
    if plan.estimate is not None:
        show_estimate(plan.estimate)
    show_warnings(plan.warnings)


def show_estimate(estimate: Estimate) -> None:
    """What it is expected to take, and how that is known."""
    console = out()
    speed = "–" if estimate.speed is None else f"{estimate.speed:.3g} × real time"
    told = (speed, format_seconds(estimate.seconds), format_bytes(estimate.size_bytes))
    console.print(f"expected: {', '.join(told)}", markup=False)
    for reason in estimate.because:
        console.print(f"  {reason}", markup=False)


def _made(rendition: RenditionPlan) -> tuple[str, str]:
    """The encoder, and what comes out of it."""
    match rendition:
        case VideoRendition():
            timing = f"{_rate(rendition.frame_rate)} fps" + ("" if rendition.constant_rate else ", source timing")
            options = " ".join(f"{key}={value}" for key, value in rendition.options.items())
            size = f"{rendition.width}×{rendition.height}"
            where = f"{rendition.filter_placement} filters, " if rendition.placement == "hardware" else ""
            return rendition.encoder, f"{size}, {timing}, {rendition.pixel_format}, {where}{options}"
        case AudioRendition():
            rate = "lossless" if rendition.bit_rate is None else format_bitrate(rendition.bit_rate)
            return rendition.encoder, f"{rendition.layout}, {rendition.sample_rate / 1000:g} kHz, {rate}"
        case SubtitleRendition():
            return rendition.encoder, "subtitles"
        case PictureRendition():
            return rendition.encoder, f"{rendition.form}, {rendition.width}×{rendition.height}"
        case CopyRendition():
            return "copy", f"{rendition.media}, {rendition.codec}"
