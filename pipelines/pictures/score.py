"""What a picture is worth as a picture: sharp, well lit, calm; and whether one belongs to another scene.

Measured on small grey copies. Numbers are shares of the full scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter

Grey = np.ndarray[Any, np.dtype[np.float32]]

WIDTH = 320
"""Columns that are looked at: blur of a few pixels still shows."""
SCENE_SIZE = (64, 36)
USUAL_SHARPNESS, USUAL_CONTRAST = 0.02, 0.15
"""Where half of what sharpness and contrast can give is reached (ordinary film: about these)."""
LEAST = 0.02
"""Also of what has neither: a plain grey is still better than black."""
RESTLESS = 0.03
"""Change to the picture after it that halves a picture's worth: a fade over a second changes 0.04 in each."""
DARKEST, BRIGHTEST = 0.06, 0.94
"""Mean levels beyond which a picture is called black, or white."""


class Greys:
    """Small grey copies of decoded pictures, wherever those lie."""

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()

    def of(self, frame: Any, width: int, height: int) -> Grey:
        small = self._reformatter.reformat(
            frame, width=width, height=height, format="gray", interpolation=Interpolation.AREA
        )
        levels: Grey = small.to_ndarray().astype(np.float32) / np.float32(255)
        return levels

    def for_worth(self, frame: Any) -> Grey:
        width = min(WIDTH, frame.width)
        return self.of(frame, max(4, width), max(4, round(frame.height * width / frame.width)))


def worth(grey: Grey, after: Grey | None) -> float:
    """About 0 to 1. `after`: the picture that follows at once, where there is one."""
    inner = grey[1:-1, 1:-1]
    edges = np.abs(4 * inner - grey[:-2, 1:-1] - grey[2:, 1:-1] - grey[1:-1, :-2] - grey[1:-1, 2:])
    sharpness, contrast, level = float(edges.mean()), float(grey.std()), float(grey.mean())
    value = (LEAST + sharpness / (sharpness + USUAL_SHARPNESS)) * (LEAST + contrast / (contrast + USUAL_CONTRAST))
    if not DARKEST <= level <= BRIGHTEST:
        value *= 0.05
    value *= 1 - abs(2 * level - 1) ** 3 / 2
    if after is not None and after.shape == grey.shape:
        value /= 1 + (float(np.abs(after - grey).mean()) / RESTLESS) ** 2
    return value


class SceneMeter:
    """How much of the picture changes at once: the change, less what there was of it before, as it moves anyway."""

    def __init__(self) -> None:
        self._greys = Greys()
        self._last: Grey | None = None
        self._moved = 0.0

    def change(self, frame: Any) -> float:
        """Of this picture to the one given before; 0 for the first."""
        grey = self._greys.of(frame, *SCENE_SIZE)
        last, self._last = self._last, grey
        if last is None:
            return 0.0
        moved, before = float(np.abs(grey - last).mean()), self._moved
        self._moved = moved
        return min(moved, abs(moved - before))
