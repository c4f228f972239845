"""Pictures put together on sheets."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter

from pipelines.pictures.digits import HEIGHT, clock, text_mask
from pipelines.pictures.encoding import Rgb, frame_of, rgb_of
from pipelines.pictures.layout import SheetLayout

LABEL_SHARE = 14
"""A label is one of so many parts of a picture's height."""


class Tiler:
    """Fills a sheet, picture by picture."""

    def __init__(self, layout: SheetLayout) -> None:
        self.layout = layout
        self._reformatter = VideoReformatter()
        self._sheet: Rgb | None = None
        self._count = 0

    @property
    def full(self) -> bool:
        return self._count == self.layout.capacity

    @property
    def empty(self) -> bool:
        return self._count == 0

    def add(self, picture: Rgb, seconds: Fraction) -> tuple[int, int, int, int]:
        """Puts a picture in the next place; gives its left, top, width and height."""
        layout = self.layout
        if self._sheet is None:
            width, height = layout.size(layout.rows)
            self._sheet = np.empty((height, width, 3), dtype=np.uint8)
            self._sheet[:] = layout.background
        tile = self._tile(picture)
        if layout.timestamps:
            label(tile, clock(float(seconds)))
        left, top = layout.place(self._count)
        self._sheet[top : top + layout.tile_height, left : left + layout.tile_width] = tile
        self._count += 1
        return left, top, layout.tile_width, layout.tile_height

    def take(self) -> Rgb:
        """The sheet, without the rows and columns that nothing is on; the next picture begins another."""
        assert self._sheet is not None
        width, height = self.layout.size(ceil(self._count / self.layout.columns))
        if self._count < self.layout.columns:
            left, _ = self.layout.place(self._count - 1)
            width = left + self.layout.tile_width + self.layout.gap
        sheet, self._sheet, self._count = self._sheet[:height, :width], None, 0
        return sheet

    def _tile(self, picture: Rgb) -> Rgb:
        height, width = picture.shape[:2]
        if (width, height) == (self.layout.tile_width, self.layout.tile_height):
            return picture.copy()
        return rgb_of(
            self._reformatter.reformat(
                frame_of(picture),
                width=self.layout.tile_width,
                height=self.layout.tile_height,
                format="rgb24",
                interpolation=Interpolation.AREA,
            )
        )


def label(tile: Rgb, text: str) -> None:
    """Writes white digits on a dark box into the lower right corner; leaves tiles that are too small alone."""
    height, width = tile.shape[:2]
    scale = max(1, height // LABEL_SHARE // HEIGHT)
    mask = text_mask(text, scale)
    margin = 2 * scale
    box_height, box_width = mask.shape[0] + 2 * margin, mask.shape[1] + 2 * margin
    if box_height > height or box_width > width:
        return
    box = tile[height - box_height :, width - box_width :]
    box //= 4
    inner = box[margin:-margin, margin:-margin]
    inner[mask] = 255
