"""Photos are shown as viewers show them: turned and mirrored as their Exif block says, as inputs and as logos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.facts.side_data import Kinds
from tests.media import make_video
from tests.photos import photo
from tests.pictures import corners, made, seen
from tests.pipelines.test_filter_overlay import laid, overlay
from tests.pipelines.test_picture_rotation import assert_shows
from tests.stills import picture

SIZE = (96, 64)
KINDS = {"jpg": {"quality": 95, "subsampling": 0}, "png": {}, "webp": {"quality": 95}, "tiff": {}}


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", KINDS)
def test_a_photo_is_upright(tmp_path: Path, kind: str, orientation: int) -> None:
    source = tmp_path / f"in.{kind}"
    upright = photo(source, corners(SIZE), orientation, **KINDS[kind])
    output = made(source, tmp_path / "out", "mp4")
    assert_shows(output, upright)
    assert (seen(output).rotation, seen(output).mirrored) == (0, False)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_logo_is_upright(tmp_path: Path, orientation: int) -> None:
    upright = photo(tmp_path / "logo.png", corners((48, 32)), orientation)
    film = make_video(tmp_path / "in.mp4", size=(160, 120), seconds=0.2, audio=())
    logo = overlay(anchor="top_left", opacity=1)
    shown = picture(laid(film, tmp_path / "out", {"path:logo.png": tmp_path / "logo.png"}, logo))
    height, width = upright.shape[:2]
    for rows in (slice(3, 8), slice(height - 8, height - 3)):
        for columns in (slice(3, 8), slice(width - 8, width - 3)):
            off = shown[rows, columns].mean(axis=(0, 1)) - upright[rows, columns].mean(axis=(0, 1))
            assert np.abs(off).max() < 30


def test_a_type_of_side_data_that_pyav_lacks_has_a_name_that_stays() -> None:
    assert Kinds(9999).name == "TYPE_9999"
    assert Kinds(9999) is Kinds(9999)
    assert Kinds["DISPLAYMATRIX"].name == "DISPLAYMATRIX"
