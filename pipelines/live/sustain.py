"""Whether the machine can keep up: a second of made-up pictures through the plan's filters and encoders, timed."""

from __future__ import annotations

import time
from fractions import Fraction

from av.video.frame import VideoFrame

from pipelines.errors import DeviceUnsuitable, PipelineError
from pipelines.graph import Chain
from pipelines.hardware.filters import surface_for, upload
from pipelines.hardware.gpu import Gpu
from pipelines.live.encoding import in_software, lane_encoder
from pipelines.live.gpu import lane_graph
from pipelines.live.homes import TICK, EncoderHome
from pipelines.live.planning import LivePlan
from pipelines.source import VideoInfo
from pipelines.steps import Fed, Step
from pipelines.timestamps import nearest

NEEDED_SPEED = 1.2
"""Times real time. Less leaves no room for a busier picture."""
TRIAL_SECONDS = Fraction(1)
MAX_WALL_SECONDS = 4.0


class NotSustainable(PipelineError):
    """Facts: the speed that was measured and the one that is needed, in times of real time."""

    code = "not_sustainable"


def check_sustainable(plan: LivePlan, source: VideoInfo | None, gpu: Gpu | None = None, *, force: bool) -> float | None:
    """The speed; None when nothing is encoded, or when `force` says to go on anyway.

    NotSustainable: it is too low; DeviceUnsuitable: that of a GPU is, and another place may do. Other DeviceErrors.
    """
    if force or source is None or not plan.video:
        return None
    speed = measured_speed(plan, source, gpu)
    if speed < NEEDED_SPEED and gpu is not None:
        raise DeviceUnsuitable(
            f"{plan.device.id} encodes the stream at {speed:.2f} × real time now; {NEEDED_SPEED:g} are needed",
            stage="plan",
            device=plan.device.id,
            speed=round(speed, 3),
            needed=NEEDED_SPEED,
        )
    if speed < NEEDED_SPEED:
        raise NotSustainable(
            f"this machine encodes the stream at {speed:.2f} × real time now; {NEEDED_SPEED:g} are needed",
            stage="plan",
            speed=round(speed, 3),
            needed=NEEDED_SPEED,
        )
    return speed


def measured_speed(plan: LivePlan, source: VideoInfo, gpu: Gpu | None = None) -> float:
    """All renditions one after the other, as they share the machine."""
    renditions = plan.video
    rate = source.frame_rate or Fraction(25)
    count = max(8, nearest(TRIAL_SECONDS * rate))
    size = f"{source.width + source.width % 2}x{source.height + source.height % 2}"
    steps: list[Step | Fed] = [("format", {"pix_fmts": source.pixel_format or "yuv420p"})]
    if gpu is not None and plan.decode is not None and plan.decode.frames == "hardware":
        steps += upload(surface_for(source.pixel_format or "yuv420p", source.bit_depth), None)
    pictures = Chain(
        ("testsrc2", {"size": size, "rate": str(rate)}), steps, "buffersink",
        device=None if gpu is None else gpu.context,
    )  # fmt: skip
    frames: list[VideoFrame] = [pictures.pull() for _ in range(min(count, 8))]
    home = EncoderHome(in_software(renditions), {})
    encoded = 0
    began = time.monotonic()
    try:
        lanes = [
            (lane_graph(rendition, gpu, plan.decode, source), lane_encoder(name, rendition, home, gpu))
            for name, rendition in renditions.items()
        ]
        for number in range(count):
            frame = frames[number % len(frames)]
            for graph, encoder in lanes:
                frame.pts, frame.time_base = nearest(number / rate / TICK), TICK
                for filtered in graph.push(frame):
                    encoder.encode(filtered, nearest((filtered.pts or 0) * TICK / encoder.time_base), 1)
            encoded = number + 1
            if time.monotonic() - began > MAX_WALL_SECONDS:
                break
        for _, encoder in lanes:
            encoder.flush()
    finally:
        home.close()
    return float(encoded / rate) / max(1e-6, time.monotonic() - began)
