"""Digits as small bitmaps, for times on pictures where there is no font."""

from __future__ import annotations

from typing import Any

import numpy as np

Mask = np.ndarray[Any, np.dtype[np.bool_]]

HEIGHT = 7
_ROWS: dict[str, tuple[str, ...]] = {
    "0": (" ### ", "#   #", "#  ##", "# # #", "##  #", "#   #", " ### "),
    "1": ("  #  ", " ##  ", "  #  ", "  #  ", "  #  ", "  #  ", " ### "),
    "2": (" ### ", "#   #", "    #", "   # ", "  #  ", " #   ", "#####"),
    "3": (" ### ", "#   #", "    #", "  ## ", "    #", "#   #", " ### "),
    "4": ("   # ", "  ## ", " # # ", "#  # ", "#####", "   # ", "   # "),
    "5": ("#####", "#    ", "#### ", "    #", "    #", "#   #", " ### "),
    "6": (" ### ", "#    ", "#    ", "#### ", "#   #", "#   #", " ### "),
    "7": ("#####", "    #", "   # ", "  #  ", "  #  ", "  #  ", "  #  "),
    "8": (" ### ", "#   #", "#   #", " ### ", "#   #", "#   #", " ### "),
    "9": (" ### ", "#   #", "#   #", " ####", "    #", "    #", " ### "),
    ":": (" ", "#", " ", " ", " ", "#", " "),
    ".": (" ", " ", " ", " ", " ", " ", "#"),
}


def text_mask(text: str, scale: int) -> Mask:
    """Where the text has ink; a pixel of the bitmaps is `scale` pixels wide and high."""
    columns: list[Mask] = []
    for character in text:
        glyph = np.array([[cell == "#" for cell in row] for row in _ROWS[character]], dtype=np.bool_)
        columns += [glyph, np.zeros((HEIGHT, 1), dtype=np.bool_)]
    line = np.concatenate(columns[:-1], axis=1)
    mask: Mask = line.repeat(scale, axis=0).repeat(scale, axis=1)
    return mask


def clock(seconds: float) -> str:
    """h:mm:ss, or m:ss below an hour."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{second:02}" if hours else f"{minutes}:{second:02}"
