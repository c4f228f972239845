"""What a graph is made of: FFmpeg's filters with their options."""

from __future__ import annotations

from dataclasses import dataclass

from av.video.frame import VideoFrame

Step = tuple[str, dict[str, str]]
"""A filter of FFmpeg and its options."""


@dataclass(frozen=True)
class Fed:
    """A filter of FFmpeg with a second input, which is one picture for all time."""

    name: str
    options: dict[str, str]
    picture: VideoFrame
