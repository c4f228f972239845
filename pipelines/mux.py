"""One output file: its tracks, its header, and packets of several threads written in order."""

from __future__ import annotations

import errno
from fractions import Fraction
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition

from pipelines import encode
from pipelines.covers import ATTACHMENTS
from pipelines.errors import (
    BadInput,
    DeviceUnsupported,
    DiskFull,
    LimitExceeded,
    OutputFailed,
    PipelineError,
    Stage,
    cause,
)
from pipelines.hardware.encoding import add_hardware_stream
from pipelines.hardware.gpu import Gpu
from pipelines.matroska.shapes import write_pixel_shapes
from pipelines.metadata import chapter_comments, disposition_of, language_for
from pipelines.rendition import (
    AudioRendition,
    CopyRendition,
    OutputPlan,
    RenditionPlan,
    SubtitleRendition,
    VideoRendition,
)
from pipelines.source import Chapter

MUX_ERRORS = (OSError, ValueError, av.error.FFmpegError)
"""FFmpeg's errors are the first two where Python has the like of them."""


def output_error(error: Exception, path: str, stage: Stage = "mux") -> PipelineError:
    """What went wrong with writing `path`, as ours."""
    number = getattr(error, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no space left while writing {path}", stage=stage, path=path)
    if number == errno.EFBIG:
        return LimitExceeded("limit_output", f"{path} grew above the limit", stage=stage, path=path)
    return OutputFailed(f"writing {path} failed: {cause(error)}", stage=stage, path=path, errno=number)


class Writer:
    """Writes one OutputPlan into `folder`: `add` all tracks, `start`, `write` from any thread, `close`."""

    def __init__(self, plan: OutputPlan, folder: Path) -> None:
        self.plan = plan
        self.path = folder / plan.path
        self.bytes = 0
        self._lock = Lock()
        self._container = self._open()
        self._closed = self._started = False
        self._unopened = 0
        self._chapters: tuple[Chapter, ...] | None = None
        self._early: list[Packet[Any]] = []
        self._shapes: dict[int, Fraction] = {}

    def _open(self) -> Any:
        return av.open(
            str(self.path.absolute()), "w", format=self.plan.muxer, container_options=dict(self.plan.muxer_options)
        )

    def lane(self, number: int) -> Writer:
        """Where the rendition at that place of the plan is written."""
        return self

    def files(self) -> tuple[str, ...]:
        """What was written, by paths relative to the job's output folder."""
        return (self.plan.path,)

    def add(
        self, rendition: RenditionPlan, source: InputContainer, time_base: Fraction | None, gpu: Gpu | None = None
    ) -> Any:
        """The output stream of one rendition. It is open, but for encoders that open with their first frame."""
        if isinstance(rendition, VideoRendition):
            assert time_base is not None
            stream: Any
            if rendition.placement == "hardware":
                assert gpu is not None
                stream, is_open = add_hardware_stream(self._container, rendition, time_base, gpu)
                self._unopened += not is_open
            else:
                stream = encode.add_video_stream(self._container, rendition, time_base)
        elif isinstance(rendition, AudioRendition):
            stream = encode.add_audio_stream(self._container, rendition)
        elif isinstance(rendition, CopyRendition):
            stream = self._add_copy(rendition, source)
        else:
            assert isinstance(rendition, SubtitleRendition)
            stream = encode.add_subtitle_stream(self._container, rendition, source)
        if isinstance(rendition, VideoRendition | CopyRendition) and rendition.sample_aspect_ratio != 1:
            self._shapes[stream.index + 1] = rendition.sample_aspect_ratio
        disposition = disposition_of(default=rendition.default, forced=rendition.forced, roles=rendition.roles)
        if isinstance(rendition, CopyRendition) and rendition.media == "picture":
            disposition = Disposition.attached_pic
        stream.disposition = disposition
        if rendition.language:
            stream.metadata["language"] = language_for(self.plan.muxer, rendition.language)
        if rendition.title:
            stream.metadata["title"] = rendition.title
            stream.metadata["handler_name"] = rendition.title
        return stream

    def _add_copy(self, rendition: CopyRendition, source: InputContainer) -> Any:
        try:
            stream: Any = self._container.add_stream_from_template(source.streams[rendition.stream], opaque=True)
        except ValueError as error:
            raise OutputFailed(
                f"{self.plan.muxer} does not take {rendition.codec} as it is", stage="mux", codec=rendition.codec
            ) from error
        if rendition.codec_tag is not None:
            stream.codec_context.codec_tag = rendition.codec_tag
        if rendition.sample_aspect_ratio != 1:
            # a container says it beside the codec's parameters, which alone are copied
            stream.codec_context.sample_aspect_ratio = rendition.sample_aspect_ratio
        return stream

    def attach(self, codec: str, data: bytes) -> None:
        """Puts a cover picture into the header, where covers are attachments."""
        name, mimetype = ATTACHMENTS[codec]
        self._container.add_attachment(name, mimetype, data)
        self.bytes += len(data)

    def start(self, chapters: tuple[Chapter, ...] = ()) -> None:
        """Writes the header, as soon as all encoders are open: it holds their own headers."""
        with self._lock:
            self._chapters = chapters
            self._begin()

    def opened(self) -> None:
        """One more encoder has opened."""
        with self._lock:
            self._unopened -= 1
            self._begin()

    def _begin(self) -> None:
        if self._unopened or self._chapters is None:
            return
        self._write_header(self._chapters)
        self._started = True
        early, self._early = self._early, []
        self._mux(early)

    def _write_header(self, chapters: tuple[Chapter, ...]) -> None:
        self._container.metadata.update(self.plan.metadata)
        if self.plan.chapters == "comments":
            self._container.metadata.update(chapter_comments(chapters))
        elif chapters and self.plan.chapters == "entries":
            self._container.set_chapters(_entries(chapters))
        try:
            self._container.start_encoding()
        except av.error.InvalidDataError as error:
            # encoders' headers are right, so that it is one that goes along
            message = f"a copied track's header is damaged: {self.plan.muxer} refuses it"
            raise BadInput(message, stage="mux", path=self.plan.path) from error
        except MUX_ERRORS as error:
            raise output_error(error, self.plan.path) from error

    def write(self, packets: list[Packet[Any]]) -> None:
        with self._lock:
            if self._started:
                self._mux(packets)
            else:
                self._early += packets

    def _mux(self, packets: list[Packet[Any]]) -> None:
        try:
            for packet in packets:
                self._put(packet)
        except MUX_ERRORS as error:
            raise output_error(error, self.plan.path) from error

    def _put(self, packet: Packet[Any]) -> None:
        self.bytes += packet.size
        self._container.mux_one(packet)

    def close(self) -> None:
        """Writes the trailer (for MP4 the index, moved to the front)."""
        if self._closed:
            return
        self._closed = True
        if self._unopened and self._chapters is not None:
            # in software it would be an empty track, or an error of the input: let it be tried there
            self._container.close()
            raise DeviceUnsupported("no picture came to open the GPU's encoder with", stage="encode")
        try:
            self._container.close()
            if self._shapes and self.plan.muxer in ("matroska", "webm") and self._started:
                write_pixel_shapes(self.path, self._shapes, webm=self.plan.muxer == "webm")
        except MUX_ERRORS as error:
            raise output_error(error, self.plan.path) from error

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close()
        except PipelineError:
            return  # the first error is the one that counts


def _entries(chapters: tuple[Chapter, ...]) -> list[Any]:
    return [
        {
            "id": number,
            "start": round(chapter.start_seconds * 1000),
            "end": round(chapter.end_seconds * 1000),
            "time_base": Fraction(1, 1000),
            "metadata": {"title": chapter.title} if chapter.title else {},
        }
        for number, chapter in enumerate(chapters)
    ]
