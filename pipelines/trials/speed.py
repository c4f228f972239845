"""How fast a coder is on this device: a moment's work of its own, timed. For a child process.

The pictures are made up, with movement and grain; the trial is short. It is a start, until attempts tell more. On the
CPU what is timed is the time that the coder had of it, so that others' work on the machine does not count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Literal

import av
from av.codec.hwaccel import HWAccel
from av.filter import Graph
from av.video.frame import VideoFrame

from pipelines.encoders import (
    SOFTWARE_ENCODERS,
    SPEED_OPTIONS,
    STREAM_OPTIONS,
    default_rate_control,
    merge,
    rate_options,
)
from pipelines.estimates.speeds import USUAL, Speed, Stage
from pipelines.hardware.encoders import speed_options
from pipelines.scheduling import ordinary_threads
from pipelines.source import Colour, Facts
from pipelines.trials.clips import clip

RATE = 25
GOP = 100
SOFTWARE_SIZE = (640, 360)
GPU_SIZE = (1280, 720)
"""A GPU has its speed only with pictures of some size."""
DIFFERENT = 12
"""Pictures that are made; they come again and again, forwards and backwards."""
USABLE_CPUS = 8
"""How many a coder is taken to keep busy with pictures of the usual sizes."""
MAX_SECONDS = 0.3
"""Of feeding pictures; what the coder still holds is waited for."""
MIN_PICTURES = 12
MAX_PICTURES = 150
DECODED_PICTURES = 50


class SpeedCheck(Facts):
    """How fast it decodes or encodes; on the CPU where no node is given."""

    kind: Literal["speed"] = "speed"
    stage: Stage
    coder: str
    """The codec to decode, or FFmpeg's encoder."""
    software_encoder: str | None = None
    """Makes what is decoded."""

    def speed(self, pixels_per_second: float) -> Speed:
        effort = USUAL if self.stage == "encode" else ""
        return Speed(stage=self.stage, coder=self.coder, effort=effort, pixels_per_second=pixels_per_second)


SOFTWARE_TRIALS = (
    SpeedCheck(stage="encode", coder="libx264"),
    SpeedCheck(stage="decode", coder="h264", software_encoder="libx264"),
)
"""Of the CPU: speeds of its other coders are derived from these, which spares the machine some seconds at its start."""


def run_trial(check: SpeedCheck, node: str | None) -> float:
    """Pixels per second. What PyAV raises when it can't be done."""
    with ordinary_threads():
        return _decoding(check, node) if check.stage == "decode" else _encoding(check, node)


def _encoding(check: SpeedCheck, node: str | None) -> float:
    width, height = SOFTWARE_SIZE if node is None else GPU_SIZE
    frames = list(_pictures(width, height, "yuv420p" if node is None else "nv12"))
    encoder = _software_encoder(check.coder) if node is None else _gpu_encoder(check.coder, node)
    encoder.width, encoder.height, encoder.pix_fmt = width, height, frames[0].format.name
    encoder.time_base, encoder.framerate = Fraction(1, RATE), Fraction(RATE)
    there_and_back = [*frames, *frames[-2:0:-1]]
    watch = _Watch(node is None)
    count = 0
    while count < MAX_PICTURES and (count < MIN_PICTURES or watch.seconds < MAX_SECONDS):
        frame = there_and_back[count % len(there_and_back)]
        frame.pts, frame.time_base = count, Fraction(1, RATE)
        encoder.encode(frame)
        count += 1
    encoder.encode(None)
    return width * height * count / watch.seconds


def _software_encoder(name: str) -> Any:
    encoder: Any = av.CodecContext.create(name, "w")
    codec = next(codec for codec, encoder in SOFTWARE_ENCODERS.items() if encoder == name)
    quality = rate_options(name, default_rate_control(codec))
    encoder.options = merge(SPEED_OPTIONS[name](USUAL), quality, STREAM_OPTIONS[name](GOP, Colour()))
    encoder.thread_type = "AUTO"
    if name == "libvpx-vp9":
        encoder.thread_count = min(16, os.cpu_count() or 1)
    return encoder


def _gpu_encoder(name: str, node: str) -> Any:
    """It uploads the pictures itself, which is part of what is timed."""
    encoder: Any = av.CodecContext.create(name, "w", hwaccel=HWAccel("vaapi", device=node))
    encoder.options = {**speed_options(name, USUAL), "g": str(GOP)}
    return encoder


def _decoding(check: SpeedCheck, node: str | None) -> float:
    assert check.software_encoder is not None
    width, height = SOFTWARE_SIZE if node is None else GPU_SIZE
    frames = list(_pictures(width, height, "yuv420p"))
    made = clip(
        check.software_encoder, "yuv420p", size=(width, height), frames=DECODED_PICTURES,
        of=[frames[number % len(frames)] for number in range(DECODED_PICTURES)],
    )  # fmt: skip
    hwaccel = None
    if node is not None:
        hwaccel = HWAccel("vaapi", device=node, is_hw_owned=True, allow_software_fallback=False)
    with av.open(made, "r", hwaccel=hwaccel) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        watch = _Watch(node is None)
        count = sum(1 for _ in container.decode(stream))
    if not count:
        raise ValueError("no picture came out")
    return width * height * count / watch.seconds


class _Watch:
    """Seconds since it was made: by the clock, or of an otherwise idle CPU."""

    def __init__(self, of_cpu: bool) -> None:
        self._clock = time.process_time if of_cpu else time.monotonic
        self._share = min(USABLE_CPUS, len(os.sched_getaffinity(0))) if of_cpu else 1
        self._began = self._clock()

    @property
    def seconds(self) -> float:
        return max(1e-6, (self._clock() - self._began) / self._share)


def _pictures(width: int, height: int, pixel_format: str) -> Iterator[VideoFrame]:
    graph: Any = Graph()
    nodes = [
        graph.add("testsrc2", size=f"{width}x{height}", rate=str(RATE)),
        graph.add("noise", alls="8", allf="t"),
        graph.add("format", pix_fmts=pixel_format),
        graph.add("buffersink"),
    ]
    graph.link_nodes(*nodes).configure()
    for _ in range(DIFFERENT):
        frame = graph.vpull()
        frame.pict_type = 0
        yield frame
