"""The first packets and frames of each track: what headers leave open, frames tell. Bounded work, one thread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av
from av.container import InputContainer

from pipelines.facts.hurried import unhurried
from pipelines.facts.interlacing import ScanMeter, is_worth_measuring
from pipelines.opening.input import read_packets
from pipelines.timestamps import InputClock

ENOUGH_FRAMES = 6
"""Enough for flags, and for side data that comes with the first."""
ENOUGH_TIMES = 120
"""Packets whose times give the frame rate."""
ENOUGH_SIZES = 24
"""Packets of a sound file whose sizes tell whether its bit rate is constant."""
MAX_ATTEMPTS = 600
"""Packets that are decoded until a first frame comes: streams may start far from a keyframe."""
MAX_DECODED_PIXELS = 2_000_000_000
MAX_SCANNED_PIXELS = 300_000_000
"""Pixels that are decoded to tell interlaced from progressive."""
NEVER_INTERLACED = ("gif", "png", "apng", "webp")
MAX_BYTES = 64_000_000
MAX_PACKETS = 20_000
SLOT_FORMATS = frozenset({"avi"})
"""Formats whose video packets say when a picture is due, not which: AVI knows no presentation times."""


@dataclass
class Sample:
    """What was seen of one track. Times are in its own ticks; `sizes` are bytes of packets."""

    index: int
    kind: str
    time_base: Fraction
    wanted_packets: int
    frames: list[Any] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    slots_only: bool = False
    first_dts: int | None = None
    packets: int = 0
    attempts: int = 0
    errors: int = 0
    pixels: int = 0
    scan: ScanMeter | None = None

    @property
    def start_seconds(self) -> float | None:
        """When the first frame is shown, or the first packet where nothing was decoded."""
        if self.slots_only and self.first_dts is not None:
            return float(self.first_dts * self.time_base)
        ticks = [frame.pts for frame in self.frames[:1] if frame.pts is not None] or [min(self.times, default=None)]
        return None if ticks[0] is None else float(ticks[0] * self.time_base)

    @property
    def has_frames(self) -> bool:
        return len(self.frames) >= (ENOUGH_FRAMES if self.kind == "video" else 1)

    @property
    def gave_up(self) -> bool:
        return not self.frames and (self.attempts >= MAX_ATTEMPTS or self.pixels >= MAX_DECODED_PIXELS)

    @property
    def wants_pictures(self) -> bool:
        """Whether more pictures would tell how they are scanned."""
        return self.scan is not None and not self.scan.done and self.pixels < MAX_SCANNED_PIXELS

    @property
    def done(self) -> bool:
        return self.gave_up or (self.has_frames and not self.wants_pictures and self.packets >= self.wanted_packets)


@dataclass
class Samples:
    """`whole`: the file ended within what was looked at. `seconds` of all packets' times, and their bytes."""

    tracks: dict[int, Sample]
    whole: bool = False
    bytes: int = 0
    seconds: float = 0.0


def take_samples(container: InputContainer, streams: Iterable[Any]) -> Samples:
    """Reads on from the start until each of `streams` (decodable video and audio) has shown enough."""
    chosen = list(streams)
    has_video = any(stream.type == "video" for stream in chosen)
    wanted = {"video": ENOUGH_TIMES, "audio": 1 if has_video else ENOUGH_SIZES}
    tracks = {s.index: Sample(s.index, s.type, s.time_base or Fraction(1, 90_000), wanted[s.type]) for s in chosen}
    for sample in tracks.values():
        sample.slots_only = container.format.name in SLOT_FORMATS and sample.kind == "video"
    samples = Samples(tracks)
    for stream in chosen:
        if stream.type == "video" and _may_be_interlaced(stream):
            tracks[stream.index].scan = ScanMeter()
        # frame threads would delay the first frame by as many packets
        stream.codec_context.thread_type = "NONE"
    first = last = None
    packets = 0
    clock = InputClock(container.format.name)
    clocks = {index: clock.track(sample.time_base) for index, sample in tracks.items()}
    try:
        for packet in unhurried(read_packets(container, chosen), container.format.name):
            sample = tracks[packet.stream.index]
            packets += 1
            samples.bytes += packet.size
            if packet.size == 0 and packet.dts is None:
                samples.whole = True
            elif packet.dts is not None:
                offset = clocks[sample.index].offset(packet.dts, packet.duration or 0)
                now = packet.dts * sample.time_base + offset
                first = now if first is None else min(first, now)
                last = now if last is None else max(last, now)
            _look(packet, sample)
            if all(each.done for each in tracks.values()) or samples.bytes > MAX_BYTES or packets > MAX_PACKETS:
                break
    except av.error.FFmpegError as error:
        if isinstance(error, MemoryError):
            raise
        samples.whole = True  # nothing comes after a read error
    if first is not None and last is not None:
        samples.seconds = float(last - first)
    return samples


def _may_be_interlaced(stream: Any) -> bool:
    context = stream.codec_context
    return context.codec.canonical_name not in NEVER_INTERLACED and is_worth_measuring(
        context.height, stream.average_rate
    )


def _look(packet: Any, sample: Sample) -> None:
    if packet.size:
        sample.packets += 1
        sample.first_dts = packet.dts if sample.first_dts is None else sample.first_dts
        if len(sample.times) < ENOUGH_TIMES and packet.pts is not None:
            sample.times.append(packet.pts)
        if len(sample.sizes) < ENOUGH_TIMES:
            sample.sizes.append(packet.size)
    if sample.gave_up or (sample.has_frames and not sample.wants_pictures):
        return
    sample.attempts += 1
    try:
        frames = packet.decode()
    except av.error.FFmpegError as error:
        if isinstance(error, MemoryError):
            raise
        sample.errors += 1
        return
    sample.frames += frames[: ENOUGH_FRAMES - len(sample.frames)]
    if sample.scan is not None:
        for frame in frames:
            sample.scan.push(frame)
    if sample.kind == "video":
        context = packet.stream.codec_context
        sample.pixels += context.width * context.height
