"""Presentation times for packets that have none: only decoding tells in which order pictures are shown.

Raw H.264 and HEVC say nothing of time, and AVI gives H.264 the times of decoding. Packets are decoded beside being
copied: the n-th picture shown takes the n-th slot.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
from av.packet import Packet

from pipelines.tracks import is_packets_fault

UNTIMED_FORMATS = frozenset({"avi", "h264", "hevc", "vvc"})
UNTIMED_CODECS = frozenset({"h264", "hevc", "vvc"})
LOOK_AHEAD = 48
"""Packets whose order is learned before the first leaves: their greatest delay is the track's (DPBs hold 16)."""


@dataclass(slots=True)
class _Waiting:
    packet: Packet[Any]
    slot: int
    pts: int | None = None


class PictureOrder:
    """Gives packets of one track, in decode order, their pts and dts."""

    def __init__(self, stream: Any, frame_rate: Fraction | None) -> None:
        context: Any = av.CodecContext.create(stream.codec_context.codec.name, "r")
        context.extradata = stream.codec_context.extradata
        context.thread_type = "AUTO"
        self._context = context
        self._step = max(1, round(1 / (frame_rate or Fraction(25)) / (stream.time_base or Fraction(1, 90_000))))
        self._waiting: deque[_Waiting] = deque()
        self._by_slot: dict[int, _Waiting] = {}
        self._unshown: deque[int] = deque()
        self._next = 0
        self._delay: int | None = None

    def push(self, packet: Packet[Any]) -> list[Packet[Any]]:
        """The packets that are ready, with times."""
        slot = self._next if packet.dts is None else packet.dts
        self._next = slot + (packet.duration or self._step)
        waiting = _Waiting(packet, slot)
        self._waiting.append(waiting)
        self._by_slot[slot] = waiting
        self._unshown.append(slot)
        probe: Packet[Any] = Packet(bytes(packet))
        probe.pts = probe.dts = slot
        self._decode(probe)
        return self._leave(LOOK_AHEAD)

    def flush(self) -> list[Packet[Any]]:
        self._decode(None)
        return self._leave(0)

    def _decode(self, packet: Packet[Any] | None) -> None:
        try:
            frames = self._context.decode(packet)
        except av.error.FFmpegError as error:
            if not is_packets_fault(error):
                raise
            return
        for frame in frames:
            shown = self._by_slot.pop(frame.pts, None)
            if shown is not None and self._unshown:
                shown.pts = self._unshown.popleft()

    def _leave(self, keep: int) -> list[Packet[Any]]:
        if self._delay is None:
            if len(self._waiting) <= keep:
                return []
            late = (each.slot - each.pts for each in self._waiting if each.pts is not None)
            self._delay = max(0, max(late, default=0))
        ready = []
        while len(self._waiting) > keep:
            each = self._waiting.popleft()
            self._by_slot.pop(each.slot, None)
            each.packet.dts = each.slot - self._delay
            each.packet.pts = each.slot if each.pts is None else max(each.pts, each.packet.dts)
            each.packet.duration = each.packet.duration or self._step
            ready.append(each.packet)
        return ready
