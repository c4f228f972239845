"""A JPEG of the newest picture, every so often."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.video.frame import VideoFrame

from pipelines.asked.streams import SnapshotOutput
from pipelines.live.folder import write_whole
from pipelines.live.sink import Standing
from pipelines.live.worker import Worker

_QUALITY_SCALE = 118
"""FFmpeg counts JPEG's quantisers in lambdas."""


class Snapshots(Worker):
    """`path` is replaced whenever there is a new picture and the time has come."""

    def __init__(self, output: SnapshotOutput, path: Path) -> None:
        super().__init__("snapshots")
        self.standing = Standing(str(output.name), output.type)
        self._output, self._path = output, path
        self._frame: VideoFrame | None = None

    def show(self, frame: VideoFrame) -> None:
        """Keeps the frame in place of the one before; never waits."""
        with self._changed:
            first = self._frame is None
            self._frame = frame
            if first:
                self._changed.notify()

    def _work(self) -> None:
        while (frame := self._next()) is not None:
            try:
                data = jpeg(frame, self._output.height, self._output.quality)
                write_whole(self._path, data)
                self.standing.bytes += len(data)
                self.standing.state, self.standing.error = "live", None
            except (OSError, ValueError, av.error.FFmpegError) as error:
                self.standing.failures += 1
                self.standing.state = "retrying"
                self.standing.error = f"a snapshot failed: {os.strerror(getattr(error, 'errno', 0) or 0)}"
            with self._changed:
                self._changed.wait_for(lambda: self._finishing, self._output.every_seconds)
        self.standing.state = "ended"

    def _next(self) -> VideoFrame | None:
        with self._changed:
            self._changed.wait_for(lambda: self._finishing or self._frame is not None)
            frame, self._frame = self._frame, None
            return None if self._finishing else frame


def jpeg(frame: VideoFrame, height: int | None, quality: int) -> bytes:
    """The picture, scaled to `height` where it is higher. `quality`: 1-100, the higher the better."""
    width = frame.width
    tall = frame.height if height is None else min(height, frame.height)
    width = max(2, round(width * tall / frame.height / 2) * 2)
    picture = frame.reformat(width=width, height=max(2, tall - tall % 2), format="yuvj420p")
    encoder: Any = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt = picture.width, picture.height, "yuvj420p"
    encoder.time_base = Fraction(1, 25)
    quantiser = max(1, round(31 - quality * 0.3))
    encoder.qmin = encoder.qmax = quantiser
    encoder.options = {"global_quality": str(quantiser * _QUALITY_SCALE), "flags": "+qscale"}
    picture.pts, picture.time_base = 0, Fraction(1, 25)
    packets = [*encoder.encode(picture), *encoder.encode(None)]
    return b"".join(bytes(packet) for packet in packets)
