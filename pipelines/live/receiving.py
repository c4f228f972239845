"""What comes in over one connection: which tracks are meant, their packets on the output's clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Discard

from pipelines.facts.frame_rates import best_rate
from pipelines.facts.tracks import audio_info, is_picture, video_info
from pipelines.limits import Limits
from pipelines.live import adts
from pipelines.live.clock import ConnectionClock, OutputClock
from pipelines.live.link import ConnectFailed
from pipelines.live.planning import main_audio
from pipelines.live.units import Piece, Track, Unit
from pipelines.opening.input import read_packets
from pipelines.planning.choice import main_video
from pipelines.source import AudioInfo, SourceInfo, VideoInfo
from pipelines.timestamps import Warn

FARTHEST_SECONDS = Fraction(10)
"""A presentation time farther than this from its decode time can't be meant."""
LEAD_SECONDS = 2.0
"""How far a source that may be read as fast as it sends is read ahead of time."""


def describe(container: InputContainer, limits: Limits) -> SourceInfo:
    """What the headers and the first packets tell."""
    video: list[VideoInfo] = []
    audio: list[AudioInfo] = []
    for stream in container.streams:
        if stream.type == "video" and not is_picture(stream):
            info = video_info(stream, len(video), None, limits)
            if info.width and info.height and info.pixel_format is not None:
                rate = best_rate((stream.average_rate, stream.guessed_rate, stream.base_rate), None, None)
                video.append(info.model_copy(update={"frame_rate": rate}))
        elif stream.type == "audio":
            heard = audio_info(stream, len(audio), None)
            if heard.sample_rate and heard.channels:
                audio.append(heard)
    return SourceInfo(format=container.format.name, video=tuple(video), audio=tuple(audio))


def in_words(source: SourceInfo) -> str:
    """Such as `h264 1920×1080 25 fps, aac 48000 Hz stereo`."""
    video, audio = main_video(source.video), main_audio(source.audio)
    parts = []
    if video is not None:
        rate = f" {float(video.frame_rate):.5g} fps" if video.frame_rate else ""
        parts.append(f"{video.codec} {video.width}×{video.height}{rate}")
    if audio is not None:
        parts.append(f"{audio.codec} {audio.sample_rate} Hz {audio.layout}")
    return ", ".join(parts)


@dataclass
class Arrivals:
    """Counters of all connections together; read by others."""

    bytes: int = 0
    video_packets: int = 0
    packets: int = 0
    corrupt: int = 0
    at: float = field(default_factory=time.monotonic)
    """When the last packet that counts (a picture's, or a sound's where there are no pictures) came."""


class _Lane:
    """What is asked of each packet of a track, in its ticks."""

    def __init__(self, stream: Any, connection: ConnectionClock) -> None:
        base: Fraction = stream.time_base or Fraction(1, 90_000)
        self.stream = stream
        self._numerator, self._denominator = base.as_integer_ratio()
        self._clock = connection.track(base)
        self._farthest = floor(FARTHEST_SECONDS / base)
        self.moment: float | None = None
        """When the packet that was placed last is decoded; None: it does not say."""

    def place(self, packet: Packet[Any]) -> bool:
        """Moves the packet to the output's clock; False as long as there is no time to go by."""
        pts, dts = packet.pts, packet.dts
        first = dts if dts is not None else pts
        moved = self._clock.shift(first, packet.duration or 0)
        if moved is None:
            return False
        if dts is not None:
            packet.dts = dts + moved
        if pts is not None:
            apart = dts is not None and abs(pts - dts) > self._farthest
            packet.pts = None if apart else pts + moved
        self.moment = None if first is None else (first + moved) * self._numerator / self._denominator
        return True


class Reception:
    """One connection's packets. Iterating gives (kind, stream, packet), mapped, until the connection ends."""

    def __init__(
        self, container: InputContainer, source: SourceInfo, clock: OutputClock, arrivals: Arrivals, warn: Warn,
        *, paced: bool, wait: Callable[[float], bool],
    ) -> None:  # fmt: skip
        """`paced`: read no faster than time passes; `wait` sleeps, and says whether the stream is to end."""
        video, audio = main_video(source.video), main_audio(source.audio)
        self.container, self.video_info = container, video
        self.video: Any = None if video is None else container.streams[video.index]
        self.audio: Any = None if audio is None else container.streams[audio.index]
        self._clock, self._arrivals = clock, arrivals
        self._connection = ConnectionClock(clock, warn)
        self._paced, self._wait = paced, wait
        self._first = True

    def __iter__(self) -> Iterator[tuple[Any, Packet[Any]]]:
        chosen = [stream for stream in (self.video, self.audio) if stream is not None]
        for stream in self.container.streams:
            if stream not in chosen:
                stream.discard = Discard.all
        lanes = {stream.index: _Lane(stream, self._connection) for stream in chosen}
        leader, shown = lanes[chosen[0].index], self.video is not None
        arrivals = self._arrivals
        for packet in self._packets(chosen):
            lane = lanes.get(packet.stream_index)
            if packet.size == 0 or lane is None:
                continue
            arrivals.packets += 1
            arrivals.corrupt += packet.is_corrupt
            if not lane.place(packet):
                continue
            if lane is leader:
                arrivals.at = time.monotonic()
                arrivals.video_packets += shown
                if lane.moment is not None and not self._keep_pace(lane.moment):
                    return
            yield lane.stream, packet

    def _packets(self, chosen: list[Any]) -> Iterator[Packet[Any]]:
        try:
            yield from read_packets(self.container, chosen)
        except av.error.FFmpegError as error:
            if isinstance(error, MemoryError):
                raise
            raise ConnectFailed(f"the connection broke: {error.strerror}", stage="decode") from error

    def _keep_pace(self, moment: float) -> bool:
        """False when the stream is to end."""
        ahead = self._clock.measure(moment, first=self._first)
        self._first = False
        if self._paced and ahead > LEAD_SECONDS:
            return not self._wait(ahead - LEAD_SECONDS)
        return True


class CopyLane:
    """Packets of one of the source's tracks as pieces of one of the output's."""

    def __init__(self, tell: Callable[[Piece], None]) -> None:
        self._tell = tell
        self._track: Track | None = None
        self._fresh = self._waits = False
        self._usual = 1
        self._last: int | None = None

    @property
    def track(self) -> Track | None:
        return self._track

    def connect(self, track: Track, *, fresh: bool) -> None:
        """A new connection's track: nothing of it is taken before its first keyframe."""
        self._track, self._fresh, self._waits = track, fresh, track.kind == "video"
        rate = track.frame_rate or Fraction(25)
        self._usual = max(1, round(1 / rate / track.time_base)) if track.kind == "video" else 1
        self._last = None

    def take(self, packet: Packet[Any]) -> None:
        assert self._track is not None
        key = packet.is_keyframe or self._track.kind == "audio"
        if self._waits and not key:
            return
        self._waits = False
        dts = packet.dts if packet.dts is not None else packet.pts
        if dts is None:
            dts = 0 if self._last is None else self._last + self._usual
        pts = packet.pts if packet.pts is not None else dts
        self._last = dts
        data = bytes(packet)
        if self._track.codec == "aac" and (header := adts.parse(data)) is not None:
            data = data[header.size :]
            self._track.extradata = self._track.extradata or header.config
        unit = Unit(data, pts, dts, packet.duration or self._usual, key)
        self._tell(Piece(self._track, unit, self._fresh))
        self._fresh = False
