"""Ladders made for tests, and what is in their segments."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from pipelines.devices import software_device
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.result import Result
from pipelines.spec import FileJob
from pipelines.transcode import transcode
from tests.hls_rules import Media

DEVICE = software_device(1)


def rung(height: int, **options: Any) -> dict[str, Any]:
    return {"height": height, "speed": "ultrafast"} | options


def make_ladder(source: Path, folder: Path, output: dict[str, Any], **job: Any) -> Result:
    """Runs a job of one output (or of those in `outputs`) into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = FileJob.model_validate({"input": {"path": "x", **job.pop("input", {})}, "outputs": [output], **job})
    return transcode(spec, LocalFile(source, source.name), folder, device=DEVICE, limits=Limits())


def frame_times(media: Media, number: int) -> list[Fraction]:
    """Presentation times of all frames of a segment, decoded with nothing but its init section."""
    with av.open(io.BytesIO(media.read(media.entries[number])), "r", format=form(media)) as container:
        stream = container.streams[0]
        assert stream.type in ("video", "audio")
        frames: Any = container.decode(stream)
        return [frame.pts * frame.time_base for frame in frames]


def starts(media: Media) -> list[Fraction]:
    return [min(frame_times(media, number)) for number in range(len(media.entries))]


def form(media: Media) -> str:
    return "mpegts" if media.entries[0].path.suffix == ".ts" else "mp4"


def whole(media: Media, path: Path) -> Path:
    """All of a rendition as one file."""
    data = b"" if media.init is None else media.init.path.read_bytes()[: media.init.offset + media.init.size]
    for entry in media.entries:
        data += entry.path.read_bytes()[entry.offset : entry.offset + entry.size]
    path.write_bytes(data)
    return path
