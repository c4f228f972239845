"""What is shown while the source is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from fractions import Fraction

from av.video.frame import VideoFrame

from pipelines.asked.streams import Slate
from pipelines.graph import Chain
from pipelines.hardware.graph import is_on_gpu
from pipelines.live.clock import OutputClock
from pipelines.live.decoding import VideoDecoder
from pipelines.live.homes import TICK
from pipelines.source import VideoInfo
from pipelines.timestamps import nearest


class SlateShow:
    """Hands the slate to the encoders, frame by frame, as long as nothing came for a while."""

    def __init__(self, slate: Slate, source: VideoInfo, decoder: VideoDecoder, clock: OutputClock) -> None:
        self._slate, self._source, self._decoder, self._clock = slate, source, decoder, clock
        self._step = 1 / (source.frame_rate or Fraction(25))
        self._over = threading.Event()
        self.showing = False
        self._thread = threading.Thread(target=self._work, name="slate", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        plain = colour_frame(self._slate.colour, self._source.width, self._source.height)
        copies: _Copies | None = None
        place: object = None
        while not self._over.wait(float(self._step)):
            shown = self._decoder.shown_at
            if shown is None or time.monotonic() - shown < self._slate.after_seconds:
                self.showing, copies = False, None
                continue
            if copies is None:
                last = self._decoder.newest if self._slate.show == "last_frame" else None
                place = None if last is None else self._decoder.newest_place
                copies = _Copies(last or plain)
            self.showing = True
            moment = self._clock.now() + Fraction(self._clock.lead).limit_denominator(1000)
            for frame in copies.at(nearest(moment / TICK)):
                self._decoder.hand_on(frame, place)


class _Copies:
    """Frames of one picture, each with a time of its own; they share its bytes."""

    def __init__(self, still: VideoFrame) -> None:
        self._still = still
        source = {
            "video_size": f"{still.width}x{still.height}",
            "pix_fmt": still.format.name,
            "time_base": str(TICK),
            "colorspace": str(int(still.colorspace)),
            "range": str(int(still.color_range)),
        }
        surface = still if is_on_gpu(still) else None
        self._chain = Chain(("buffer", source), [("null", {})], "buffersink", surface=surface)

    def at(self, ticks: int) -> Iterator[VideoFrame]:
        self._still.pts, self._still.time_base = ticks, TICK
        return self._chain.push(self._still)


def colour_frame(colour: str, width: int, height: int) -> VideoFrame:
    """A plain picture, BT.709."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    luma = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    values = (16 + 219 * luma, 128 + 224 * (blue - luma) / 1.8556, 128 + 224 * (red - luma) / 1.5748)
    frame = VideoFrame(width + width % 2, height + height % 2, "yuv420p")
    frame.colorspace, frame.color_range = 1, 1
    for plane, value in zip(frame.planes, values, strict=True):
        plane.update(bytes([round(value)]) * plane.buffer_size)
    return frame
