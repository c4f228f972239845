"""`probe`: what an input is, as its header and its first frames tell."""

from __future__ import annotations

from typing import Any

from av.container import InputContainer

from pipelines.errors import BadInput, LimitExceeded, NoFrames
from pipelines.facts.dolby_vision import declared
from pipelines.facts.hurried import HURRIED_FORMATS
from pipelines.facts.keyframes import longest_gop_seconds
from pipelines.facts.samples import Samples, take_samples
from pipelines.facts.structure import promised_size
from pipelines.facts.tracks import (
    audio_info,
    clean,
    is_picture,
    other_track,
    subtitle_info,
    video_info,
)
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, check_pixels, open_input
from pipelines.opening.sniff import tags_end
from pipelines.source import AudioInfo, Chapter, OtherTrack, SourceInfo, SubtitleInfo, VideoInfo

DOLBY_VISION_CODECS = ("hevc", "h264", "av1")
MAX_CHAPTERS = 1000
MAX_METADATA = 100
ASSUMED_FRAME_RATE = 30
MICROSECONDS = 1_000_000

CLOCKED_FORMATS = frozenset({"mpegts", "mpeg"})
"""Formats whose duration is the difference of two clock readings, wrong when the clock restarts between them."""
LAST_PACKET_SECONDS = 1.0
"""At most what the last packet lasts."""
FARTHEST_BY_SIZE = 4
"""How many times longer such a file may be than its size and first bit rate suggest."""
END_COUNTED_FORMATS = frozenset({"matroska", "webm", "nut", "wtv", "asf"})
"""Formats that count their duration from time 0, wherever the first track starts."""
GUESSED_FORMATS = frozenset(
    {"mp3", "aac", "loas", "ac3", "eac3", "dts", "mpegvideo", "h264", "hevc", "vvc", "m4v", "vc1", "obu"}
)
"""Formats without any duration: FFmpeg's is the size divided by the first frames' bit rate."""
UNEVEN_SIZES = 1.05
"""Packets that differ by more than this have no constant bit rate."""
MP3_INDEX_WITHIN = 2048


def probe(file: LocalFile, limits: Limits) -> SourceInfo:
    """Opens, reads the first frames of every track, and checks the limits.

    Raises BadInput (no track to decode), NoFrames (nothing came out of any), LimitExceeded, and what `open_input` does.
    """
    with open_input(file, limits) as container:
        samples = take_samples(container, [s for s in container.streams if _is_sampled(s)])
        source = _describe(file, container, samples, limits)
    _check_something_to_decode(source, samples)
    _check_work(source, limits)
    return source


def _is_sampled(stream: Any) -> bool:
    if stream.codec_context is None or stream.type not in ("video", "audio"):
        return False
    return stream.type == "audio" or not is_picture(stream)


def _describe(file: LocalFile, container: InputContainer, samples: Samples, limits: Limits) -> SourceInfo:
    video: list[VideoInfo] = []
    audio: list[AudioInfo] = []
    pictures: list[VideoInfo] = []
    subtitles: list[SubtitleInfo] = []
    other: list[OtherTrack] = []
    for stream in container.streams:
        sample = samples.tracks.get(stream.index)
        if stream.type == "video" and is_picture(stream):
            pictures.append(video_info(stream, len(pictures), None, limits))
        elif stream.type == "video":
            info = video_info(stream, len(video), sample, limits)
            gop_seconds = longest_gop_seconds(stream, _names(container))
            video.append(info.model_copy(update={"keyframe_seconds": gop_seconds}))
        elif stream.type == "audio":
            audio.append(audio_info(stream, len(audio), sample))
        elif stream.type == "subtitle":
            subtitles.append(subtitle_info(stream, len(subtitles)))
        else:
            other.append(other_track(stream))
    if samples.whole:
        # the file was read to its end: a track that showed no packet has none
        video = [v.model_copy(update=_as_seen(v, samples)) for v in video]
        audio = [a.model_copy(update=_as_seen(a, samples)) for a in audio]
    video = _with_dolby_vision(file, _names(container), video)
    for track in (*video, *pictures):
        check_pixels(track.width, track.height, limits, stream=track.index)
    start = min((t.start_seconds for t in (*video, *audio) if t.decodable and t.start_seconds is not None), default=0.0)
    duration = _duration(file, container, samples, [*video, *audio])
    if duration is not None and 0 < start < duration and _names(container) & END_COUNTED_FORMATS:
        duration = round(duration - start, 6)
    _check_duration(duration, limits)
    return SourceInfo(
        format=container.format.name,
        size_bytes=container.size if container.size > 0 else None,
        promised_bytes=_promised_bytes(file, _names(container)),
        duration_seconds=duration,
        start_seconds=start,
        bit_rate=container.bit_rate if container.bit_rate > 0 else None,
        video=tuple(video),
        audio=tuple(audio),
        subtitles=tuple(subtitles),
        pictures=tuple(pictures),
        other=tuple(other),
        chapters=_chapters(container, duration),
        metadata=_metadata(container),
    )


def _with_dolby_vision(file: LocalFile, formats: set[str], video: list[VideoInfo]) -> list[VideoInfo]:
    if not any(track.codec in DOLBY_VISION_CODECS for track in video):
        return video
    with file.path.open("rb") as stream:
        found = declared(stream.fileno(), formats)
    # Matroska's is that of its first picture
    return [
        track.model_copy(update={"dolby_vision": found.get(track.index, None if track.position else found.get(-1))})
        for track in video
    ]


def _promised_bytes(file: LocalFile, formats: set[str]) -> int | None:
    with file.path.open("rb") as stream:
        return promised_size(stream.fileno(), formats)


def _names(container: InputContainer) -> set[str]:
    return set(container.format.name.split(","))


def _as_seen(track: VideoInfo | AudioInfo, samples: Samples) -> dict[str, bool]:
    sample = samples.tracks.get(track.index)
    if sample is None:
        return {}
    return {"decodable": track.decodable and bool(sample.frames), "empty": sample.packets == 0}


def _duration(
    file: LocalFile, container: InputContainer, samples: Samples, tracks: list[VideoInfo | AudioInfo]
) -> float | None:
    """The promised duration; None where there is none, or where what FFmpeg says is a guess that can be far off."""
    names = _names(container)
    if container.duration is not None and container.duration > 0:
        seconds = container.duration / MICROSECONDS
    else:
        seconds = max((t.duration_seconds or 0.0 for t in tracks), default=0.0)
    if seconds <= 0 or (names & HURRIED_FORMATS and samples.seconds >= seconds):
        return None
    if names & GUESSED_FORMATS and not (_is_constant_rate(samples) or _has_mp3_index(file, names)):
        return None
    if names & CLOCKED_FORMATS and samples.whole:
        return min(seconds, round(samples.seconds + LAST_PACKET_SECONDS, 6))
    if names & CLOCKED_FORMATS and samples.seconds > 0.5:
        by_size = container.size / (samples.bytes / samples.seconds)
        return seconds if seconds <= FARTHEST_BY_SIZE * by_size else None
    return seconds


def _is_constant_rate(samples: Samples) -> bool:
    """Whether all packets seen were equally large (the first may be a header frame, the last may be cut)."""
    sizes = [size for sample in samples.tracks.values() for size in sample.sizes[1:-1]]
    return bool(sizes) and max(sizes) <= UNEVEN_SIZES * min(sizes)


def _has_mp3_index(file: LocalFile, formats: set[str]) -> bool:
    """Whether an MP3 starts with a header frame that counts its frames."""
    if "mp3" not in formats:
        return False
    with file.path.open("rb") as stream:
        stream.seek(tags_end(stream.fileno()))
        head = stream.read(MP3_INDEX_WITHIN)
    return any(mark in head for mark in (b"Xing", b"Info", b"VBRI"))


def _chapters(container: InputContainer, duration: float | None) -> tuple[Chapter, ...]:
    """In order of time; ends that are missing or wrong are where the next begins."""
    entries = [e for e in container.chapters()[:MAX_CHAPTERS] if e["time_base"]]
    entries.sort(key=lambda entry: entry["start"] * (entry["time_base"] or 0))
    starts = [float(entry["start"] * (entry["time_base"] or 0)) for entry in entries]
    chapters = []
    for n, entry in enumerate(entries):
        following = starts[n + 1] if n + 1 < len(starts) else max(duration or 0.0, starts[n])
        end = float(entry["end"] * (entry["time_base"] or 0))
        title = clean(entry["metadata"].get("title", ""))
        chapters.append(
            Chapter(start_seconds=starts[n], end_seconds=end if end >= starts[n] else following, title=title or None)
        )
    return tuple(chapters)


def _metadata(container: InputContainer) -> dict[str, str]:
    """The file's tags; Ogg writes them into its tracks."""
    tags = dict(container.metadata)
    if "ogg" in _names(container):
        for stream in container.streams:
            tags = {**stream.metadata, **tags}
    pairs = ((clean(key), clean(value)) for key, value in tags.items())
    return dict([(key, value) for key, value in pairs if key and value][:MAX_METADATA])


def _check_something_to_decode(source: SourceInfo, samples: Samples) -> None:
    tracks = (*source.video, *source.audio)
    if any(track.decodable for track in tracks):
        return
    if samples.tracks:
        raise NoFrames(
            "the input has tracks, but nothing could be decoded from them",
            stage="probe",
            errors=sum(sample.errors for sample in samples.tracks.values()),
        )
    if tracks:
        raise BadInput("no track of the input has a codec that can be decoded here", stage="probe", tracks=len(tracks))
    raise BadInput("the input has neither video nor audio", stage="probe", format=source.format)


def _check_duration(seconds: float | None, limits: Limits) -> None:
    if seconds is not None and seconds > limits.max_duration_seconds:
        raise LimitExceeded(
            "limit_duration",
            f"the input lasts {seconds:.0f} s; {limits.max_duration_seconds:.0f} s are allowed",
            stage="probe",
            duration_seconds=seconds,
            limit=limits.max_duration_seconds,
        )


def _check_work(source: SourceInfo, limits: Limits) -> None:
    """Frames × pixels of all video tracks, as far as the header tells."""
    work = 0.0
    for track in source.video:
        seconds = source.duration_seconds or 0.0
        frames = track.frame_count or seconds * float(track.frame_rate or ASSUMED_FRAME_RATE)
        work += frames * track.width * track.height
    if work > limits.max_work:
        raise LimitExceeded(
            "limit_work",
            f"decoding takes {work:.3g} pixels; {limits.max_work:.3g} are allowed",
            stage="probe",
            work=work,
            limit=limits.max_work,
        )
