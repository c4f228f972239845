"""Sources and devices as values, for plans that are tested without media."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pipelines.devices import Device, software_device
from pipelines.plan import plan
from pipelines.rendition import AudioRendition, OutputPlan, Plan, VideoRendition
from pipelines.source import AudioInfo, Colour, SourceInfo, VideoInfo
from pipelines.spec import FileJob

SOFTWARE: Device = software_device(1)


def video(**changes: Any) -> VideoInfo:
    """A plain 1080p25 H.264 track, with changes."""
    facts: dict[str, Any] = dict(
        index=0, position=0, codec="h264", decodable=True, width=1920, height=1080, pixel_format="yuv420p",
        frame_rate=Fraction(25), time_base=Fraction(1, 12_800), field_order="progressive",
        colour=Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv"),
    )  # fmt: skip
    return VideoInfo(**{**facts, **changes})


def audio(**changes: Any) -> AudioInfo:
    """A plain stereo AAC track, with changes."""
    facts: dict[str, Any] = dict(
        index=1, position=0, codec="aac", decodable=True, sample_rate=48_000, channels=2, layout="stereo",
        sample_format="fltp",
    )  # fmt: skip
    return AudioInfo(**{**facts, **changes})


def source(*tracks: VideoInfo | AudioInfo, **changes: Any) -> SourceInfo:
    tracks = tracks or (video(), audio())
    facts: dict[str, Any] = dict(
        format="mov,mp4,m4a,3gp,3g2,mj2",
        duration_seconds=60.0,
        video=tuple(track for track in tracks if isinstance(track, VideoInfo)),
        audio=tuple(track for track in tracks if isinstance(track, AudioInfo)),
    )
    return SourceInfo(**{**facts, **changes})


def planned(output: dict[str, Any], of: SourceInfo | None = None, **job: Any) -> Plan:
    """The plan of a job with one output."""
    spec = FileJob.model_validate({"input": {"path": "in", **job.pop("input", {})}, "outputs": [output], **job})
    return plan(spec, of or source(), SOFTWARE)


def only_output(output: dict[str, Any], of: SourceInfo | None = None, **job: Any) -> OutputPlan:
    return planned(output, of, **job).outputs[0]


def video_of(output: dict[str, Any], of: SourceInfo | None = None, **job: Any) -> VideoRendition:
    return next(r for r in only_output(output, of, **job).renditions if isinstance(r, VideoRendition))


def audio_of(output: dict[str, Any], of: SourceInfo | None = None, **job: Any) -> AudioRendition:
    return next(r for r in only_output(output, of, **job).renditions if isinstance(r, AudioRendition))
