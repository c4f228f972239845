"""PQ and HLG: kept with all their numbers where 10 bits are kept, tone-mapped where they are not."""

from __future__ import annotations

import colorsys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import UnsupportedSpec
from pipelines.source import Colour, MasteringDisplay
from tests.measure import decode_video
from tests.media import make_video
from tests.pictures import Array, made, patch_colours, plane_of, planned, seen, shown, still, yuv_frame

BT709 = Colour(primaries="bt709", transfer="bt709", matrix="bt709", range="tv")
PQ = Colour(primaries="bt2020", transfer="smpte2084", matrix="bt2020nc", range="tv")
HLG = PQ.model_copy(update={"transfer": "arib-std-b67"})
DISPLAY = MasteringDisplay(
    green=(13250, 34500), blue=(7500, 3000), red=(34000, 16000), white=(15635, 16450),
    max_luminance=10_000_000, min_luminance=50,
)  # fmt: skip
X265_DISPLAY = "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50):max-cll=1000,400"
NITS = (0, 1, 5, 10, 26, 50, 100, 150, 203, 300, 400, 600, 800, 1000)


def pq(nits: Any) -> Array:
    """SMPTE ST 2084's signal (0-1) of luminances in cd/m²."""
    power = np.clip(np.asarray(nits, float) / 10_000, 0, 1) ** (2610 / 16384)
    return ((3424 / 4096 + 2413 / 128 * power) / (1 + 2392 / 128 * power)) ** (2523 / 32)


def hlg(scene: Any) -> Array:
    """ARIB STD-B67's signal (0-1) of scene light (0-1)."""
    light = np.asarray(scene, float)
    upper = 0.17883277 * np.log(np.maximum(12 * light - 0.28466892, 1e-9)) + 0.55991073
    return np.where(light <= 1 / 12, np.sqrt(3 * light), upper)


def columns(signals: Any) -> Array:
    """Columns of 16 pixels: signals (n × 3, or n for grey) 0-1 as 0-255."""
    values = np.asarray(signals, float)
    values = values if values.ndim == 2 else np.repeat(values[:, None], 3, axis=1)
    return np.repeat(values, 16, axis=0)[None, :, :].repeat(64, axis=0) * 255


def hdr_clip(path: Path, picture: Array, colour: Colour, *, mastered: bool = True, codec: str = "hevc") -> Path:
    frame = yuv_frame(picture, "bt2020nc", bits=10)
    params = "lossless=1" + (f":{X265_DISPLAY}" if mastered else "")
    return make_video(
        path, size=(picture.shape[1], picture.shape[0]), seconds=1, frames=still(frame, 3), audio=(), codec=codec,
        pixel_format="yuv420p10le", colour=colour, options={"x265-params": params} if codec == "hevc" else {},
    )  # fmt: skip


@pytest.mark.parametrize("origin", ["mp4", "mkv"])
@pytest.mark.parametrize(("kind", "codec"), [("mp4", "hevc"), ("mkv", "hevc"), ("mp4", "av1"), ("mkv", "av1")])
def test_hdr10_keeps_its_tags_its_display_and_its_light_levels(
    tmp_path: Path, origin: str, kind: str, codec: str
) -> None:
    clip = hdr_clip(tmp_path / f"clip.{origin}", columns(pq(NITS)), PQ)
    output = made(clip, tmp_path / "out", kind, codec=codec)
    expected = PQ.model_copy(update={"mastering_display": DISPLAY, "max_cll": (1000, 400)})
    assert seen(clip).colour == expected
    assert seen(output).pixel_format == "yuv420p10le"
    kept = seen(output).colour
    assert kept.model_copy(update={"mastering_display": None}) == expected.model_copy(
        update={"mastering_display": None}
    )
    assert_same_display(kept.mastering_display, DISPLAY)


def assert_same_display(display: MasteringDisplay | None, expected: MasteringDisplay) -> None:
    """Equal but for rounding: AV1 counts chromaticities in 1/65536, and luminance in 1/256 and 1/16384."""
    assert display is not None
    for name in ("green", "blue", "red", "white"):
        assert np.abs(np.subtract(getattr(display, name), getattr(expected, name))).max() <= 1
    assert abs(display.max_luminance - expected.max_luminance) <= 40
    assert abs(display.min_luminance - expected.min_luminance) <= 1


@pytest.mark.parametrize(("kind", "codec"), [("mp4", "hevc"), ("mkv", "av1"), ("ts", "hevc")])
def test_hlg_keeps_its_tags(tmp_path: Path, kind: str, codec: str) -> None:
    clip = hdr_clip(tmp_path / "clip.mkv", columns(hlg(np.linspace(0, 1, 14))), HLG, mastered=False)
    output = made(clip, tmp_path / "out", kind, codec=codec)
    assert seen(output).colour == HLG
    assert seen(output).bit_depth == 10
    before, after = (plane_of(decode_video(path, limit=1).frames[0])[32, 8::16] for path in (clip, output))
    assert np.abs(before - after).max() <= 8


SDR_DELIVERIES: list[tuple[str, dict[str, Any]]] = [
    ("mp4", {"codec": "h264"}), ("webm", {"codec": "vp9"}), ("mp4", {"codec": "hevc", "pixel_format": "yuv420p"}),
    ("mkv", {"codec": "av1", "pixel_format": "yuv420p"}), ("mp4", {"codec": "h264", "height": 32}),
]  # fmt: skip


@pytest.mark.parametrize("colour", [PQ, HLG], ids=["pq", "hlg"])
@pytest.mark.parametrize(("kind", "video"), SDR_DELIVERIES)
def test_hdr_into_8_bits_is_tone_mapped_monotonically_and_tagged_bt709(
    tmp_path: Path, colour: Colour, kind: str, video: dict[str, Any]
) -> None:
    signal = pq(NITS) if colour is PQ else np.linspace(0, 1, len(NITS))
    clip = hdr_clip(tmp_path / "clip.mkv", columns(signal), colour, mastered=colour is PQ)
    output = made(clip, tmp_path / "out", kind, **video)
    assert (seen(output).colour, seen(output).pixel_format) == (BT709, "yuv420p")
    frame = decode_video(output, limit=1).frames[0]
    step = frame.width // len(NITS)
    levels = plane_of(frame)[frame.height // 2, step // 2 :: step]
    assert (np.diff(levels) > 0).all(), levels
    assert levels[0] <= 18
    assert levels[-1] >= 225
    assert "tone-mapped" in planned(clip, kind, **video).reason


def test_mid_tones_of_pq_are_not_crushed(tmp_path: Path) -> None:
    clip = hdr_clip(tmp_path / "clip.mkv", columns(pq(NITS)), PQ)
    frame = decode_video(made(clip, tmp_path / "out", "mp4"), limit=1).frames[0]
    levels = dict(zip(NITS, (plane_of(frame)[32, 8::16] - 16) / 219, strict=True))
    # 26 cd/m² is 18 % grey of the reference white of 203 cd/m², as ITU-R BT.2408 places them
    assert 0.3 < levels[26] < 0.45
    assert 0.75 < levels[203] < 1


TO_2020 = np.array([[0.6274, 0.3293, 0.0433], [0.0691, 0.9195, 0.0114], [0.0164, 0.0880, 0.8956]])
"""Linear BT.709 to BT.2020 (ITU-R BT.2087)."""
SKINS = ((210, 160, 130), (150, 100, 75), (90, 60, 45), (235, 190, 165))


@pytest.mark.parametrize("colour", [PQ, HLG], ids=["pq", "hlg"])
def test_tone_mapped_skin_keeps_its_hue_within_6_degrees(tmp_path: Path, colour: Colour) -> None:
    linear = (np.array(SKINS) / 255) ** 2.4 @ TO_2020.T
    signal = pq(linear * 203) if colour is PQ else hlg(linear * 0.265)
    clip = hdr_clip(tmp_path / "clip.mkv", columns(np.repeat(signal, 2, axis=0)), colour, mastered=colour is PQ)
    frame = decode_video(made(clip, tmp_path / "out", "mp4"), limit=1).frames[0]
    for patch, skin in zip(patch_colours(shown(frame), len(SKINS)), SKINS, strict=True):
        hues = [colorsys.rgb_to_hsv(*(np.clip(rgb, 0, 255) / 255))[0] * 360 for rgb in (patch, np.array(skin))]
        assert abs(hues[0] - hues[1]) < 6, (patch, skin)


@pytest.mark.parametrize(("codec", "pixel_format"), [("av1", "yuv444p10le"), ("av1", "yuv422p")])
def test_a_pixel_format_that_the_encoder_does_not_take_is_refused(
    tmp_path: Path, codec: str, pixel_format: str
) -> None:
    clip = hdr_clip(tmp_path / "clip.mkv", columns(pq(NITS)), PQ)
    with pytest.raises(UnsupportedSpec, match="it takes yuv420p, yuv420p10le"):
        planned(clip, "mp4", codec=codec, pixel_format=pixel_format)


def test_pq_stays_in_ten_bits_that_are_asked_for(tmp_path: Path) -> None:
    clip = hdr_clip(tmp_path / "clip.mkv", columns(pq(NITS)), PQ)
    output = made(clip, tmp_path / "out", "mkv", codec="h264", pixel_format="yuv420p10le")
    assert seen(output).colour.is_hdr
