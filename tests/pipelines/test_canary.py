"""The clips that canaries fly with, and what they ask for; flying itself needs a GPU (tests/devices)."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from pipelines.errors import DeviceUnsuitable
from pipelines.limits import Limits
from pipelines.trials.canary import FRAMES, Canary, CanaryResult, _codecs, _make, fly
from tests.pipelines.gpus import decodes, encodes, gpu


@pytest.mark.parametrize(("codec", "bit_depth"), [("h264", 8), ("hevc", 10), ("vp9", 8), ("mpeg2video", 8)])
def test_clip_has_its_codec_depth_and_pictures(tmp_path: Path, codec: str, bit_depth: int) -> None:
    assert _make(tmp_path / "clip.mkv", codec, bit_depth)
    with av.open(str(tmp_path / "clip.mkv")) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name.startswith(codec)
        assert ("10" in str(stream.codec_context.pix_fmt)) is (bit_depth == 10)
        assert sum(1 for _ in container.decode(stream)) == FRAMES


@pytest.mark.parametrize(("codec", "bit_depth"), [("vc1", 8), ("mpeg2video", 10)])
def test_what_can_not_be_made_can_not_be_tried(tmp_path: Path, codec: str, bit_depth: int) -> None:
    canary = Canary(stage="decode", codec=codec, bit_depth=bit_depth)
    assert fly(canary, gpu(), tmp_path, Limits()) == CanaryResult(tried=False)


@pytest.mark.parametrize(
    ("canary", "codecs"),
    [
        (Canary(), ("h264", "h264")),
        (Canary(stage="decode", codec="vp9"), ("vp9", "h264")),
        (Canary(stage="filter", codec="hevc"), ("hevc", "h264")),
        (Canary(stage="encode", codec="hevc", bit_depth=10), ("h264", "hevc")),
    ],
)
def test_canary_is_of_what_failed(canary: Canary, codecs: tuple[str, str]) -> None:
    assert _codecs(canary, gpu()) == codecs


def test_device_that_encodes_nothing_is_not_tried(tmp_path: Path) -> None:
    assert fly(Canary(), gpu(decodes("h264")), tmp_path, Limits()) == CanaryResult(tried=False)


def test_canary_never_flies_on_the_cpu_instead(tmp_path: Path) -> None:
    small = gpu(encodes("h264", max_size=(64, 64)))
    with pytest.raises(DeviceUnsuitable):
        fly(Canary(), small, tmp_path, Limits())
