"""A clip to try things on: FFmpeg's test picture and a tone, as H.264 and AAC in Matroska."""

from __future__ import annotations

from pathlib import Path

import av
from av.audio.frame import AudioFrame
from av.video.frame import VideoFrame

WIDTH, HEIGHT, RATE, SAMPLE_RATE = 1920, 1080, 30, 48_000


def make_clip(path: Path, *, seconds: int) -> None:
    """Writes `seconds` of picture and sound to `path`."""
    graph = (
        f"testsrc2=size={WIDTH}x{HEIGHT}:rate={RATE}:duration={seconds}[out0];"
        f"sine=frequency=440:beep_factor=4:sample_rate={SAMPLE_RATE}:duration={seconds}[out1]"
    )
    with av.open(graph, format="lavfi") as made, av.open(path, "w") as container:
        video = container.add_stream("libx264", rate=RATE, options={"preset": "ultrafast", "crf": "23"})
        video.width, video.height, video.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        audio = container.add_stream("aac", rate=SAMPLE_RATE, layout="stereo", bit_rate=128_000)
        resampler = av.AudioResampler(format="fltp", layout="stereo", rate=SAMPLE_RATE)
        for frame in made.decode():
            if isinstance(frame, VideoFrame):
                container.mux(video.encode(frame))
            elif isinstance(frame, AudioFrame):
                for samples in resampler.resample(frame):
                    container.mux(audio.encode(samples))
        for samples in resampler.resample(None):
            container.mux(audio.encode(samples))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))
