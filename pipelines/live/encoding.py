"""What a lane encodes with: an encoder and the track that it makes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import av
from av.container import OutputContainer
from av.packet import Packet
from av.video.frame import VideoFrame

from pipelines.encode import VideoEncoder, encoder_time_base
from pipelines.hardware.encoding import HardwareEncoder, add_hardware_stream, encode_work
from pipelines.hardware.gpu import Gpu
from pipelines.live.homes import TICK, EncoderHome, same_parameters, video_track
from pipelines.live.units import Track
from pipelines.rendition import VideoRendition


class LaneEncoder:
    """One in software: it takes pictures in memory, and is the same from beginning to end."""

    def __init__(self, encoder: VideoEncoder, track: Track | None, time_base: Fraction) -> None:
        self.time_base = time_base
        self._encoder = encoder
        self._track = track

    @property
    def track(self) -> Track:
        """Of the packets that were given out last; there is one once there are packets."""
        assert self._track is not None
        return self._track

    def turn(self, place: object) -> list[Packet[Any]]:
        """Pictures come from another place from now on; what is still inside, where it can't go on with those."""
        return []

    def encode(self, frame: VideoFrame, pts: int, duration: int) -> list[Packet[Any]]:
        return self._encoder.encode(frame, pts, duration)

    def cut(self) -> None:
        """The next frame becomes a keyframe."""
        self._encoder.cut()

    def flush(self) -> list[Packet[Any]]:
        return self._encoder.flush()


class GpuLaneEncoder(LaneEncoder):
    """One on a GPU, opened by its first surface.

    PyAV's decoders open the GPU each for itself, and surfaces of one opening mean nothing in another. So when they come
    from another decoder, or from memory, an encoder of the same kind takes over with a keyframe; the track goes on
    where both have the same headers.
    """

    def __init__(self, name: str, rendition: VideoRendition, gpu: Gpu) -> None:
        self._name, self._rendition, self._gpu = name, rendition, gpu
        self._place: object = None
        time_base = encoder_time_base(rendition, TICK, TICK.denominator)
        self.time_base = time_base
        super().__init__(self._made(), None, time_base)
        if not gpu.graphs:
            self._opened()

    def turn(self, place: object) -> list[Packet[Any]]:
        if place is self._place:
            return []
        begun, self._place = self._encoder.frames > 0, place
        if not begun:
            return []
        packets = self._encoder.flush()
        self._encoder = self._made()
        return packets

    def _made(self) -> HardwareEncoder:
        self._container: OutputContainer = av.open(io.BytesIO(), "w", format="mp4")
        self._stream, is_open = add_hardware_stream(self._container, self._rendition, self.time_base, self._gpu)
        work = encode_work(self._gpu, self._rendition)
        on_open = None if is_open else self._opened
        return HardwareEncoder(self._stream, self._rendition, self.time_base, work, on_open=on_open)

    def _opened(self) -> None:
        # from here on the stream has what muxers copy
        self._container.start_encoding()
        made = video_track(self._name, self._rendition, self._stream, self.time_base, home=self._container)
        if self._track is None or not same_parameters(self._track, made):
            self._track = made


def lane_encoder(name: str, rendition: VideoRendition, home: EncoderHome, gpu: Gpu | None) -> LaneEncoder:
    """What encodes a rendition where its plan says; those in software have their encoder in `home`."""
    if gpu is not None and rendition.placement == "hardware":
        return GpuLaneEncoder(name, rendition, gpu)
    return LaneEncoder(*home.video(name))


def in_software(video: Mapping[str, VideoRendition]) -> dict[str, VideoRendition]:
    """Those whose encoders a home has."""
    return {name: each for name, each in video.items() if each.placement == "software"}
