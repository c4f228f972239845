"""Where encoders live, and what muxers copy the parameters of their tracks from."""

from __future__ import annotations

import io
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import av
from av.container import OutputContainer

from pipelines import encode
from pipelines.encode import AudioEncoder, VideoEncoder, encoder_time_base
from pipelines.live.units import Track
from pipelines.rendition import AudioRendition, VideoRendition

TICK = Fraction(1, 90_000)
"""Of decoded frames on their way to the encoders, and of video where a constant rate has no ticks of its own."""


class EncoderHome:
    """Opened encoders of a plan. Their container is never written to: it makes them put their headers aside."""

    def __init__(self, video: Mapping[str, VideoRendition], audio: Mapping[str, AudioRendition]) -> None:
        self._container: OutputContainer = av.open(io.BytesIO(), "w", format="mp4")
        self._video: dict[str, tuple[Any, VideoRendition, Fraction]] = {}
        self._audio: dict[str, tuple[Any, AudioRendition]] = {}
        try:
            for name, rendition in video.items():
                time_base = encoder_time_base(rendition, TICK, TICK.denominator)
                stream = encode.add_video_stream(self._container, rendition, time_base)
                self._video[name] = (stream, rendition, time_base)
            for name, sound in audio.items():
                self._audio[name] = (encode.add_audio_stream(self._container, sound), sound)
            if video or audio:
                # from here on the streams have what muxers copy
                self._container.start_encoding()
        except BaseException:
            self.close()
            raise

    def video(self, name: str) -> tuple[VideoEncoder, Track, Fraction]:
        stream, rendition, time_base = self._video[name]
        track = video_track(name, rendition, stream, time_base, home=self)
        return VideoEncoder(stream, rendition, time_base), track, time_base

    def audio(self, name: str) -> tuple[AudioEncoder, Track]:
        stream, rendition = self._audio[name]
        context = stream.codec_context
        track = Track(
            name, "audio", rendition.codec, Fraction(1, rendition.sample_rate), stream,
            bytes(context.extradata or b""), channels=context.layout.nb_channels, bit_rate=rendition.bit_rate,
            steady=True, home=self,
        )  # fmt: skip
        return AudioEncoder(stream, rendition, priming=True), track

    def close(self) -> None:
        self._container.close()


def video_track(name: str, rendition: VideoRendition, stream: Any, time_base: Fraction, *, home: Any) -> Track:
    """Of a stream whose encoder is open."""
    return Track(
        name, "video", rendition.codec, time_base, stream, bytes(stream.codec_context.extradata or b""),
        width=rendition.width, height=rendition.height, frame_rate=rendition.frame_rate,
        codec_tag=rendition.codec_tag, steady=rendition.constant_rate, home=home,
    )  # fmt: skip


class CopyHome:
    """Parameters of the source's tracks, kept after its connection has gone."""

    def __init__(self) -> None:
        self._container: OutputContainer = av.open(io.BytesIO(), "w", format="matroska")

    def track(self, name: str, stream: Any) -> Track:
        """Of a stream of an open input. ValueError where no container takes such a codec."""
        template: Any = self._container.add_stream_from_template(stream, opaque=True)
        template.time_base = stream.time_base
        context = stream.codec_context
        video = stream.type == "video"
        codec = context.codec.canonical_name
        return Track(
            name, "video" if video else "audio", codec, stream.time_base, template, bytes(context.extradata or b""),
            width=context.width if video else 0, height=context.height if video else 0,
            frame_rate=(stream.average_rate or stream.guessed_rate) if video else None,
            channels=0 if video else context.layout.nb_channels,
            codec_tag="hvc1" if codec == "hevc" else None, copied=True, home=self,
        )  # fmt: skip

    def close(self) -> None:
        self._container.close()


def same_parameters(one: Track, other: Track) -> bool:
    """Whether what was muxed with one of them can go on with the other."""
    facts = ("codec", "width", "height", "time_base", "channels")
    # AAC with headers on its packets has none of its own before the first of them
    unsaid = other.codec == "aac" and not other.extradata
    return all(getattr(one, fact) == getattr(other, fact) for fact in facts) and (
        unsaid or one.extradata == other.extradata
    )
