"""Opening inputs safely: by descriptor, with the one demuxer that the bytes call for, within limits.

FFmpeg gets no path and no other protocol, so nothing in a file can make it open another. Time-outs are the parent
process's matter: FFmpeg's would cost a call into Python for each read, and cover only part of what can hang.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.codec.hwaccel import HWAccel
from av.container import InputContainer

from pipelines.errors import BadInput, LimitExceeded, OutOfMemory, Truncated, UnsupportedSpec
from pipelines.facts.structure import promised_size
from pipelines.limits import Limits
from pipelines.opening.signatures import Demuxer
from pipelines.opening.sniff import sniff

PROBE_BYTES = 5_000_000
"""Bytes read to find the tracks' parameters; FFmpeg's default."""
PATIENT_PROBE_BYTES = 64_000_000
PATIENT_PROBE_MICROSECONDS = 60_000_000
"""For files with tracks that start late: taken when the first look left a track unknown."""
READABLE_BY_LATER_BUILDS = {Demuxer.WEBP_ANIM: "the input is an animated WebP, which FFmpeg reads from 9.0 on"}
RAW_VIDEO = frozenset(
    {Demuxer.H264, Demuxer.HEVC, Demuxer.VVC, Demuxer.M4V, Demuxer.MPEGVIDEO, Demuxer.VC1, Demuxer.DIRAC}
)
"""Formats without times: their demuxers take 25 frames per second for granted."""
HIGHEST_RAW_RATE = 300
MEMORY_FOR_OPENING_BYTES = 256 << 20
MANY_STREAMS = 4096
"""Tracks that are opened only to count them."""


@dataclass(frozen=True)
class LocalFile:
    """A file of this machine. `name` is what the user calls it, for messages; it is never opened."""

    path: Path
    name: str
    beside: Mapping[str, Path] = field(default_factory=dict)
    """Files that go with it, such as images to lay over its pictures, by what the job knows them by."""


@contextmanager
def open_input(file: LocalFile, limits: Limits, *, hwaccel: HWAccel | None = None) -> Iterator[InputContainer]:
    """An opened input, closed at the end. Its decoders refuse pictures beyond the limit, and use `hwaccel` if given.

    Raises BadInput, Truncated, LimitExceeded (limit_streams, limit_pixels) or OutOfMemory, at stage `open`.
    """
    container = _open_checked(file, limits, hwaccel)
    try:
        yield container
    finally:
        container.close()


def read_packets(container: InputContainer, streams: Sequence[Any]) -> Iterator[Any]:
    """Packets of `streams` to the end of the file, and then an empty one for each, which flushes its decoder.

    Raises av.error.FFmpegError where reading fails. Tracks that appear only while the file is read are left out.
    """
    packets = container.demux(*streams) if streams else iter(())
    while True:
        try:
            packet = next(packets, None)
        except IndexError:
            return  # PyAV counts the tracks anew at the end, and stumbles over those that it did not know
        if packet is None:
            return
        yield packet


def decoder_options(limits: Limits) -> dict[str, str]:
    """Options that hold a decoder to the limit on pixels.

    FFmpeg counts padding too: a little more is allowed here, and the exact limit is checked on what is displayed.
    """
    return {"max_pixels": str(limits.max_pixels + limits.max_pixels // 8 + 65_536)}


def check_pixels(width: int, height: int, limits: Limits, **facts: Any) -> None:
    """LimitExceeded when a picture is larger than allowed."""
    if width * height > limits.max_pixels:
        raise LimitExceeded(
            "limit_pixels",
            f"a picture of {width}x{height} has more than the {limits.max_pixels} pixels allowed",
            stage="open",
            width=width,
            height=height,
            limit=limits.max_pixels,
            **facts,
        )


@contextmanager
def _descriptor(file: LocalFile) -> Iterator[int]:
    """A descriptor with a position of its own: duplicates share theirs, so each opening takes a fresh one."""
    try:
        # a FIFO or a device would block here without O_NONBLOCK
        descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise BadInput(f"the input can't be opened: {error.strerror}", stage="open", name=file.name) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadInput("the input is not a regular file", stage="open", name=file.name)
        yield descriptor
    finally:
        os.close(descriptor)


def _open_checked(file: LocalFile, limits: Limits, hwaccel: HWAccel | None) -> InputContainer:
    with _descriptor(file) as descriptor:
        demuxer = sniff(descriptor)
        if demuxer in (Demuxer.PNG, Demuxer.APNG):
            # FFmpeg's PNG decoder allocates the picture even when it is told to skip it
            width, height = (int.from_bytes(os.pread(descriptor, 4, at)) for at in (16, 20))
            check_pixels(width, height, limits)
        size = os.fstat(descriptor).st_size
    options = {"max_streams": str(limits.max_streams + 1), "probesize": str(PROBE_BYTES), **decoder_options(limits)}
    container = _open(file, demuxer, options, hwaccel=hwaccel)
    try:
        _check_streams(container, limits)
        if _incomplete(container):
            _check_hidden_size(file, demuxer, limits)
            if size > PROBE_BYTES:
                container.close()
                options["probesize"] = str(PATIENT_PROBE_BYTES)
                options["analyzeduration"] = str(PATIENT_PROBE_MICROSECONDS)
                container = _open(file, demuxer, options, hwaccel=hwaccel)
                _check_streams(container, limits)
        if demuxer in RAW_VIDEO and (rate := _own_rate(container)) is not None:
            container.close()
            container = _open(file, demuxer, {**options, "framerate": str(rate)}, hwaccel=hwaccel)
        for stream in container.streams.video:
            if stream.codec_context is not None:
                check_pixels(stream.codec_context.width, stream.codec_context.height, limits, stream=stream.index)
                stream.codec_context.options = decoder_options(limits)
    except BaseException:
        container.close()
        raise
    return container


def _open(
    file: LocalFile,
    demuxer: Demuxer,
    options: dict[str, str],
    *,
    count_streams: bool = True,
    hwaccel: HWAccel | None = None,
) -> InputContainer:
    with _descriptor(file) as descriptor:
        try:
            return av.open(
                "fd:",
                "r",
                format=demuxer.value,
                options={
                    "fd": str(descriptor),  # FFmpeg makes a duplicate of its own, and closes that
                    "protocol_whitelist": "fd",
                    "format_whitelist": demuxer.value,
                    **options,
                },
                metadata_errors="replace",
                hwaccel=hwaccel,
            )
        except av.error.MemoryError as error:
            # what FFmpeg says when a file has more tracks than max_streams, when damage reads as a huge size, and when
            # there really is no memory
            if count_streams:
                _count_streams(file, demuxer, int(options["max_streams"]) - 1)
            if _is_memory_left():
                message = f"the input could not be opened as {demuxer.value}: it asks for an absurd amount of memory"
                raise BadInput(message, stage="open", demuxer=demuxer.value) from error
            raise OutOfMemory("opening the input takes more memory than there is", stage="open") from error
        except av.error.FFmpegError as error:
            raise _refused(descriptor, demuxer, error) from error
        except ValueError as error:
            if demuxer in READABLE_BY_LATER_BUILDS:
                message = f"{READABLE_BY_LATER_BUILDS[demuxer]}: this build of FFmpeg can't read it"
                raise UnsupportedSpec(message, stage="open", demuxer=demuxer.value) from error
            raise BadInput(
                f"this build of FFmpeg can't read {demuxer.value}", stage="open", demuxer=demuxer.value
            ) from error


def _is_memory_left() -> bool:
    """Whether more could still be had than any index takes."""
    try:
        bytearray(MEMORY_FOR_OPENING_BYTES)
    except MemoryError:
        return False
    return True


def _refused(descriptor: int, demuxer: Demuxer, error: av.error.FFmpegError) -> BadInput:
    if demuxer is Demuxer.MOV and _index_is_missing(descriptor):
        return Truncated("the file ends before its index (moov): it was not written to its end", stage="open")
    size, promised = os.fstat(descriptor).st_size, promised_size(descriptor, set(demuxer.value.split(",")))
    if promised is not None and promised > size:
        message = f"the file has {size} of the {promised} bytes that it promises, too few to open it"
        return Truncated(message, stage="open", size_bytes=size, promised_bytes=promised)
    return BadInput(
        f"the input could not be opened as {demuxer.value}: {error.strerror}", stage="open", demuxer=demuxer.value
    )


def _index_is_missing(descriptor: int) -> bool:
    """Whether an MP4 has media but no index."""
    at = 0
    names: set[bytes] = set()
    while len(head := os.pread(descriptor, 16, at)) >= 8 and len(names) < 100:
        size = int.from_bytes(head[:4])
        names.add(head[4:8])
        if size == 1:
            size = int.from_bytes(head[8:16])
        if size < 8:
            break
        at += size
    return b"mdat" in names and b"moov" not in names


def _check_streams(container: InputContainer, limits: Limits) -> None:
    count = len(container.streams)
    if count > limits.max_streams:
        raise LimitExceeded(
            "limit_streams",
            f"the input has more than the {limits.max_streams} tracks allowed",
            stage="open",
            limit=limits.max_streams,
        )


def _count_streams(file: LocalFile, demuxer: Demuxer, limit: int) -> None:
    if limit + 1 >= MANY_STREAMS:
        return
    container = _open(file, demuxer, {"max_streams": str(MANY_STREAMS), "probesize": "32"}, count_streams=False)
    with container:
        if len(container.streams) > limit:
            raise LimitExceeded(
                "limit_streams",
                f"the input has {len(container.streams)} tracks; {limit} are allowed",
                stage="open",
                limit=limit,
                streams=len(container.streams),
            )


def _incomplete(container: InputContainer) -> bool:
    """Whether a track that could be decoded lacks its parameters."""
    for stream in container.streams:
        context: Any = stream.codec_context
        if context is None:
            continue
        if stream.type == "video" and (context.width == 0 or context.pix_fmt is None):
            return True
        if stream.type == "audio" and (context.sample_rate == 0 or context.layout.nb_channels == 0):
            return True
    return False


def _own_rate(container: InputContainer) -> Fraction | None:
    """The frame rate that a raw stream's headers state, where its demuxer assumes another."""
    for stream in container.streams.video:
        rate = stream.codec_context.framerate if stream.codec_context is not None else None
        if rate is not None and 1 <= rate <= HIGHEST_RAW_RATE and rate != stream.average_rate:
            return Fraction(rate)
    return None


def _check_hidden_size(file: LocalFile, demuxer: Demuxer, limits: Limits) -> None:
    """A picture beyond the limit leaves no size behind: looks again with decoders that read headers only."""
    options = {"max_streams": str(limits.max_streams + 1), "probesize": str(PROBE_BYTES), "skip_frame": "all"}
    with _open(file, demuxer, options) as container:
        for stream in container.streams.video:
            if stream.codec_context is not None:
                check_pixels(stream.codec_context.width, stream.codec_context.height, limits, stream=stream.index)
