"""Clips whose pictures say when they are shown, and what stills made of them show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.frame import VideoFrame

from tests.media import make_video
from tests.signals import plain_picture

RATE = 10
STEP = 5
"""Levels of luma from each picture to the next."""
FIRST_LUMA = 20

Array = np.ndarray[Any, np.dtype[Any]]


def make_counted(path: Path, *, seconds: float = 4, **options: Any) -> Path:
    """Plain greys, each picture lighter than the one before: its level is its time."""
    count = round(seconds * RATE)
    size = options.pop("size", (96, 64))
    frames = (plain_picture(size, FIRST_LUMA + STEP * number) for number in range(count))
    return make_video(path, size=size, rate=RATE, seconds=seconds, frames=frames, **{"audio": (), "gop": 10, **options})


def time_shown(picture: Array) -> float:
    """When a picture of such a clip is shown."""
    luma = 16 + picture.mean() * 219 / 255
    return float((luma - FIRST_LUMA) / STEP / RATE)


def picture(path: Path) -> Array:
    """R'G'B' of an image file, as a reader of JPEG or WebP sees it."""
    return frames_in(path)[0]


def frames_in(path: Path) -> list[Array]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


@dataclass(frozen=True)
class Cue:
    begin: float
    end: float
    file: str
    box: tuple[int, int, int, int] | None


_CUE = re.compile(
    r"(\d+):(\d+):(\d+\.\d{3}) --> (\d+):(\d+):(\d+\.\d{3})\n([^\n#]+)(?:#xywh=(\d+),(\d+),(\d+),(\d+))?\n"
)


def cues_in(path: Path) -> list[Cue]:
    """Of an index of pictures; nothing else may be in it."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("WEBVTT\n\n")
    found = list(_CUE.finditer(text))
    assert "".join(match[0] for match in found) == text.removeprefix("WEBVTT\n\n").replace("\n\n", "\n")
    return list(_cues(found))


def _cues(found: list[re.Match[str]]) -> Iterator[Cue]:
    for match in found:
        begin, end = (int(match[n]) * 3600 + int(match[n + 1]) * 60 + float(match[n + 2]) for n in (1, 4))
        box = None if match[8] is None else (int(match[8]), int(match[9]), int(match[10]), int(match[11]))
        yield Cue(begin, end, match[7], box)


def crop(image: Array, box: tuple[int, int, int, int]) -> Array:
    """The part that a cue names, which lies inside."""
    left, top, width, height = box
    assert left + width <= image.shape[1]
    assert top + height <= image.shape[0]
    return image[top : top + height, left : left + width]


def flat(frame: VideoFrame, count: int) -> Iterator[VideoFrame]:
    """The same picture several times."""
    for _ in range(count):
        twin = VideoFrame(frame.width, frame.height, frame.format.name)
        for mine, other in zip(twin.planes, frame.planes, strict=True):
            mine.update(bytes(other))
        yield twin
