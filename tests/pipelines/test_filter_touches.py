"""Denoise and sharpen: the stronger the level, the more of it, and colours stay what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from av.video.frame import VideoFrame

from tests.measure import decode_video
from tests.media import make_video
from tests.pictures import Array, fill, made, plane_of

SIZE = (160, 120)
LEVELS = ("light", "medium", "strong")


def still_of(luma: Array, bits: int) -> VideoFrame:
    unit = 1 << (bits - 8)
    frame = VideoFrame(*SIZE, "yuv420p" if bits == 8 else "yuv420p10le")
    fill(frame, 0, np.clip(np.round(luma * unit), 0, 255 * unit), bits)
    fill(frame, 1, np.full((SIZE[1] // 2, SIZE[0] // 2), 100 * unit), bits)
    fill(frame, 2, np.full((SIZE[1] // 2, SIZE[0] // 2), 150 * unit), bits)
    return frame


def steps() -> Array:
    """Flat areas with edges between them."""
    y, x = np.mgrid[0 : SIZE[1], 0 : SIZE[0]]
    return 60.0 + 70 * ((x // 40 + y // 40) % 3)


def clip(path: Path, pictures: list[Array], bits: int) -> Path:
    frames = [still_of(picture, bits) for picture in pictures]
    form = frames[0].format.name
    return make_video(path, size=SIZE, seconds=1, frames=frames, audio=(), codec="ffv1", pixel_format=form)


def luma_of(path: Path, bits: int) -> Array:
    frames = decode_video(path).frames
    return np.stack([plane_of(frame) for frame in frames]) / (1 << (bits - 8))


def encoded(path: Path, folder: Path, bits: int, filters: list[dict[str, Any]]) -> Path:
    fine = {"rate_control": {"mode": "crf", "crf": 2}}
    return made(path, folder, "mkv", codec="h264" if bits == 8 else "hevc", filters=filters, **fine)


@pytest.mark.parametrize("bits", [8, 10])
def test_more_noise_is_gone_the_stronger_the_level(tmp_path: Path, bits: int) -> None:
    random = np.random.default_rng(3)
    noisy = [steps() + random.normal(0, 6, steps().shape) for _ in range(4)]
    path = clip(tmp_path / "clip.mkv", noisy, bits)
    errors = []
    for level in (None, *LEVELS):
        filters = [] if level is None else [{"type": "denoise", "level": level}]
        output = encoded(path, tmp_path / str(level), bits, filters)
        errors.append(float(np.abs(luma_of(output, bits) - steps()).mean()))
        chroma = plane_of(decode_video(output, limit=1).frames[0], 1) / (1 << (bits - 8))
        assert abs(float(chroma.mean()) - 100) < 1
    assert errors == sorted(errors, reverse=True)
    assert errors[1] < 0.95 * errors[0]
    assert errors[3] < 0.5 * errors[0]


@pytest.mark.parametrize("bits", [8, 10])
def test_edges_are_steeper_the_stronger_the_level(tmp_path: Path, bits: int) -> None:
    blurred = steps()
    for _ in range(4):
        blurred = (blurred + np.roll(blurred, 1, axis=1) + np.roll(blurred, -1, axis=1)) / 3
    path = clip(tmp_path / "clip.mkv", [blurred] * 3, bits)
    steepness, means = [], []
    for level in (None, *LEVELS):
        filters = [] if level is None else [{"type": "sharpen", "level": level}]
        picture = luma_of(encoded(path, tmp_path / str(level), bits, filters), bits)
        steepness.append(float(np.abs(np.diff(picture[:, :, 10:-10], axis=2)).max()))
        means.append(float(picture.mean()))
    assert steepness == sorted(steepness)
    assert steepness[-1] > 1.3 * steepness[0]
    assert max(means) - min(means) < 1.5
