"""What is in a file, measured: decoded pictures and sound, tones, flashes and clicks, boxes of an MP4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.frame import VideoFrame

Floats = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class DecodedVideo:
    """All frames of a track, in presentation order; `times` in seconds, as the file has them."""

    frames: tuple[VideoFrame, ...]
    times: tuple[Fraction, ...]

    def luma(self) -> np.ndarray[Any, Any]:
        """Frames × height × width, 8 bit, limited range."""
        return np.stack([_luma(frame) for frame in self.frames])


@dataclass(frozen=True)
class DecodedAudio:
    """All samples of a track: channels × samples, full scale 1. `start`: seconds of the first sample."""

    samples: Floats
    sample_rate: int
    layout: str
    start: Fraction

    @property
    def seconds(self) -> float:
        return int(self.samples.shape[1]) / self.sample_rate


def decode_video(path: Path, track: int = 0, *, limit: int | None = None) -> DecodedVideo:
    """Decodes a video track, wholly or its first `limit` frames."""
    frames: list[VideoFrame] = []
    times: list[Fraction] = []
    # a transport stream of a few packets is not recognised by its bytes
    form = "mpegts" if path.suffix == ".ts" else None
    with av.open(str(path.absolute()), format=form, metadata_errors="replace") as container:
        stream = container.streams.video[track]
        stream.thread_type = "AUTO"
        for number, frame in enumerate(container.decode(stream)):
            if number == limit:
                break
            frames.append(frame)
            times.append((frame.pts if frame.pts is not None else number) * (frame.time_base or Fraction(1)))
    return DecodedVideo(tuple(frames), tuple(times))


def decode_audio(path: Path, track: int = 0) -> DecodedAudio:
    """Decodes an audio track; samples that the file marks as priming or padding are left out."""
    parts: list[Floats] = []
    rate, layout, start = 0, "", None
    with av.open(str(path.absolute()), metadata_errors="replace") as container:
        stream = container.streams.audio[track]
        resampler: av.AudioResampler | None = None
        for frame in container.decode(stream):
            if start is None:
                start = (frame.pts or 0) * (frame.time_base or Fraction(1))
                rate, layout = frame.sample_rate, frame.layout.name
                resampler = av.AudioResampler(format="flt", layout=frame.layout, rate=rate)
            assert resampler is not None
            channels = frame.layout.nb_channels
            parts += [
                converted.to_ndarray().astype(np.float32).reshape(-1, channels).T
                for converted in resampler.resample(frame)
            ]
    if not parts:
        return DecodedAudio(np.zeros((0, 0), np.float32), rate, layout, Fraction(0))
    return DecodedAudio(np.concatenate(parts, axis=1), rate, layout, start or Fraction(0))


def psnr(reference: Path | DecodedVideo, other: Path | DecodedVideo, *, track: int = 0) -> float:
    """Luma PSNR in dB over all frame pairs in order; sizes may differ (the other is scaled to the reference's)."""
    first = decode_video(reference, track) if isinstance(reference, Path) else reference
    second = decode_video(other, track) if isinstance(other, Path) else other
    pairs = list(zip(first.frames, second.frames, strict=False))
    assert pairs, "no frames to compare"
    return frame_psnr([a for a, _ in pairs], [b for _, b in pairs])


def frame_psnr(reference: Sequence[VideoFrame], other: Sequence[VideoFrame]) -> float:
    """Luma PSNR in dB between frames, pair by pair."""
    error = 0.0
    for a, b in zip(reference, other, strict=True):
        left, right = _luma(a).astype(np.float64), _luma(b, (a.width, a.height)).astype(np.float64)
        error += float(np.mean((left - right) ** 2))
    mean = error / len(reference)
    return float("inf") if mean == 0 else 10 * float(np.log10(255**2 / mean))


def _luma(frame: VideoFrame, size: tuple[int, int] | None = None) -> np.ndarray[Any, Any]:
    width, height = size or (frame.width, frame.height)
    picture = frame.reformat(width=width, height=height, format="yuv420p", dst_color_range="MPEG")
    return picture.to_ndarray()[:height]


def tones(audio: DecodedAudio) -> tuple[float, ...]:
    """The strongest frequency of each channel in Hz; 0 for silence."""
    found = []
    for channel in audio.samples:
        if float(np.sqrt(np.mean(channel**2))) < 1e-3:
            found.append(0.0)
            continue
        spectrum = np.abs(np.fft.rfft(channel * np.hanning(len(channel))))
        found.append(float(np.argmax(spectrum)) * audio.sample_rate / len(channel))
    return tuple(found)


def flash_times(path: Path, track: int = 0) -> list[Fraction]:
    """Presentation times of the frames at which a dark picture turns bright."""
    video = decode_video(path, track)
    bright = [float(np.mean(luma)) > 110 for luma in video.luma()]
    return [
        time for time, now, before in zip(video.times, bright, [False, *bright], strict=False) if now and not before
    ]


def click_times(path: Path, track: int = 0, *, quiet_seconds: float = 0.05) -> list[float]:
    """Times at which sound sets in after at least `quiet_seconds` of silence."""
    audio = decode_audio(path, track)
    level = np.max(np.abs(audio.samples), axis=0)
    loud = np.flatnonzero(level > 0.3 * float(np.max(level, initial=1e-9)))
    gap = quiet_seconds * audio.sample_rate
    onsets = [int(at) for at, before in zip(loud, [-(10**9), *loud], strict=False) if at - before > gap]
    return [float(audio.start) + at / audio.sample_rate for at in onsets]


def packet_times(path: Path, kind: str = "video", track: int = 0) -> list[tuple[int | None, int | None, bool]]:
    """(pts, dts, keyframe) of each packet of a track, in file order and the track's own ticks."""
    with av.open(str(path.absolute()), metadata_errors="replace") as container:
        stream = [stream for stream in container.streams if stream.type == kind][track]
        return [(p.pts, p.dts, p.is_keyframe) for p in container.demux(stream) if p.size or p.pts is not None]


def assert_dts_rising(path: Path) -> None:
    """Every track's decode times rise strictly."""
    last: dict[int, int] = {}
    with av.open(str(path.absolute()), metadata_errors="replace") as container:
        tracks = [stream for stream in container.streams if stream.type in ("video", "audio")]
        for packet in container.demux(tracks):
            if packet.dts is None:
                continue
            before = last.get(packet.stream.index)
            assert before is None or packet.dts > before, f"track {packet.stream.index}: {before} then {packet.dts}"
            last[packet.stream.index] = packet.dts
    assert last, "no packets"


@dataclass(frozen=True)
class Box:
    """A box of an ISO base media file; `path` is its place, such as `moov/trak/tkhd`."""

    path: str
    offset: int
    body: bytes


_PARENTS = frozenset({"moov", "trak", "mdia", "minf", "stbl", "edts", "udta", "moof", "traf", "mvex", "dinf"})


def boxes(path: Path) -> list[Box]:
    """All boxes of an MP4/MOV, in file order (bodies of mdat are left out)."""
    data = path.read_bytes()
    return list(_boxes(data, 0, len(data), ""))


def find_boxes(path: Path, name: str) -> list[Box]:
    """Boxes whose path ends with `name`."""
    return [box for box in boxes(path) if box.path == name or box.path.endswith("/" + name)]


def _boxes(data: bytes, start: int, end: int, parent: str) -> Iterator[Box]:
    while start + 8 <= end:
        size = int.from_bytes(data[start : start + 4])
        name = data[start + 4 : start + 8].decode("latin-1")
        header = 8
        if size == 1:
            size, header = int.from_bytes(data[start + 8 : start + 16]), 16
        size = size or end - start
        if size < header:
            return
        path = f"{parent}/{name}" if parent else name
        yield Box(path, start, b"" if name == "mdat" else data[start + header : start + size])
        if name in _PARENTS:
            yield from _boxes(data, start + header, min(end, start + size), path)
        start += size


def moov_is_first(path: Path) -> bool:
    """Whether the index lies before the media (faststart)."""
    names = [box.path for box in boxes(path) if "/" not in box.path]
    return names.index("moov") < names.index("mdat")


def sample_entries(path: Path) -> list[str]:
    """The four-letter codes of all tracks' sample descriptions, such as `avc1`, `hvc1`, `mp4a`."""
    return [box.body[12:16].decode("latin-1") for box in find_boxes(path, "stsd")]


def edit_lists(path: Path) -> list[list[tuple[int, int]]]:
    """(duration, media time) of each edit of each track that has an edit list; duration in the movie's ticks."""
    found = []
    for box in find_boxes(path, "elst"):
        wide, count = box.body[0] == 1, int.from_bytes(box.body[4:8])
        step, half = (20, 8) if wide else (12, 4)
        entries = [box.body[8 + step * n : 8 + step * (n + 1)] for n in range(count)]
        found.append(
            [(int.from_bytes(entry[:half]), int.from_bytes(entry[half : 2 * half], signed=True)) for entry in entries]
        )
    return found


def matrices(path: Path) -> list[tuple[int, ...]]:
    """The nine numbers of each track header's matrix."""
    found = []
    for box in find_boxes(path, "tkhd"):
        at = 52 if box.body[0] == 1 else 40
        found.append(tuple(int.from_bytes(box.body[at + 4 * n : at + 4 * n + 4], signed=True) for n in range(9)))
    return found
