"""Photos and moving pictures as cameras and painting programs write them, by Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

ORIENTATION = 0x112
Array = np.ndarray[Any, np.dtype[Any]]


def photo(path: Path, picture: Array, orientation: int, **options: Any) -> Array:
    """Writes R'G'B' as a photo whose Exif block says how it is turned; gives it as viewers show it."""
    image = Image.fromarray(picture)
    tags = Image.Exif()
    tags[ORIENTATION] = orientation
    image.getexif()[ORIENTATION] = orientation
    image.save(path, exif=tags, **options)
    return np.asarray(ImageOps.exif_transpose(image))


def flip_book(path: Path, milliseconds: Sequence[int], size: tuple[int, int] = (96, 64)) -> Path:
    """Plain greys, each lighter than the one before, shown for as long as is said."""
    step = 200 // len(milliseconds)
    pages = [Image.new("RGB", size, (20 + step * number,) * 3) for number in range(len(milliseconds))]
    pages[0].save(path, save_all=True, append_images=pages[1:], duration=list(milliseconds), loop=0)
    return path
