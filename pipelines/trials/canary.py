"""Canaries: a second of pictures through the engine on a GPU, to see whether it works before jobs are at stake."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from pipelines.devices import Device, HardwareApi, Stage
from pipelines.encoders import SOFTWARE_ENCODERS
from pipelines.errors import DeviceFault, DeviceUnsupported
from pipelines.graph import Chain
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.rendition import Plan, VideoRendition
from pipelines.scheduling import ordinary_threads
from pipelines.source import Facts
from pipelines.spec import FileJob
from pipelines.transcode import transcode

WIDTH, HEIGHT, FRAMES, RATE = 640, 384, 25, 25
"""Half of it is still more than any encoder's smallest picture."""

_MAKERS = {**SOFTWARE_ENCODERS, "mpeg2video": "mpeg2video", "mjpeg": "mjpeg", "vp8": "libvpx"}
_FORMATS = {"mjpeg": {8: "yuvj420p"}}
_FAST: dict[str, dict[str, str]] = {
    "libx264": {"preset": "ultrafast"},
    "libx265": {"preset": "ultrafast", "x265-params": "log-level=none"},
    "libsvtav1": {"preset": "12"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8"},
    "libvpx": {"deadline": "realtime", "cpu-used": "8"},
}


class Canary(Facts):
    """What is to be seen at work. `stage` None: that the device does anything at all."""

    stage: Stage | None = None
    codec: str | None = None
    bit_depth: int = 8
    api: HardwareApi | None = None
    """That it is encoded through; None: VAAPI where encoding is to be seen, else what plans prefer."""


class CanaryResult(Facts):
    """`tried` False: this build can't make the pictures for it, or the device never could do it."""

    tried: bool


def fly(canary: Canary, device: Device, folder: Path, limits: Limits) -> CanaryResult:
    """Runs the canary in `folder`; any PipelineError when the device does not do it."""
    if canary.stage == "encode":
        device = _with_encoders(device, canary.api or "vaapi")
    source, target = _codecs(canary, device)
    if source is None or target is None:
        return CanaryResult(tried=False)
    deep = canary.bit_depth > 8
    clip = folder / "canary.mkv"
    if not _make(clip, source, 10 if deep and canary.stage in ("decode", "filter") else 8):
        return CanaryResult(tried=False)
    rung = {
        "codec": target,
        "height": HEIGHT // 2,
        "pixel_format": "yuv420p10le" if deep and canary.stage == "encode" else "yuv420p",
        "rate_control": {"mode": "cqp", "qp": 30},
        "speed": "ultrafast",
    }
    spec = FileJob.model_validate(
        {
            "input": {"path": clip.name},
            "outputs": [{"type": "mkv", "name": "flown", "video": rung, "audio": None}],
            "device": {"policy": "hardware"},
        }
    )
    plans: list[Plan] = []
    file = LocalFile(path=clip, name=clip.name)
    result = transcode(spec, file, folder, device=device, limits=limits, on_plan=plans.append)
    if canary.stage is not None and not _is_placed(plans[0], canary.stage):
        raise DeviceUnsupported(f"{canary.stage} was not planned on the GPU", stage=canary.stage, device=device.id)
    frames = result.outputs[0].renditions[0].packets
    if frames != FRAMES:
        raise DeviceFault(f"{frames} of {FRAMES} pictures came out", stage=canary.stage, device=device.id)
    return CanaryResult(tried=True)


def _with_encoders(device: Device, api: HardwareApi) -> Device:
    able = tuple(c for c in device.capabilities if c.direction == "decode" or c.api == api)
    return device.model_copy(update={"capabilities": able})


def _codecs(canary: Canary, device: Device) -> tuple[str | None, str | None]:
    """Of the clip and of what is made of it."""
    encodable = [c.codec for c in device.capabilities if c.direction == "encode" and c.bit_depth == 8]
    decodable = [c.codec for c in device.capabilities if c.direction == "decode"]
    target = canary.codec if canary.stage == "encode" else next(iter(encodable), None)
    if canary.stage in ("decode", "filter"):
        return canary.codec, target
    return ("h264" if "h264" in decodable or not decodable else decodable[0]), target


@ordinary_threads()
def _make(path: Path, codec: str, bit_depth: int) -> bool:
    """Writes a clip of a test picture; False where this build has no encoder for it."""
    encoder = _MAKERS.get(codec)
    pixel_format = _FORMATS.get(codec, {8: "yuv420p", 10: "yuv420p10le"}).get(bit_depth)
    if encoder is None or pixel_format is None:
        return False
    try:
        offered = av.Codec(encoder, "w").video_formats or ()
    except av.codec.codec.UnknownCodecError:
        return False
    if pixel_format not in {format.name for format in offered}:
        return False
    with av.open(str(path), "w", format="matroska") as container:
        stream: Any = container.add_stream(
            encoder, rate=Fraction(RATE), width=WIDTH, height=HEIGHT, options=dict(_FAST.get(encoder, {}))
        )
        stream.pix_fmt = pixel_format
        source = {"size": f"{WIDTH}x{HEIGHT}", "rate": str(RATE)}
        pictures = Chain(("testsrc2", source), [("format", {"pix_fmts": pixel_format})], "buffersink")
        for number in range(FRAMES):
            frame = pictures.pull()
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return True


def _is_placed(plan: Plan, stage: Stage) -> bool:
    """Whether the plan does `stage` on the GPU."""
    if stage == "decode":
        return any(step.placement == "hardware" for step in plan.decode)
    renditions = [r for output in plan.outputs for r in output.renditions if isinstance(r, VideoRendition)]
    return any((r.filter_placement if stage == "filter" else r.placement) == "hardware" for r in renditions)
