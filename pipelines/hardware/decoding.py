"""A decoder on a GPU watched: its errors are the GPU's until software says otherwise, and no picture may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import av
from av.packet import Packet
from av.video.frame import VideoFrame

from pipelines.errors import DeviceFault, DeviceUnsupported
from pipelines.hardware.errors import Work, is_said
from pipelines.hardware.filters import SURFACE_OF
from pipelines.rendition import DecodePlan
from pipelines.warning_log import WarningLog

COUNTED_CODECS = frozenset({"h264", "hevc", "vp9", "av1"})
"""Codecs of which each packet is one picture to show, where they are not interlaced."""

SIGNS_OF_DAMAGE = ("corrupt_packet", "clock_jump", "read_error", "decode_error")
"""Warnings after which pictures may be missing for the input's sake."""

SURFACES_IN_MEMORY = frozenset(SURFACE_OF.values())


def check_decoded(work: Work, decode: DecodePlan, frame: VideoFrame) -> None:
    """DeviceUnsupported where the decoder has quietly become software."""
    name = frame.format.name
    expected = name == "vaapi" if decode.frames == "hardware" else name in SURFACES_IN_MEMORY
    if not expected:
        raise work.error(DeviceUnsupported, f"{work.codec} was decoded in software ({name})")


class DecodeWatch:
    """Sees what goes into a decoder and what comes out."""

    def __init__(self, work: Work, decode: DecodePlan, warnings: WarningLog) -> None:
        self._work, self._decode, self._warnings = work, decode, warnings
        self._due: set[int] = set()
        self._first: int | None = None
        self._packets = self._frames = 0
        self._counts = decode.decoder in COUNTED_CODECS

    def failed(self, error: av.error.FFmpegError) -> None:
        """Returns where it is damage before the first picture, which never reached the GPU; else raises a DeviceError.

        `suspect`: whose fault it may be, `device` or `input`.
        """
        began = self._frames > 0
        damage = isinstance(error, av.error.InvalidDataError)
        if damage and not began and not is_said(self._work.words.last()):
            return
        failure = self._work.failed(error, began=began)
        failure.facts["suspect"] = "input" if damage and began else "device"
        raise failure from error

    def saw(self, packet: Packet[Any] | None, frames: Sequence[VideoFrame]) -> None:
        """DeviceUnsupported where the decoder has quietly become software."""
        if packet is not None:
            self._packets += 1
            if self._counts and packet.pts is not None and not packet.is_discard:
                self._due.add(packet.pts)
        for frame in frames:
            if self._frames == 0:
                check_decoded(self._work, self._decode, frame)
                self._first = frame.pts
            self._frames += 1
            if self._counts:
                self._counts = not frame.interlaced_frame
                self._due.discard(frame.pts if frame.pts is not None else -1)

    def finish(self) -> None:
        """At the input's end. DeviceFault when nothing came out, or less than went in after the first picture."""
        if self._packets and not self._frames:
            raise self._work.error(DeviceFault, f"nothing of {self._packets} packets was decoded", suspect="input")
        if not self._counts or self._first is None or any(self._warnings.count(code) for code in SIGNS_OF_DAMAGE):
            return
        missing = [pts for pts in self._due if pts > self._first]
        if missing:
            message = f"{len(missing)} of {self._packets} pictures did not come out of the decoder"
            raise self._work.error(DeviceFault, message, missing=len(missing), suspect="device")
