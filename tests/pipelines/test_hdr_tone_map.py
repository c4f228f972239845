"""HDR as SDR, by patches of known light: white, greys, ramps, saturated colours; measured on decoded output."""

from __future__ import annotations

import colorsys
import time
from pathlib import Path

import numpy as np
import pytest

from pipelines.filters import ToneMap
from pipelines.source import Colour, MasteringDisplay
from pipelines.video.tone_curve import source_peak, tone_mapped
from pipelines.video.tone_map import lookup_picture
from tests.measure import decode_video
from tests.media import make_video
from tests.pictures import Array, made, patch_colours, plane_of, planned, shown, still, yuv_frame
from tests.pipelines.test_picture_hdr import HLG, PQ, TO_2020, columns, hlg, pq

DISPLAY_P3 = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)"
GREYS = (0, 5, 10, 26, 50, 100, 203, 400, 600, 800, 1000)
SATURATED = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (0, 255, 255), (255, 0, 255), (255, 128, 0))


def clip(path: Path, signals: Array, colour: Colour, *, peak: int | None = None, max_cll: int | None = None) -> Path:
    """Lossless, of patches; `peak` of the mastering display and `max_cll` in cd/m²."""
    params = "lossless=1"
    if peak is not None:
        params += f":master-display={DISPLAY_P3}L({peak * 10_000},50)"
    if max_cll is not None:
        params += f":max-cll={max_cll},100"
    picture = columns(signals)
    frames = still(yuv_frame(picture, "bt2020nc", bits=10), 2)
    return make_video(
        path, size=(picture.shape[1], picture.shape[0]), seconds=1, frames=frames,
        audio=(), codec="hevc", pixel_format="yuv420p10le", colour=colour, options={"x265-params": params},
    )  # fmt: skip


def greys(path: Path, folder: Path) -> Array:
    """SDR's signals (0-1) of the patches of the transcoded clip."""
    frame = decode_video(made(path, folder, "mp4"), limit=1).frames[0]
    levels: Array = (plane_of(frame)[32, 8::16].astype(float) - 16) / 219
    return levels


@pytest.mark.parametrize(
    ("peak", "max_cll", "white"),
    [(None, None, 0.871), (1000, None, 0.871), (4000, None, 0.792), (10_000, None, 0.784), (4000, 600, 0.911)],
)
def test_reference_white_of_pq_is_bright_whatever_the_source_says_of_its_peak(
    tmp_path: Path, peak: int | None, max_cll: int | None, white: float
) -> None:
    """203 cd/m² are HDR's reference white (ITU-R BT.2408, table 1)."""
    path = clip(tmp_path / "a.mkv", pq(GREYS), PQ, peak=peak, max_cll=max_cll)
    levels = dict(zip(GREYS, greys(path, tmp_path / "out"), strict=True))
    assert levels[203] == pytest.approx(white, abs=0.012)
    assert 0.75 <= levels[203] <= 1
    # 18 % grey of that white: what is darker than the knee is not touched
    assert levels[26] == pytest.approx((26 / 203) ** (1 / 2.4), abs=0.012)
    assert levels[0] == pytest.approx(0, abs=0.005)


def test_reference_white_of_hlg_is_bright(tmp_path: Path) -> None:
    """A signal of 75 % is HLG's reference white (ITU-R BT.2408, table 1): 203 cd/m² at a peak of 1000."""
    signals = np.array([0, 0.22, 0.38, 0.5, 0.75, 0.9, 1])
    levels = greys(clip(tmp_path / "a.mkv", signals, HLG), tmp_path / "out")
    assert levels[4] == pytest.approx(0.871, abs=0.015)
    assert levels[2] == pytest.approx((26 / 203) ** (1 / 2.4), abs=0.03)
    assert levels[6] == pytest.approx(1, abs=0.01)


def test_highlights_keep_their_steps_up_to_the_peak(tmp_path: Path) -> None:
    levels = greys(clip(tmp_path / "a.mkv", pq(GREYS), PQ, peak=1000), tmp_path / "out")
    assert (np.diff(levels) > 2 / 219).all(), levels
    assert levels[-1] == pytest.approx(1, abs=0.01)


def test_a_ramp_of_pq_stays_a_ramp(tmp_path: Path) -> None:
    ramp = np.linspace(0, float(pq(1000)), 60)
    levels = greys(clip(tmp_path / "a.mkv", ramp, PQ), tmp_path / "out")
    assert (np.diff(levels) > -0.5 / 219).all()
    assert np.abs(np.diff(levels, n=2)).max() < 0.03  # no break on the way
    assert levels[-1] - levels[0] > 0.99


def test_greys_stay_grey(tmp_path: Path) -> None:
    frame = decode_video(made(clip(tmp_path / "a.mkv", pq(GREYS), PQ), tmp_path / "out", "mp4"), limit=1).frames[0]
    for plane in (1, 2):
        assert np.abs(plane_of(frame, plane).astype(int) - 128).max() <= 1


@pytest.mark.parametrize("nits", [100, 203, 600])
@pytest.mark.parametrize("colour", [PQ, HLG], ids=["pq", "hlg"])
def test_saturated_colours_keep_their_hue(tmp_path: Path, colour: Colour, nits: int) -> None:
    """BT.709's primaries and their mixtures, in BT.2020's terms, at up to three times reference white."""
    linear = (np.array(SATURATED) / 255) ** 2.4 @ TO_2020.T * nits
    signals = pq(linear) if colour is PQ else _hlg_of_display(linear)
    path = clip(tmp_path / "a.mkv", np.repeat(signals, 2, axis=0), colour)
    frame = decode_video(made(path, tmp_path / "out", "mp4"), limit=1).frames[0]
    for patch, wanted in zip(patch_colours(shown(frame), len(SATURATED)), SATURATED, strict=True):
        # of linear light: there, less saturation is no other hue
        hue, saturation, _ = colorsys.rgb_to_hsv(*(np.clip(patch, 0, 255) / 255) ** 2.4)
        expected = colorsys.rgb_to_hsv(*(np.array(wanted) / 255) ** 2.4)[0]
        apart = abs((hue - expected + 0.5) % 1 - 0.5) * 360
        assert apart < 6, (wanted, patch)
        # what is three times as bright as SDR's white can't be wholly saturated there
        assert saturation > (0.8 if nits <= 203 else 0.5), (wanted, patch)


def _hlg_of_display(light: Array) -> Array:
    """HLG's signal of a display's light in cd/m², at a peak of 1000: the inverse of BT.2100's OOTF."""
    luminance = light @ np.array([0.2627, 0.6780, 0.0593]) / 1000
    scene: Array = light / 1000 * luminance[:, None] ** (1 / 1.2 - 1)
    return hlg(np.clip(scene, 0, 1))


def test_colours_outside_bt_709_lose_saturation_and_no_hue_breaks(tmp_path: Path) -> None:
    """From BT.2020's green to its red in small steps: the hue turns one way, without a jump."""
    share = np.linspace(0, 1, 60)[:, None] ** 2
    linear = ((1 - share) * np.array([0, 1, 0]) + share * np.array([1, 0, 0])) * 203
    path = clip(tmp_path / "a.mkv", pq(np.repeat(linear, 2, axis=0)), PQ)
    frame = decode_video(made(path, tmp_path / "out", "mp4"), limit=1).frames[0]
    hues = [colorsys.rgb_to_hsv(*(np.clip(rgb, 0, 255) / 255))[0] * 360 for rgb in patch_colours(shown(frame), 60)]
    hues = [hue - 360 if hue > 300 else hue for hue in hues]
    steps = np.diff(hues)
    assert (steps < 2).all(), hues
    assert np.abs(steps).max() < 25, hues


def test_what_makes_no_sense_as_a_peak_is_not_believed() -> None:
    def told(display: int | None, max_cll: int | None) -> int:
        corners = dict.fromkeys(("green", "blue", "red", "white"), (0, 0))
        mastering = None
        if display is not None:
            mastering = MasteringDisplay(**corners, max_luminance=display * 10_000, min_luminance=0)
        content = None if max_cll is None else (max_cll, 0)
        return source_peak(PQ.model_copy(update={"mastering_display": mastering, "max_cll": content}))

    assert told(None, None) == told(0, 0) == told(99, 20_000) == 1000
    assert told(4000, None) == told(4000, 0) == told(4000, 65_535) == 4000
    assert told(4000, 1200) == 1200
    assert source_peak(HLG.model_copy(update={"max_cll": (4000, 100)})) == 1000


@pytest.mark.parametrize("peak", [100, 203, 204, 300, 1000, 4000, 10_000])
def test_the_curve_rises_from_black_to_white(peak: int) -> None:
    light = np.linspace(0, peak, 400)
    mapped = tone_mapped(light, peak)
    assert (np.diff(mapped) > 0).all()
    assert mapped[0] == pytest.approx(0, abs=1e-6)
    assert mapped[-1] == pytest.approx(min(peak / 203, 1), abs=1e-3)


def test_the_plan_says_the_peak(tmp_path: Path) -> None:
    made_clip = clip(tmp_path / "a.mkv", pq(GREYS), PQ, peak=4000)
    assert "tone-mapped from 4000 cd/m² to BT.709" in planned(made_clip, "mp4").reason
    assert any(isinstance(step, ToneMap) and step.peak == 4000 for step in planned(made_clip, "mp4").filters)


def test_setting_up_takes_less_than_a_second() -> None:
    """Processor time: what FFmpeg's own colour conversion took seconds for."""
    began = time.process_time()
    lookup_picture(ToneMap(width=160, height=120, pixel_format="yuv420p", transfer="smpte2084", peak=1717))
    assert time.process_time() - began < 1
