"""Whether a track is interlaced, measured on its pictures: flags lie both ways.

Progressive pictures travel as two fields flagged interlaced, and combed pictures as progressive ones. A picture is
combed where something moves and each line stands out from both its neighbours like the teeth of a comb. Teeth are
counted in each picture and in what its fields would make with those of the pictures before and after: a whole picture
has far fewer than any mixture, a combed one about as many as the mixture with its nearest neighbours, and fewer than
that with the far ones, which tells the order of the fields. (FFmpeg's `idet` compares sums of differences; it takes
whole pictures for combed ones where something moves up or down by a line a picture.)
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

from av.video.reformatter import VideoReformatter

Scan = Literal["progressive", "top", "bottom"]

FEWEST_LINES, MOST_LINES = 200, 1088
"""Interlaced systems have 480 to 1080 lines, their halves 240 and more."""
MOST_FRAMES_PER_SECOND = 61
"""Interlaced video has at most 30 pictures in a second, or 60 where headers count fields."""
COLUMNS = 160
"""Columns that are looked at: enough to see something move."""
ENOUGH_TOLD = 16
"""Pictures that told something."""
MAX_PICTURES = 50
FEWEST_TOLD = 4
INTERLACED_SHARE = 0.2
"""Of the pictures that tell: film in interlaced video has two combed pictures of five."""
STEP = 12
"""Levels (of 255) by which a pixel changes where something moves, and by which a tooth stands out."""
FEWEST_MOVED = 0.002
"""Share of the pixels that must move."""
FEWEST_TEETH = 0.004
"""Share of the moving pixels that are teeth in the worst mixture."""
WHOLE_NEAR, WHOLE_FAR = 0.4, 0.2
"""A whole picture has less than these shares of the mixtures' teeth (measured: up to 0.3 of the better's; combed
pictures from 0.45 of the better's and 0.24 of the worse's)."""
SIDED = 1.5
"""How many more teeth the mixture with the far neighbours has (measured: from 1.7)."""


def is_worth_measuring(lines: int, frame_rate: Fraction | None) -> bool:
    return FEWEST_LINES <= lines <= MOST_LINES and (frame_rate is None or frame_rate <= MOST_FRAMES_PER_SECOND)


class ScanMeter:
    """Takes the first decoded pictures of a track in order, and says how they were scanned."""

    def __init__(self, *, patient: bool = False) -> None:
        """`patient`: it takes as many pictures as come."""
        self._patient = patient
        self.scans: list[Scan | None] = []
        """Of each picture that has neighbours."""
        self._reformatter = VideoReformatter()
        self._pictures: list[Any] = []
        self._size = (0, 0)
        self.told: dict[Scan, int] = {"progressive": 0, "top": 0, "bottom": 0}
        self.pictures = 0

    @property
    def done(self) -> bool:
        if self._patient:
            return False
        return sum(self.told.values()) >= ENOUGH_TOLD or self.pictures >= MAX_PICTURES

    def push(self, frame: Any) -> None:
        if self.done:
            return
        self.pictures += 1
        if (frame.width, frame.height) != self._size:
            self._size, self._pictures = (frame.width, frame.height), []
        gray = self._reformatter.reformat(frame, format="gray").to_ndarray()
        columns = gray[:, :: max(1, frame.width // COLUMNS)]
        self._pictures = [*self._pictures[-2:], columns.astype("int16")]
        if len(self._pictures) == 3:
            scan = scan_of(*self._pictures)
            self.scans.append(scan)
            if scan is not None:
                self.told[scan] += 1

    @property
    def verdict(self) -> Scan | None:
        """None: too little moved, or nothing was measured."""
        told = sum(self.told.values())
        if told < FEWEST_TOLD:
            return None
        combed = self.told["top"] + self.told["bottom"]
        if combed <= INTERLACED_SHARE * told:
            return "progressive"
        return "top" if self.told["top"] >= self.told["bottom"] else "bottom"


def scan_of(before: Any, now: Any, after: Any) -> Scan | None:
    """How the middle of three pictures (arrays of lines × columns) was scanned; None where it doesn't tell."""
    moved = abs(after[2:-2] - before[2:-2]) > STEP
    count = int(moved.sum())
    if count < FEWEST_MOVED * moved.size:
        return None
    own = _teeth(now, moved)
    if_top = (_teeth(_woven(after, now), moved) + _teeth(_woven(now, before), moved)) / 2
    if_bottom = (_teeth(_woven(now, after), moved) + _teeth(_woven(before, now), moved)) / 2
    near, far = sorted((if_top, if_bottom))
    if far < FEWEST_TEETH * count:
        return None
    if own < WHOLE_NEAR * near or own < WHOLE_FAR * far:
        return "progressive"
    if far <= SIDED * near:
        return None
    return "top" if if_top < if_bottom else "bottom"


def _woven(top: Any, bottom: Any) -> Any:
    picture = top.copy()
    picture[1::2] = bottom[1::2]
    return picture


def _teeth(picture: Any, moved: Any) -> int:
    """Pixels that stand out from the lines above and below, which are alike, as are the lines beyond those."""
    line, above, below = picture[2:-2], picture[1:-3], picture[3:-1]
    up, down = line - above, line - below
    height = abs(up)
    alike = (2 * abs(above - below) < height) & (2 * abs(line - picture[:-4]) < height)
    teeth = (up * down > 0) & (height > STEP) & (abs(down) > STEP) & alike & moved
    return int(teeth.sum())
