"""A GPU opened for a run: its contexts, and what of a plan runs on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import av
from av.codec.hwaccel import HWAccel
from av.container import InputContainer
from av.filter import Graph

from pipelines.errors import DeviceError, DeviceLost, DeviceUnsupported
from pipelines.hardware.encoders import API_OF
from pipelines.hardware.errors import Words, Work, listening
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, open_input
from pipelines.rendition import DecodePlan, OutputPlan, Plan, VideoRendition
from pipelines.source import SourceInfo, VideoInfo

HELD_FRAMES = 3
"""Decoded surfaces that wait for a rendition; each is one of the decoder's own."""

OWN_DECODERS: dict[str, str] = {"av1": "av1"}
"""Codecs whose usual decoder in FFmpeg can't use a GPU, and the decoder that can."""


def carries_surfaces() -> bool:
    """Whether this PyAV's graphs take frames that lie on a GPU; the stock one's don't."""
    # compiled methods have their signatures in their docstrings alone
    return "hw_frames" in (Graph.add_buffer.__doc__ or "")


def video_renditions(outputs: tuple[OutputPlan, ...]) -> Iterator[VideoRendition]:
    for output in outputs:
        for rendition in output.renditions:
            if isinstance(rendition, VideoRendition):
                yield rendition


def uses_hardware(plan: Plan) -> bool:
    return any(decode.placement == "hardware" for decode in plan.decode) or any(
        "hardware" in (rendition.placement, rendition.filter_placement) for rendition in video_renditions(plan.outputs)
    )


@dataclass(frozen=True)
class Gpu:
    """An opened GPU. `context` is the one that all uploads of a run share."""

    id: str
    path: str
    words: Words
    context: Any
    graphs: bool
    """Whether graphs take surfaces (see `carries_surfaces`)."""

    def work(self, stage: Any, codec: str, profile: str | None, bit_depth: int) -> Work:
        return Work(self.id, self.words, stage, codec, profile, bit_depth)

    def decoding(self, decode: DecodePlan) -> HWAccel:
        """Settings of a decoder: its frames stay on the GPU where the plan wants them there."""
        return HWAccel(
            "vaapi", device=self.path, is_hw_owned=decode.frames == "hardware", allow_software_fallback=False
        )

    def encoding(self, encoder: str) -> HWAccel:
        """Settings of an encoder that takes frames in memory and uploads them itself."""
        if API_OF[encoder] == "qsv":
            return HWAccel("qsv", options={"child_device_type": "vaapi", "child_device": self.path})
        return HWAccel("vaapi", device=self.path)


@contextmanager
def opened_gpu(plan: Plan) -> Iterator[Gpu | None]:
    """The GPU that the plan uses; None when it uses none. FFmpeg's words are listened to meanwhile.

    DeviceLost when it can't be opened, DeviceUnsupported when this build of FFmpeg knows no VAAPI.
    """
    if not uses_hardware(plan):
        yield None
        return
    assert plan.device_path is not None
    with listening() as words:
        yield _open(plan, plan.device_path, words)


def _open(plan: Plan, path: str, words: Words) -> Gpu:
    try:
        context = HWAccel("vaapi", device=path).create(av.Codec("h264_vaapi", "w"), for_encoding=True)
    except av.codec.codec.UnknownCodecError as error:
        raise DeviceUnsupported("this FFmpeg has no VAAPI", stage="open", device=plan.device) from error
    except av.error.FFmpegError as error:
        lines = words.last()
        detail = "; ".join(lines) or str(error)
        message = f"{path} can't be opened: {lines[0] if lines else error}"
        raise DeviceLost(message, stage="open", device=plan.device, detail=detail) from error
    return Gpu(plan.device, path, words, context, carries_surfaces())


def decode_work(gpu: Gpu, info: VideoInfo, stage: Any = "decode") -> Work:
    return gpu.work(stage, info.codec, info.profile, info.bit_depth)


@contextmanager
def open_source(
    gpu: Gpu | None, plan: Plan, source: SourceInfo, file: LocalFile, limits: Limits
) -> Iterator[InputContainer]:
    """The input, its decoders on the GPU where the plan says so. Errors of `open_input`, or a DeviceError."""
    decode = next((decode for decode in plan.decode if decode.placement == "hardware"), None)
    if gpu is None or decode is None or decode.decoder in OWN_DECODERS:
        with open_input(file, limits) as container:
            yield container
        return
    info = next(track for track in source.video if track.index == decode.stream)
    work = decode_work(gpu, info)
    with _refusing(work), open_input(file, limits, hwaccel=gpu.decoding(decode)) as container:
        yield container


@contextmanager
def _refusing(work: Work) -> Iterator[None]:
    """PyAV's own word for an input of which no track has a decoder for the GPU."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, DeviceError) or "no stream is compatible" not in str(error):
            raise
        message = f"{work.codec} has no decoder for the GPU in this FFmpeg"
        raise work.error(DeviceUnsupported, message, str(error)) from error


def decoder_context(gpu: Gpu, decode: DecodePlan, stream: Any) -> Any:
    """The codec context that decodes `stream` on the GPU."""
    context = own_decoder(gpu, decode, stream) if decode.decoder in OWN_DECODERS else stream.codec_context
    # the work is the GPU's: more threads would only hold more of its surfaces
    context.thread_count = 1
    return context


def own_decoder(gpu: Gpu, decode: DecodePlan, stream: Any) -> Any:
    """A codec context on the GPU, beside that of a stream of an input that was opened without one."""
    name = OWN_DECODERS.get(decode.decoder, stream.codec_context.codec.name)
    context: Any = av.CodecContext.create(name, "r", hwaccel=gpu.decoding(decode))
    context.extradata = stream.codec_context.extradata
    context.options = stream.codec_context.options
    context.thread_count = 1
    return context
