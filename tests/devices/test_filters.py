"""Filters on the GPU show what they show in software: crop, turn, bars and touches, run there without a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.filters import Denoise, Pad, Sharpen
from pipelines.hardware.filters import hardware_names
from pipelines.source import Colour
from tests.devices.gpu_plans import SOFTWARE, made
from tests.measure import decode_video, psnr
from tests.media import make_video
from tests.pictures import corners, shown, still, yuv_frame
from tests.softva.rig import Rig

pytestmark = pytest.mark.vaapi

BT709 = Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv")
SIZE = (192, 128)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    frame = yuv_frame(corners(SIZE), "bt709")
    return make_video(
        tmp_path / "clip.mp4", size=SIZE, frames=still(frame, 3), audio=(), colour=BT709, rotation=90,
        options={"crf": "4"},
    )  # fmt: skip


FILTERS: dict[str, list[dict[str, Any]]] = {
    "crop": [{"type": "crop", "x": 16, "y": 64, "width": 96, "height": 96}],
    "rotate": [{"type": "rotate", "degrees": 180}],
    "mirror": [{"type": "mirror", "axis": "vertical"}],
    "pad": [{"type": "pad", "aspect": "1:1", "colour": "#ff8800"}],
    "denoise": [{"type": "denoise", "level": "light"}],
    "sharpen": [{"type": "sharpen", "level": "light"}],
    "all": [
        {"type": "crop", "x": 0, "y": 0, "width": 128, "height": 96},
        {"type": "rotate", "degrees": 270},
        {"type": "denoise"},
        {"type": "sharpen"},
        {"type": "pad", "width": 256, "height": 144, "colour": "white"},
    ],
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_on_the_gpu_shows_what_it_does_in_software(clip: Path, tmp_path: Path, rig: Rig, name: str) -> None:
    output = made(clip, tmp_path / "gpu", rig.node(), filters=FILTERS[name])
    assert (rig.log.downloads(), rig.log.uploads(), rig.log.leaks()) == (0, 0, [])
    assert rig.log.pictures("vpp") >= 3
    software = made(clip, tmp_path / "cpu", rig.node(), SOFTWARE, filters=FILTERS[name])
    one, other = (decode_video(path) for path in (software, output))
    assert (one.frames[0].width, one.frames[0].height) == (other.frames[0].width, other.frames[0].height)
    assert psnr(one, other) > (24 if name in ("sharpen", "all") else 30)


def test_bars_have_their_colour_on_the_gpu(clip: Path, tmp_path: Path, rig: Rig) -> None:
    output = made(clip, tmp_path / "gpu", rig.node(), filters=FILTERS["pad"])
    picture = shown(decode_video(output).frames[0])
    bar = picture[20:-20, 4:24].mean(axis=(0, 1))
    assert np.abs(bar - (255, 136, 0)).max() < 12


def test_each_touch_has_a_filter_of_the_gpu() -> None:
    assert hardware_names(Denoise(level="strong")) == ("denoise_vaapi",)
    assert hardware_names(Sharpen(level="light")) == ("sharpness_vaapi",)
    assert hardware_names(Pad(width=320, height=240, colour="#ffffff")) == ("pad_vaapi",)
