"""Frames that lie on a device pass from graph to graph, whatever the API: here Vulkan, by Mesa's software driver."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.codec.hwaccel import HWAccel
from av.video.frame import VideoFrame

from pipelines.graph import Chain

pytestmark = pytest.mark.vaapi

DRIVER = Path("/usr/share/vulkan/icd.d/lvp_icd.json")
SIZE, HALF = (320, 240), (160, 120)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> HWAccel:
    if not DRIVER.exists():
        reason = "Mesa's lavapipe is not installed (mesa-vulkan-drivers)"
        if os.environ.get("REQUIRE_DEVICE") == "vaapi":
            pytest.fail(f"{reason}, and REQUIRE_DEVICE=vaapi is set", pytrace=False)
        pytest.skip(reason)
    monkeypatch.setenv("VK_DRIVER_FILES", str(DRIVER))
    return HWAccel("vulkan").create(av.Codec("h264_vulkan", "w"), for_encoding=True)


def picture(number: int) -> VideoFrame:
    """A ramp that moves."""
    luma = np.add.outer(np.arange(SIZE[1]), np.arange(SIZE[0])) // 4 + 16 + number
    planes = np.full((SIZE[1] * 3 // 2, SIZE[0]), 128, np.uint8)
    planes[: SIZE[1]] = luma
    frame = VideoFrame.from_ndarray(planes, format="nv12")
    frame.pts, frame.time_base = number, Fraction(1, 25)
    return frame


def source(frame: VideoFrame) -> tuple[str, dict[str, str]]:
    size = f"{frame.width}x{frame.height}"
    return "buffer", {"video_size": size, "pix_fmt": frame.format.name, "time_base": "1/25", "pixel_aspect": "1/1"}


def test_surfaces_of_one_graph_feed_the_next(device: HWAccel) -> None:
    pictures = [picture(number) for number in range(5)]
    scale = ("scale_vulkan", {"w": str(HALF[0]), "h": str(HALF[1])})
    first = Chain(source(pictures[0]), [("hwupload", {}), scale], "buffersink", device=device)
    surfaces = [surface for frame in pictures for surface in first.push(frame)]
    assert [(surface.format.name, surface.width, surface.height) for surface in surfaces] == [("vulkan", *HALF)] * 5

    download = [("hwdownload", {}), ("format", {"pix_fmts": "nv12"})]
    second = Chain(source(surfaces[0]), download, "buffersink", surface=surfaces[0])
    frames = [frame for surface in surfaces for frame in second.push(surface)]
    assert [frame.pts for frame in frames] == list(range(5))
    for before, after in zip(pictures, frames, strict=True):
        small = before.reformat(*HALF).to_ndarray()[: HALF[1]].astype(int)
        luma = after.to_ndarray()[: HALF[1]].astype(int)
        assert np.abs(luma - small).mean() < 4


def test_surfaces_go_up_and_down_unchanged(device: HWAccel) -> None:
    frame = picture(0)
    steps = [("hwupload", {}), ("hwdownload", {}), ("format", {"pix_fmts": "nv12"})]
    (back,) = Chain(source(frame), steps, "buffersink", device=device).push(frame)
    assert np.array_equal(back.to_ndarray(), frame.to_ndarray())
