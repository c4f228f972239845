"""Media made for tests: small clips with known pictures, sound, timing and tags. Nothing is stored in the repository.

Pictures are FFmpeg's `testsrc2` unless frames are given; each audio channel carries a tone of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import av
from av.video.frame import VideoFrame

from pipelines.scheduling import ordinary_threads
from pipelines.source import Colour
from tests.signals import Rate, Size, Tone, moving_pictures, plain_picture
from tests.tracks import (
    ENCODERS,
    WIDEST_BIT_RATE_TOLERANCE,
    Mark,
    Subtitles,
    add_cover,
    add_sound,
    add_subtitles,
    chapter_entries,
    encode_cues,
    encode_sound,
    encode_video,
    mux_in_order,
    tag,
    video_options,
)

__all__ = ["Mark", "Subtitles", "Tone", "make_audio", "make_flash_click", "make_picture", "make_video"]

MUXERS = {"mkv": "matroska", "ts": "mpegts", "m2ts": "mpegts", "m4a": "ipod", "mpg": "mpeg", "aac": "adts"}


@ordinary_threads()
def make_video(
    path: Path,
    *,
    size: Size = (320, 240),
    rate: Rate = 25,
    seconds: float | Fraction = 2,
    codec: str = "h264",
    container: str | None = None,
    pixel_format: str = "yuv420p",
    audio: Sequence[Tone] = (Tone(),),
    subtitles: Sequence[Subtitles] = (),
    frames: Iterable[VideoFrame] | None = None,
    timestamps: Sequence[Fraction] | None = None,
    time_base: Fraction | None = None,
    end: Fraction | None = None,
    start: Fraction = Fraction(0),
    gop: int | None = None,
    b_frames: int = 0,
    bit_rate: int = 0,
    rotation: int = 0,
    mirrored: bool = False,
    sar: Fraction | None = None,
    colour: Colour | None = None,
    interlaced: Literal["top", "bottom"] | None = None,
    cover: bool = False,
    chapters: Sequence[Mark] = (),
    metadata: dict[str, str] | None = None,
    video_metadata: dict[str, str] | None = None,
    attachments: Sequence[tuple[str, str, bytes]] = (),
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    codec_tag: str | None = None,
) -> Path:
    """Writes a clip and returns its path.

    `timestamps`: presentation times in seconds, one per frame, for variable rates; the last
    frame is shown until `end`. `rotation`: degrees clockwise that a
    player turns the picture by, after mirroring it. `start` moves all tracks; each `Tone.start` moves one more.
    """
    seconds = Fraction(seconds)
    encoder = ENCODERS.get(codec, codec)
    with av.open(str(path), "w", format=_muxer(path, container), options=container_options or {}) as output:
        output.metadata.update(metadata or {})
        video: Any = output.add_stream(
            encoder,
            rate=rate,
            width=size[0],
            height=size[1],
            bit_rate=bit_rate,
            bit_rate_tolerance=WIDEST_BIT_RATE_TOLERANCE,
            time_base=time_base or (Fraction(1, 90_000) if timestamps else 1 / Fraction(rate)),
            options=video_options(encoder, interlaced, options),
        )
        context = video.codec_context
        context.pix_fmt = pixel_format
        context.max_b_frames = b_frames
        if gop is not None:
            context.gop_size = gop
        if sar is not None:
            context.sample_aspect_ratio = sar
        if codec_tag is not None:
            context.codec_tag = codec_tag
        tag(context, colour or Colour())
        if rotation or mirrored:
            video.set_display_rotation(rotation if mirrored else -rotation, hflip=mirrored)
        video.metadata.update(video_metadata or {})
        sounds = [add_sound(output, tone) for tone in audio]
        captions = [add_subtitles(output, track) for track in subtitles]
        for name, mimetype, data in attachments:
            output.add_attachment(name, mimetype, data)
        art = add_cover(output) if cover else None
        if chapters:
            output.set_chapters(chapter_entries(chapters))
        if frames is None:
            frames = moving_pictures(size, rate, seconds, pixel_format, interlaced=interlaced)
        output.start_encoding()
        if art is not None:
            output.mux(art)
        lanes = [encode_video(video, frames, rate, timestamps, start, end)]
        lanes += [encode_sound(stream, tone, seconds, start) for stream, tone in zip(sounds, audio, strict=True)]
        lanes += [encode_cues(stream, track, start) for stream, track in zip(captions, subtitles, strict=True)]
        mux_in_order(output, lanes)
    return path


def make_audio(
    path: Path,
    *,
    tracks: Sequence[Tone] | None = None,
    codec: str | None = None,
    layout: str = "stereo",
    sample_rate: int = 48_000,
    seconds: float | Fraction = 2,
    frequencies: tuple[float, ...] | None = None,
    container: str | None = None,
    cover: bool = False,
    chapters: Sequence[Mark] = (),
    metadata: dict[str, str] | None = None,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
) -> Path:
    """Writes a file with sound only (one track by default; the codec is the container's usual one)."""
    seconds = Fraction(seconds)
    if cover and container is None and path.suffix == ".m4a":
        container = "mp4"  # PyAV asks the ipod muxer whether it takes pictures, and is told no
    with av.open(str(path), "w", format=_muxer(path, container), options=container_options or {}) as output:
        output.metadata.update(metadata or {})
        tracks = tracks or (
            Tone(codec or output.default_audio_codec, layout, sample_rate, frequencies, options=options or {}),
        )
        sounds = [add_sound(output, tone) for tone in tracks]
        art = add_cover(output) if cover else None
        if chapters:
            output.set_chapters(chapter_entries(chapters))
        output.start_encoding()
        if art is not None:
            output.mux(art)
        lanes = [encode_sound(stream, tone, seconds, Fraction(0)) for stream, tone in zip(sounds, tracks, strict=True)]
        mux_in_order(output, lanes)
    return path


def make_flash_click(
    path: Path,
    *,
    times: Sequence[Fraction] = (Fraction(1, 2), Fraction(3, 2)),
    seconds: float | Fraction = 2,
    rate: Rate = 30,
    size: Size = (320, 240),
    audio_codec: str = "aac",
    sample_rate: int = 48_000,
    **options: Any,
) -> Path:
    """A black clip with a white frame and a click at each of `times`, which lie on frames."""
    count = int(Fraction(seconds) * rate)
    flashes = {round(time * rate) for time in times}
    frames = (plain_picture(size, 235 if number in flashes else 16) for number in range(count))
    tone = Tone(audio_codec, "mono", sample_rate, clicks=tuple(times), amplitude=0.8)
    return make_video(path, size=size, rate=rate, seconds=seconds, frames=frames, audio=(tone,), **options)


def make_picture(path: Path, *, size: Size = (320, 240), codec: str = "png", pixel_format: str = "rgb24") -> Path:
    """A still image."""
    with av.open(str(path), "w", format="image2", options={"update": "1"}) as output:
        stream: Any = output.add_stream(codec, rate=25, width=size[0], height=size[1])
        stream.pix_fmt = pixel_format
        for frame in moving_pictures(size, 25, Fraction(1, 25), pixel_format):
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def _muxer(path: Path, container: str | None) -> str | None:
    name = container or path.suffix.removeprefix(".")
    return MUXERS.get(name, container)
