"""Whether a job may be cut into pieces, and where.

A cut is the time of a keyframe of the source. The piece before it ends with the picture shown before that one; the
piece after it starts there with a keyframe of its own, decoded from an earlier one, so that open groups of pictures
lose nothing.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
from av.container import InputContainer

from pipelines.asked.rungs import Rung
from pipelines.filters import BurnIn, Deinterlace, InverseTelecine
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, open_input
from pipelines.rate_control import Cbr, TargetQuality
from pipelines.rendition import Plan, VideoRendition
from pipelines.source import SourceInfo
from pipelines.spec import FileJob, MkvOutput, MovOutput, Mp4Output
from pipelines.timestamps import microseconds

MAX_PIECES = 200
SEEKABLE_FORMATS = frozenset({"mov", "matroska", "webm"})
"""Formats with one clock and an index: what is read after a seek has the times that it has when read from the start."""
UNSAFE_RATES = (Cbr, TargetQuality)
"""A constant rate is kept across the joints by nobody; a quality is sought over the whole."""


def spec_refusal(spec: FileJob) -> str | None:
    """Why a job is not to be cut, by what it asks for; None when it may be."""
    outputs = spec.outputs or ()
    if spec.inputs is not None:
        return "its inputs are joined"
    if len(outputs) != 1:
        return "it has several outputs"
    output = outputs[0]
    if not isinstance(output, Mp4Output | MovOutput | MkvOutput):
        return f"{output.type} is not made of pieces"
    if not isinstance(output.video, Rung):
        return "no video is encoded"
    if isinstance(output.video.rate_control, UNSAFE_RATES):
        return f"rate control {output.video.rate_control.mode} is for the whole"
    if output.pace != 1:
        return "it is played at another speed"
    if spec.receipt.quality:
        return "its quality is to be measured"
    if spec.input.clip is not None:
        return "it is a clip"
    if spec.input.url is not None:
        return "each piece would fetch its input"
    return None


def plan_refusal(plan: Plan, source: SourceInfo) -> str | None:
    """The same by what the source is, and what will be done with it."""
    if not SEEKABLE_FORMATS.intersection(source.format.split(",")):
        return f"{source.format} has no index to seek by"
    if source.duration_seconds is None:
        return "its length is not known"
    video = [each for each in plan.outputs[0].renditions if isinstance(each, VideoRendition)]
    if not video:
        return "no video is encoded"
    if video[0].placement == "hardware" or any(step.placement == "hardware" for step in plan.decode):
        return "a GPU's encoder has no parameters before its first picture"
    if any(isinstance(step, Deinterlace | InverseTelecine) for step in video[0].filters):
        return "deinterlacing looks at the pictures before"
    if any(isinstance(step, BurnIn) for step in video[0].filters):
        return "subtitles are drawn into it"
    return None


def find_cuts(
    file: LocalFile, source: SourceInfo, plan: Plan, piece_seconds: float, limits: Limits
) -> tuple[Fraction, ...]:
    """Times on the input's clock at which pieces of about equal length begin; the first one begins with the input.

    Fewer where keyframes are far apart. No piece is shorter than half of what was asked for.
    """
    assert source.duration_seconds is not None
    stream = next(each.stream for each in plan.outputs[0].renditions if isinstance(each, VideoRendition))
    start, whole = microseconds(source.start_seconds), microseconds(source.duration_seconds)
    count = min(MAX_PIECES, round(whole / microseconds(piece_seconds)))
    if count < 2:
        return ()
    length = whole / count
    cuts: list[Fraction] = []
    with open_input(file, limits) as container:
        for number in range(1, count):
            found = _keyframe(container, stream, start + number * length)
            last = cuts[-1] if cuts else start
            if found is not None and found - last >= length / 2 and start + whole - found >= length / 2:
                cuts.append(found)
    return tuple(cuts)


def _keyframe(container: InputContainer, index: int, target: Fraction) -> Fraction | None:
    """When the keyframe is shown that a seek to `target` leads to."""
    stream: Any = container.streams[index]
    try:
        container.seek(int(target / stream.time_base), stream=stream, backward=True)
        for packet in container.demux(stream):
            if packet.pts is None:
                return None
            if packet.is_keyframe and not packet.is_discard:
                return Fraction(packet.pts * stream.time_base)
    except av.error.FFmpegError:
        # such a place is no place to cut at; the attempts that read there will tell what is wrong
        return None
    return None
