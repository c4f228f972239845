"""Encoders at work: output streams configured from renditions, and packets with exact times and durations."""

from __future__ import annotations

import os
from fractions import Fraction
from math import ceil
from typing import Any

import av
from av.audio.frame import AudioFrame
from av.codec.hwaccel import HWAccel
from av.container import InputContainer, OutputContainer
from av.packet import Packet
from av.video.frame import PictureType, VideoFrame

from pipelines.errors import EncoderRejected, cause
from pipelines.rendition import AudioRendition, SubtitleRendition, VideoRendition
from pipelines.scheduling import ordinary_threads
from pipelines.video.colours import MATRICES, PRIMARIES, RANGES, TRANSFERS

MAX_THREADS = 16
PROGRESSIVE = 1
"""AVFieldOrder."""
EXPLICIT_THREADS = ("libvpx-vp9",)
"""Encoders that take no thread count as one thread."""


def encoder_time_base(rendition: VideoRendition, source: Fraction, container_denominator: int) -> Fraction:
    """Ticks that keep every source time exactly, or within half a source tick where the container's are coarser."""
    if rendition.constant_rate:
        return 1 / rendition.frame_rate
    if container_denominator == 1000:
        return Fraction(1, 1000)
    if rendition.pace != 1:
        # parts of the source's ticks as they are played
        source = Fraction(1, (source / rendition.pace).denominator)
        source /= max(1, -(-10_000 * source.numerator // source.denominator))
    if source.numerator == 1 and 10_000 <= source.denominator <= 1_000_000:
        return source
    return Fraction(1, 90_000)


def add_video_stream(container: OutputContainer, rendition: VideoRendition, time_base: Fraction) -> Any:
    """An opened video stream; EncoderRejected when the encoder refuses or ignores an option."""
    stream = configure_video_stream(container, rendition, time_base, pixel_format=rendition.pixel_format)
    open_encoder(stream.codec_context, rendition.encoder)
    return stream


def configure_video_stream(
    container: OutputContainer,
    rendition: VideoRendition,
    time_base: Fraction,
    *,
    pixel_format: str,
    hwaccel: HWAccel | None = None,
) -> Any:
    """A video stream whose encoder is not open yet. `pixel_format`: that of its frames, or the kind of surfaces."""
    stream: Any = container.add_stream(
        rendition.encoder,
        rate=rendition.frame_rate,
        options=dict(rendition.options),
        hwaccel=hwaccel,
        width=rendition.width,
        height=rendition.height,
        bit_rate_tolerance=4_000_000,
        time_base=time_base,
    )
    context = stream.codec_context
    context.pix_fmt = pixel_format
    context.sample_aspect_ratio = rendition.sample_aspect_ratio
    colour = rendition.colour
    context.color_primaries = PRIMARIES.get(colour.primaries or "", 2)
    context.color_trc = TRANSFERS.get(colour.transfer or "", 2)
    context.colorspace = MATRICES.get(colour.matrix or "", 2)
    context.color_range = RANGES.get(colour.range or "", 0)
    # PyAV's default, slices alone, makes x264 cut each picture into slices: slower, and worse pictures
    context.thread_type = "AUTO"
    if rendition.encoder in EXPLICIT_THREADS:
        context.thread_count = min(MAX_THREADS, os.cpu_count() or 1)
    context.field_order = PROGRESSIVE
    if rendition.rotation or rendition.mirrored:
        # PyAV turns counter-clockwise and mirrors afterwards
        turn = rendition.rotation if rendition.mirrored else -rendition.rotation
        stream.set_display_rotation(turn, hflip=rendition.mirrored)
    if rendition.codec_tag is not None:
        context.codec_tag = rendition.codec_tag
    return stream


def add_audio_stream(container: OutputContainer, rendition: AudioRendition) -> Any:
    """An opened audio stream."""
    stream: Any = container.add_stream(
        rendition.encoder, rate=rendition.sample_rate, options=dict(rendition.options), bit_rate_tolerance=4_000_000
    )
    context = stream.codec_context
    context.layout = rendition.layout
    context.format = rendition.sample_format
    open_encoder(context, rendition.encoder)
    return stream


def add_subtitle_stream(container: OutputContainer, rendition: SubtitleRendition, source: InputContainer) -> Any:
    """An opened text subtitle stream, with the header (styles) that the decoder found."""
    decoder: Any = source.streams[rendition.stream].codec_context
    decoder.open(strict=False)
    stream: Any = container.add_stream(rendition.encoder)
    stream.codec_context.subtitle_header = decoder.subtitle_header
    stream.codec_context.time_base = Fraction(1, 1000)
    open_encoder(stream.codec_context, rendition.encoder)
    return stream


def open_encoder(context: Any, encoder: str) -> None:
    """Opens the encoder and refuses options that it did not use: FFmpeg says nothing of them."""
    try:
        with ordinary_threads():
            context.open(strict=False)
    except (av.error.FFmpegError, ValueError) as error:
        raise EncoderRejected(
            f"{encoder} refused its settings: {cause(error)}",
            stage="encode",
            encoder=encoder,
            options=dict(context.options),
        ) from error
    refuse_unused(context, encoder)


def refuse_unused(context: Any, encoder: str) -> None:
    """EncoderRejected for options that the opened encoder left unused."""
    if context.options:
        unused = ", ".join(f"{key}={value}" for key, value in context.options.items())
        raise EncoderRejected(
            f"{encoder} does not know {unused}", stage="encode", encoder=encoder, unused_options=dict(context.options)
        )


class VideoEncoder:
    """Encodes frames at given times. Keyframes are forced at the first frame at or after each multiple of the GOP.

    Multiples are counted in seconds, not in frames: so they are at the same times in renditions of different rates.
    """

    def __init__(self, stream: Any, rendition: VideoRendition, time_base: Fraction) -> None:
        self._stream = stream
        self._time_base = time_base
        self._gop_ticks = Fraction(rendition.gop_seconds).limit_denominator(1_000_000) / time_base
        self._next_key: int | None = None
        self._durations: dict[int, int] = {}
        self.frames = self.packets = self.bytes = 0
        self.first: int | None = None
        self.end = 0

    def encode(self, frame: VideoFrame, pts: int, duration: int) -> list[Packet[Any]]:
        """`pts` and `duration` in the encoder's ticks."""
        frame.pts = pts
        frame.time_base = self._time_base
        frame.duration = duration
        # the source's own picture type must not leak through: encoders take it as an order
        if self._next_key is None or pts >= self._next_key:
            frame.pict_type = PictureType.I
            self._next_key = ceil((pts // self._gop_ticks + 1) * self._gop_ticks)
        else:
            frame.pict_type = PictureType.NONE
        self.first = pts if self.first is None else self.first
        self._durations[pts] = duration
        self.frames += 1
        self.end = max(self.end, pts + duration)
        return self._finish(self._stream.encode(frame))

    def cut(self) -> None:
        """The next frame becomes a keyframe: it does not go on from the one before."""
        self._next_key = None

    def flush(self) -> list[Packet[Any]]:
        return self._finish(self._stream.encode(None))

    def _finish(self, packets: list[Packet[Any]]) -> list[Packet[Any]]:
        for packet in packets:
            if packet.pts is not None and (duration := self._durations.pop(packet.pts, None)) is not None:
                packet.duration = duration
            self.packets += 1
            self.bytes += packet.size
        return packets

    @property
    def start_seconds(self) -> float | None:
        """When its first picture is shown; None before that."""
        return None if self.first is None else float(self.first * self._time_base)

    @property
    def end_seconds(self) -> float:
        return float(self.end * self._time_base)


PRIMING_SAMPLES = {"libmp3lame": 1105}
"""Of encoders whose priming is no whole number of frames and whose frames need but the one before them.

LAME's is 576 + 529 samples of its own and of any decoder. Opus is not among these: its frames lean on many before them.
"""


class AudioEncoder:
    """Encodes sound whose times are samples.

    Packets that hold nothing but the encoder's priming are left out where the container can't signal it (`priming`
    False): a player would play them as silence, and each generation would start a little later.
    """

    def __init__(self, stream: Any, rendition: AudioRendition, *, priming: bool) -> None:
        self._priming = priming
        self._stream = stream
        self._rate, self._encoder = rendition.sample_rate, rendition.encoder
        self.frames = self.packets = self.bytes = 0
        self.end = 0

    @property
    def frame_size(self) -> int:
        """Samples that the encoder wants in each frame; 0: any number."""
        return int(self._stream.codec_context.frame_size)

    @property
    def lead_samples(self) -> int:
        """Silence to begin with, so that what is left out of the priming ends where the sound begins."""
        return 0 if self._priming else -PRIMING_SAMPLES.get(self._encoder, 0) % max(1, self.frame_size)

    def encode(self, frame: AudioFrame) -> list[Packet[Any]]:
        self.frames += 1
        self.end = (frame.pts or 0) + frame.samples
        return self._count(self._stream.encode(frame))

    def flush(self) -> list[Packet[Any]]:
        return self._count(self._stream.encode(None))

    def _count(self, packets: list[Packet[Any]]) -> list[Packet[Any]]:
        if not self._priming:
            packets = [packet for packet in packets if (packet.pts or 0) + (packet.duration or 1) > 0]
        self.packets += len(packets)
        self.bytes += sum(packet.size for packet in packets)
        return packets

    @property
    def end_seconds(self) -> float:
        return self.end / self._rate
