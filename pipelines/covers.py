"""Cover pictures for Matroska: attachments of the header, read before anything is written.

FFmpeg's muxer would write a cover that comes as a track as a second video track.
"""

from __future__ import annotations

from dataclasses import dataclass

from av.stream import Discard

from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, open_input, read_packets
from pipelines.tracks import TrackState

ATTACHMENTS = {"mjpeg": ("cover.jpg", "image/jpeg"), "png": ("cover.png", "image/png")}
"""File name and MIME type by codec; the names are those that Matroska gives covers."""


@dataclass(frozen=True)
class Cover:
    """A cover that was attached; counted like a track."""

    state: TrackState
    bytes: int
    end_seconds: float = 0.0


def read_cover(file: LocalFile, stream: int, limits: Limits) -> bytes:
    """The attached picture of a file: demuxers give it before all packets. Empty when there is none."""
    with open_input(file, limits) as container:
        for other in container.streams:
            if other.index != stream:
                other.discard = Discard.all
        packets = read_packets(container, [container.streams[stream]])
        return next((bytes(packet) for packet in packets if packet.size), b"")
